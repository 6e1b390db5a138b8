#!/usr/bin/env bash
# The daemon on PostgreSQL: what it tells of the log that it streams, and of relays that share.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

start_server wal_level=logical max_replication_slots=2 max_wal_senders=5 \
	max_slot_wal_keep_size=1MB

put() { # TABLE N
	sql "INSERT INTO $1(topic, payload) SELECT 't', '{}' FROM generate_series(1, $2)"
}

# ---- a log that is streamed ----

"$wherry" create "$url" --layout native >/dev/null
"$wherry" create "$url#kept" --layout native --stream >/dev/null
"$wherry" create "$url#shared" --partitions >/dev/null
"$wherry" create "$url#routed" --layout debezium >/dev/null
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
defaults: {lease: 2s}
relays:
  - {name: marked, from: '$url', to: 'file:marked.out', engine: stream}
  - {name: kept, from: '$url#kept', to: 'exec:exit 65', engine: stream, on_done: keep}
  - {name: one, from: '$url#shared', to: 'null:'}
  - {name: two, from: '$url#shared', to: 'null:'}
END
start_daemon wherry.yaml
put outbox 10
put kept 3
check "a relay that streams delivers" until_true 30 lines marked.out 10
metrics "its slot is there, is read, and is not behind" \
	'[v("wherry_stream_slot" + what, relay="marked") for what in ("", "_lost", "_read")]
	 == [1, 0, 1]
	 and v("wherry_stream_lag_seconds", relay="marked") == 0'
metrics "what died where no row says so is told" \
	'v("wherry_stream_dead", relay="kept") == 3 and v("wherry_dead_total", relay="kept") == 3
	 and v("wherry_stream_dead", relay="marked") == 0'
metrics "relays that share an outbox are told apart, with their partitions" \
	'sorted(int(n) for l, n in all_of("wherry_lease_partitions") if l["relay"] == "one") == [32, 32]
	 and {l["owner"].split("@")[0] for l, e in all_of("wherry_lease_epoch")
	      if l["relay"] == "two" and e > 0} == {"one", "two"}
	 and v("wherry_lease_left_seconds", relay="one") > 0'
metrics "where nothing is streamed no lag is told" 'v("wherry_stream_lag_bytes", relay="one") is None'

# ---- a layout that is streamed by default, and a slot that cannot be made ----

echo "  - {name: routed, from: '$url#routed', to: 'null:'}" >>wherry.yaml
kill -HUP "$daemon"
metrics "a slot is missed where the layout is streamed, though no engine is set" \
	'v("wherry_stream_slot", relay="routed") == 0 and v("wherry_stream_dead", relay="routed") == 0'

# ---- one that is behind ----

sed -i "/name: marked/s/'file:[^']*'/'exec:exit 1', down_after: 2/" wherry.yaml
kill -HUP "$daemon"
until_true 20 metric 'v("wherry_delivered_total", relay="marked") == 0'
put outbox 1000
metrics "what is not delivered is lag" \
	'v("wherry_outbox_pending", relay="marked") + v("wherry_outbox_failed", relay="marked") == 1000
	 and v("wherry_stream_lag_bytes", relay="marked") > 100000
	 and v("wherry_stream_retained_bytes", relay="marked") > 100000'

# ---- one that nobody reads ----

sed -i "/name: marked/s/'exec:.*/'exec:exit 1', down_after: 2, engine: exclusive}/" wherry.yaml
kill -HUP "$daemon"
metrics "a slot that nobody reads any more is told, also to who does not stream" \
	'v("wherry_stream_slot", relay="marked") == 1 and v("wherry_stream_slot_read", relay="marked") == 0'
for _ in 1 2 3; do
	sql "SELECT pg_switch_wal(); CREATE TABLE x(); DROP TABLE x; CHECKPOINT" >/dev/null
done
metrics "and that the server gave it up" \
	'v("wherry_stream_slot", relay="marked") == 0
	 and v("wherry_stream_slot_lost", relay="marked") == 1
	 and v("wherry_stream_lag_bytes", relay="marked") is None'
sql "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
     WHERE wal_status = 'lost'" >/dev/null
metrics "when it is gone, nothing" 'v("wherry_stream_slot", relay="marked") is None'
stop_daemon

# ---- what is known before ----

cat >bad.yaml <<'END'
relays:
  - name: a
    from: postgres://u:hunter2@h/d?no_such=1
    to: 'null:'
END
w check bad.yaml
expect "check says that a URL is none of PostgreSQL's" 1 \
	"err:bad.yaml:3:11: from: the URL has the option 'no_such'" "no:hunter2"
finish
