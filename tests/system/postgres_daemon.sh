#!/usr/bin/env bash
# The daemon on PostgreSQL: what it tells of the WAL that it reads, and of relays that share.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

start_server wal_level=logical max_replication_slots=2 max_wal_senders=5 \
	max_slot_wal_keep_size=1MB

put() { # TABLE N
	sql "INSERT INTO $1 SELECT gen_random_uuid(), 'order', '7', 'Made', '{}' FROM generate_series(1, $2)"
}

# ---- the WAL ----

"$wherry" create "$url#read" --layout debezium >/dev/null
"$wherry" create "$url#refused" --layout debezium --stream >/dev/null
"$wherry" create "$url#shared" --partitions >/dev/null
"$wherry" create "$url#routed" --layout debezium >/dev/null
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
defaults: {lease: 2s}
relays:
  - {name: read, from: '$url#read', to: 'file:read.out'}
  - {name: refused, from: '$url#refused', to: 'exec:exit 65'}
  - {name: one, from: '$url#shared', to: 'null:'}
  - {name: two, from: '$url#shared', to: 'null:'}
END
start_daemon wherry.yaml
slots() {
	answers "SELECT count(*) FROM pg_replication_slots WHERE active" 2
}
check "relays read their slots" until_true 30 slots
put read 10
put refused 3
check "a relay that reads the WAL delivers" until_true 30 lines read.out 10
metrics "its slot is there, is read, and is not behind" \
	'[v("wherry_stream_slot" + what, relay="read") for what in ("", "_lost", "_read")]
	 == [1, 0, 1]
	 and v("wherry_stream_lag_seconds", relay="read") == 0'
metrics "what died where no row says so is told" \
	'v("wherry_stream_dead", relay="refused") == 3 and v("wherry_dead_total", relay="refused") == 3
	 and v("wherry_stream_dead", relay="read") == 0'
metrics "relays that share an outbox are told apart, with their partitions" \
	'sorted(int(n) for l, n in all_of("wherry_lease_partitions") if l["relay"] == "one") == [32, 32]
	 and {l["owner"].split("@")[0] for l, e in all_of("wherry_lease_epoch")
	      if l["relay"] == "two" and e > 0} == {"one", "two"}
	 and v("wherry_lease_left_seconds", relay="one") > 0'
metrics "where no WAL is read no lag is told" 'v("wherry_stream_lag_bytes", relay="one") is None'

# ---- a slot that cannot be made ----

echo "  - {name: routed, from: '$url#routed', to: 'null:'}" >>wherry.yaml
kill -HUP "$daemon"
metrics "it is missed" \
	'v("wherry_stream_slot", relay="routed") == 0 and v("wherry_stream_dead", relay="routed") == 0'

# ---- one that is behind ----

sed -i "/name: read/s/'file:[^']*'/'exec:exit 1', down_after: 2/" wherry.yaml
kill -HUP "$daemon"
until_true 20 metric 'v("wherry_delivered_total", relay="read") == 0'
put read 1000
metrics "what is not delivered is lag" \
	'v("wherry_stream_lag_bytes", relay="read") > 100000
	 and v("wherry_stream_retained_bytes", relay="read") > 100000'

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
