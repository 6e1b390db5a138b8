#!/usr/bin/env bash
# Makes messages stand still in each way that docs/internals/standing-still.md lists for
# PostgreSQL, and compares status, doctor, /readyz and /metrics with the table.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/standing.bash
. "$source_dir/tests/system/standing.bash"

# doctor finds something bad if a crash of the machine can lose what was committed.
start_server wal_level=logical fsync=on

patient=(--older-than 2s)
sessions=0

# open_transaction SQL: a session writes, and stays in its transaction until end_transaction.
open_transaction() {
	local pipe=$tmp/session.$((sessions++))
	mkfifo "$pipe"
	psql -X -q -h "$folder" -U wherry "$base" <"$pipe" >/dev/null 2>&1 &
	exec 4>"$pipe"
	echo "SET application_name = 'foreign'; BEGIN; $1;" >&4
	until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'foreign'
		AND state = 'idle in transaction'" 1
}

end_transaction() {
	echo 'ROLLBACK; \q' >&4
	exec 4>&-
	until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'foreign'" 0
}

# new DATABASE [OPTION...]: an empty outbox in a database of its own.
new() {
	base=$1
	shift
	psql -X -q -h "$folder" -U wherry postgres -c "CREATE DATABASE $base"
	db="postgres://wherry@/$base?host=$folder"
	w create "$db" "$@"
}

sql() { # SQL; in the database of the case
	psql -X -q -A -t -h "$folder" -U wherry "${base:-postgres}" -v ON_ERROR_STOP=1 -c "$1"
}

all_done() { # N
	[ "$(state_count "$db" done)" = "$1" ]
}

silent_server

# ---- the WAL ----

# Before any transaction is left open: a replication slot begins when all that are open have ended.
new published --layout debezium --stream
run_to null:
sql "ALTER PUBLICATION $(sql 'SELECT pubname FROM pg_publication') DROP TABLE outbox"
stands "the publication leaves out the table" daemon
quit_daemon

new dead --layout debezium --stream
run_to null:
sql "INSERT INTO wherry_dead (outbox, message_id, topic, aggregate_type, aggregate_id, payload, attempts, created_at, died_at)
	VALUES ('outbox', 'm', 't', '', '', '', 5, now(), now())"
stands "a message is dead in wherry_dead" daemon
quit_daemon

# ---- those that show after 15 s ----

if [ -n "$has_http" ]; then
	new kept --layout debezium --stream
	run_to "$silent" 'webhook: {timeout: 5m}' 'claim_timeout: 10m'
	one
	check "the message is in flight" until_true 30 metric 'v("wherry_in_flight", relay="r") == 1'
	kept_daemon=$daemon kept_port=$port
fi

# A row is locked, another one is delivered.
new claimed --layout eventferry
one
psql -X -q -h "$folder" -U wherry "$base" -c 'BEGIN; SELECT 1 FROM outbox FOR UPDATE; SELECT pg_sleep(600)' >/dev/null 2>&1 &
pids+=($!)
until_true 20 answers "SELECT count(*) FROM pg_locks WHERE mode = 'RowShareLock' AND relation = 'outbox'::regclass" 1
run_to null:
one
check "the other message is delivered" until_true 30 answers 'SELECT count(*) FROM outbox WHERE status = 2' 1
claimed_daemon=$daemon claimed_port=$port

new leased
run_to null:
psql -X -q -h "$folder" -U wherry "$base" -c 'BEGIN; SELECT 1 FROM wherry_lease FOR UPDATE; SELECT pg_sleep(600)' >/dev/null 2>&1 &
pids+=($!)
until_true 20 answers "SELECT count(*) FROM pg_locks WHERE mode = 'RowShareLock' AND relation = 'wherry_lease'::regclass" 1
one
leased_daemon=$daemon leased_port=$port

# A row of a log is written by nobody, so a lock on it is no warning.
new unread
psql -X -q -h "$folder" -U wherry "$base" -c 'BEGIN; SELECT 1 FROM outbox FOR UPDATE; SELECT pg_sleep(600)' >/dev/null 2>&1 &
pids+=($!)

new writing
open_transaction "CREATE TABLE written()"
new begun --layout debezium --stream
run_to null:
one
begun_daemon=$daemon begun_port=$port

# ---- the tables ----

new behind
run_to null:
sql "INSERT INTO outbox (id, topic, payload) OVERRIDING SYSTEM VALUE VALUES (10, 't', '{}')"
stands "the sequence is behind the rows" daemon
sql "$("$wherry" doctor "$db" | grep -o "SELECT setval([^\`]*")" >/dev/null
one
check "with the statement that doctor shows, messages are taken again" until_true 20 \
	all_done 2
quit_daemon

new locked
run_to null:
pid=$(sql 'SELECT pg_backend_pid()')
psql -X -q -h "$folder" -U wherry "$base" -c 'BEGIN; LOCK outbox IN SHARE MODE; SELECT pg_sleep(600)' >/dev/null 2>&1 &
pids+=($!)
stands "another session keeps the table locked" daemon
quit_daemon

new renamed
sql 'CREATE SCHEMA blue'
w create "$db#blue.outbox"
table='#blue.outbox'
run_to null:
sql 'ALTER SCHEMA blue RENAME TO green'
sql "INSERT INTO green.outbox (topic, payload) VALUES ('t', '{}')"
table='#green.outbox'
stands "the schema was renamed, under the new name" daemon
w create "$db#green.outbox"
w doctor "$db#green.outbox"
expect "create makes the functions again" "$status" "no:functions " # 1 once the lease has ended
table='#blue.outbox'
stands "the schema was renamed, under the old name" daemon
table=
quit_daemon

new shared --partitions
psql -X -q -h "$folder" -U wherry "$base" -c "SELECT pg_advisory_lock((1668::bigint << 32) + 'outbox'::regclass::oid::bigint), pg_sleep(600)" \
	>/dev/null 2>&1 &
pids+=($!)
until_true 20 answers "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1668 AND granted" 1
run_to null:
one
stands "another session holds the lock under which relays share keys" daemon
quit_daemon

new secured
sql 'CREATE ROLE secured LOGIN'
w create "$db" --grant secured=relay
db="postgres://secured@/$base?host=$folder"
run_to null:
sql "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
stands "row-level security hides messages from the role of the relay" daemon
sql "ALTER TABLE outbox DISABLE ROW LEVEL SECURITY"
check "and without it the relay delivers again" until_true 30 all_done 1
quit_daemon

# ---- what shows after 15 s ----

db="postgres://wherry@/begun?host=$folder" base=begun daemon=$begun_daemon port=$begun_port
stands 'a new slot waits for another transaction' daemon
end_transaction
quit_daemon
db="postgres://wherry@/claimed?host=$folder" base=claimed daemon=$claimed_daemon port=$claimed_port
stands "another session has locked a row, and relays compete" daemon
quit_daemon
db="postgres://wherry@/leased?host=$folder" base=leased daemon=$leased_daemon port=$leased_port
stands "another session has locked the lease" daemon
quit_daemon
w doctor "postgres://wherry@/unread?host=$folder" "${patient[@]}"
expect "a locked row of a log is no finding" "$status" no:-locks

if [ -n "$has_http" ]; then
	db="postgres://wherry@/kept?host=$folder" base=kept daemon=$kept_daemon port=$kept_port
	stands 'a relay that reads the WAL, and the destination gives no answer' daemon
	quit_daemon
else
	skip "a web server that gives no answer" "built without WHERRY_HTTP"
fi

# ---- settings of the server, with which it cannot go on for others ----

new synchronous
run_to null:
sql "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
sql 'SELECT pg_reload_conf()' >/dev/null
until_true 20 answers 'SHOW synchronous_standby_names' nobody
sql "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')" &
pids+=($!)
stands "commits wait for a synchronous standby that is away" daemon
sql 'ALTER SYSTEM RESET synchronous_standby_names'
sql 'SELECT pg_reload_conf()' >/dev/null
check "and when nothing waits for it, the message is delivered" until_true 20 all_done 1
quit_daemon

finish
