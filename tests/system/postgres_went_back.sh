#!/usr/bin/env bash
# A server loses its last transactions, here by going back to a copy of its files, and gives their numbers of rows and
# transactions out again.  Relays that had read what was lost leave out nothing that is written afterwards.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical
w create "$url"
w create "$url#events" --layout debezium --stream
w create "$url#fast" --stream
names=(table fast stream)

put() { # WORD N: so many messages in each outbox
	sql "INSERT INTO outbox(topic, payload) SELECT 't', to_json('$1' || repeat('x', 900)) FROM generate_series(1, $2);
		INSERT INTO fast(topic, payload) SELECT 't', to_json('$1' || repeat('x', 900)) FROM generate_series(1, $2);
		INSERT INTO events SELECT gen_random_uuid(), 'order', 'k', 'Made', to_json('$1' || repeat('x', 900))
		FROM generate_series(1, $2)"
}

delivered() { # WORD N: by each relay
	for name in "${names[@]}"; do
		[ "$(grep -o "$1" "$name.out" | wc -l)" -ge "$2" ] || return 1
	done
}

# The server ends, and finds the copy of its files when it begins again.  Relays stand still meanwhile.
go_back() {
	kill -STOP "${pids[@]}"
	pid=$(cat "$folder/pid")
	kill -KILL "$pid"
	until_true 60 eval '! pgrep -P "$pid" >/dev/null'
	"${server_user[@]}" rm -rf data
	"${server_user[@]}" mv copy data
	echo "start $pid" >&9
	until_true 60 answers 'SELECT 1' 1
}

copy_data() { # While the server makes no checkpoint, a copy is what it would find after a crash.
	sql CHECKPOINT
	"${server_user[@]}" cp -a data copy
}

# It takes a message, and returns when the file `busy` is gone.
cat >take.sh <<'END'
cat >>"$1"
echo >>"$1"
while [ -e "$2" ]; do sleep 0.05; done
END
: >table.out >stream.out >fast.out
"$wherry" relay "$url#fast" "exec:sh $tmp/take.sh $tmp/fast.out $tmp/busy" --set exec.jobs=8 --set relay.source=wal 2>fast.log 9>&- &
pids+=($!)
until_true 60 grep -q 'event=streaming' fast.log
"$wherry" relay "$url" "exec:sh $tmp/take.sh $tmp/table.out $tmp/busy" --set exec.jobs=8 2>table.log 9>&- &
pids+=($!)
"$wherry" relay "$url#events" "file:$tmp/stream.out" 2>stream.log 9>&- &
pids+=($!)
put before 3
check "relays deliver" until_true 60 delivered before 3
check "and have written their positions" until_true 60 answers \
	"SELECT (SELECT max(high) FROM outbox_progress) = 3 AND (SELECT max(high) FROM fast_progress) = 3
	 AND (SELECT max(position) FROM wherry_stream) > 0" t
copy_data
before=$(sql 'SELECT max(position) FROM wherry_stream')
touch busy
put lost 3
check "what will be lost is in flight, or delivered" until_true 60 delivered lost 3
check "the relay that reads the WAL has written that" until_true 60 answers \
	"SELECT max(position) > $before FROM wherry_stream" t
go_back
check "the server has lost messages" answers 'SELECT count(*) FROM outbox' 3
put new 12
kill -CONT "${pids[@]}"
rm busy
check "all that was written afterwards is delivered" until_true 60 delivered new 12
for name in "${names[@]}"; do
	check "its log says what happened: $name" grep -q 'event=went-back' "$name.log"
done
check "status warns of what is certain" until_true 20 eval \
	"'$wherry' status '$url#events' | grep -q '^warning .*the relay began again: the database may lack messages'"
for of in "$url" "$url#events"; do
	check "status says it" until_true 20 eval \
		"'$wherry' status '$of' | grep -q 'may lack messages that were delivered'"
	check "and so does doctor" eval \
		"'$wherry' doctor '$of' | grep -q '^warn  other-server .*may lack messages that were delivered'"
done
check "they wait for no lease" [ "$(cat ./*.log | grep -c 'event=standby')" -eq 0 ]

# Nothing was written since the copy but by others, and the WAL is longer again when the relay comes back.
others() { sql "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, $1)"; }
sql "CREATE TABLE other(t text)"
check "no relay has anything to write" until_true 60 answers "SELECT max(high) >= 15 FROM outbox_progress" t
copy_data
others 3000
check "the relay has seen the WAL of others" until_true 60 answers \
	"SELECT bool_and(confirmed_flush_lsn > pg_current_wal_lsn() - 1000000) FROM pg_replication_slots WHERE NOT temporary" t
go_back
put again 3
others 6000
kill -CONT "${pids[@]}"
check "what was written where the WAL was before is delivered" until_true 30 delivered again 3
stop_server
finish
