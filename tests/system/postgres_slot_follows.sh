#!/usr/bin/env bash
# From version 17 on a standby copies the replication slot of Debezium's table.  When it takes over, the relay goes on, and
# what it delivered and the table agree.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

bin=${WHERRY_TEST_POSTGRES:-$(pg_config --bindir)}
start_server wal_level=logical max_wal_senders=6 max_replication_slots=8
if [ "$(sql 'SHOW server_version_num')" -lt 170000 ]; then
	printf '1..1\nok 1 - a slot follows a failover # SKIP the server is older than 17\n'
	stop_server
	exit 0
fi

number=0
put() { # N: events, each with the next number
	for ((i = 0; i < $1; i++)); do
		number=$((number + 1))
		psql -X -q -h "$at" -U wherry postgres -c "INSERT INTO events VALUES (gen_random_uuid(), 'order', '$number', 'Made', '{}')"
	done
}

arrived() { # NUMBER
	grep -q "\"key\":\"$1\"" out.ndjson
}

of_standby() { # SQL
	psql -X -q -A -t -h "$folder/second" -U wherry postgres -c "$1"
}

at=$folder
w create "$url#events" --layout debezium --stream
sql "SELECT pg_create_physical_replication_slot('standby'); CHECKPOINT" >/dev/null
pid=$(cat "$folder/pid")
kill -INT "$pid" # It ends in good order, and is copied.
until_true 30 eval '! kill -0 "$pid" 2>/dev/null || [ ! -e "$folder/data/postmaster.pid" ]'
"${server_user[@]}" cp -a data second_data
"${server_user[@]}" sh -c 'rm -rf second_data/pg_replslot/* second_data/postmaster.pid; touch second_data/standby.signal; mkdir second'
echo "start $pid" >&9
until_true 30 answers "SELECT 1" 1
"${server_user[@]}" "$bin/postgres" -D second_data -c listen_addresses= -c "unix_socket_directories=$folder/second" \
	-c fsync=off -c wal_level=logical -c max_wal_senders=6 -c max_replication_slots=8 -c max_connections=60 \
	-c max_prepared_transactions=5 -c hot_standby_feedback=on -c sync_replication_slots=on -c primary_slot_name=standby \
	-c "primary_conninfo=host=$folder user=wherry dbname=postgres" >second.log 2>&1 9>&- &
pids+=($!)
sql "ALTER SYSTEM SET synchronized_standby_slots = 'standby'"
sql "SELECT pg_reload_conf()" >/dev/null

both="postgres://wherry@/postgres?host=$folder,$folder/second&target_session_attrs=read-write"
"$wherry" relay "$both#events" file:out.ndjson 2>relay.log 9>&- &
pids+=($!)
put 5
check "the relay delivers" until_true 20 arrived 5
check "the standby has the slot" until_true 30 eval \
	'[ "$(of_standby "SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary")" = 1 ]'
put 5
w doctor "$url#events"
check "doctor misses no slot on the standby" eval '! grep -q "^warn  failover" <<<"$out"'
pid=$(cat "$folder/pid")
kill -KILL "$pid"
of_standby "SELECT pg_promote()" >/dev/null
at=$folder/second
check "the standby takes over" until_true 30 eval '[ "$(of_standby "SELECT pg_is_in_recovery()")" = f ]'
put 5
check "the relay goes on by itself" until_true 20 arrived "$number"
check "and notices another server" until_true 5 grep -q 'event=failed-over' relay.log
check "all that the new server has was delivered" eval \
	'for key in $(of_standby "SELECT aggregateid FROM events"); do arrived "$key" || exit 1; done'
check "and nothing else" is "$(grep -o '"key":"[0-9]*"' out.ndjson | sort -u | wc -l)" "$(of_standby 'SELECT count(*) FROM events')"
check "each key once, but for what was in flight" eval '[ "$(wc -l <out.ndjson)" -le 20 ]'
stop_server
finish
