#!/usr/bin/env bash
# `wherry doctor`: each condition is made, on a real database; the finding appears, and is
# gone when its advice was followed.
#
# Writes TAP.

# shellcheck source=tests/system/doctor.bash
. "$(dirname "$0")/doctor.bash"

# ---- what every database has ----

# state STATE ATTEMPTS ERROR TIME: what became of message 2; the error and the time are SQL.
state() {
	run "DELETE FROM outbox_exception WHERE id = 2;
		INSERT INTO outbox_exception(subscription, id, state, attempts, last_error, next_retry_at)
		VALUES ('relay', 2, $1, $2, $3, $4)"
}

common() { # LATER EARLIER: an hour from now, and an hour ago, as the SQL of a column's value
	local later=$1 earlier=$2 gone number

	finds "nothing ready and no relay is a warning" relay warn 'no relay is running'
	run "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'k', '{}')"
	finds "a message and no relay are bad" relay bad 'while messages are ready'
	of_message "the message is said to wait for one" 1 bad 'no relay is running'
	w relay "$url" file:out.ndjson --until-empty --timeout 60s
	gone=$(run 'SELECT process FROM wherry_lease')
	of_message "a message that left is fine" 1 ok 'delivered'
	doctor
	expect "then nothing is bad" 0 'no:bad '
	run "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'k', '{}')"
	w pause "$url"
	finds "a paused outbox is found" paused bad 'has been paused for'
	of_message "so the message is said to wait" 2 bad 'is paused'
	follow paused
	mended paused
	state 3 2 "'no route'" "$later"
	run "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'k', '3'), ('t', 'k', '4')"
	finds "a failed message is found, with what waits behind it" held warn \
		'failed 2 times: no route; it is due in 59m'
	finds "which is counted" held warn 'and of the next messages 2 wait'
	of_message "it is said when it is due" 2 bad 'the next is due in 59m'
	state 3 2 "'no route'" "$earlier"
	finds "if its time has come, that it is due now" held warn 'no route; it is due now, and'
	state 3 2 "'no route'" "$later"
	run "UPDATE wherry_lease SET owner = 'boat', process = '', members = '', expires_at = $later, clean = 0"
	of_message "one behind it is said to wait for it" 4 warn 'waits behind message 2 of its key'
	run "UPDATE wherry_lease SET expires_at = $earlier, clean = 1"
	follow held
	mended held
	state 4 5 "'no use'" NULL
	finds "a dead one is found" parked warn 'is dead after 5 attempts: no use'
	of_message "it is said that it was given up" 2 bad 'given up after 5 attempts'
	follow parked
	mended parked
	run "UPDATE outbox SET created_at = $earlier WHERE id = 2;
		UPDATE wherry_lease SET owner = 'boat', process = '', members = '', expires_at = $later, clean = 0"
	# Two relays of this machine whose processes have ended.
	for number in 1 2; do
		run "INSERT INTO wherry_lease (outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, suspects, process)
			VALUES ('outbox', 7$number, 'log', 'gone', 1, $later, 1, 0, 1, 0, '$gone$number')"
	done
	doctor
	expect "the relay that leads is named, whatever others have ended" 0 \
		"out:ok    relay               boat relays the outbox" "no:gone"
	run "DELETE FROM wherry_lease WHERE owner = 'gone'"
	finds "what lies though a relay leads is found" backlog warn 'message 2 has been ready for'
	of_message "and told of the message" 2 ok 'what may keep it: message 2 has been ready'
	run "UPDATE outbox SET created_at = $later WHERE id = 2"
	of_message "one that is young is said to leave soon" 2 ok 'at the latest within 10s'
	run "UPDATE wherry_lease SET expires_at = $earlier, clean = 1"
	mended backlog
	w relay "$url" file:out.ndjson --until-empty --timeout 60s
	of_message "a number that was not given out is told" 999 bad 'ids up to 4 have been given out'
	of_message "and so is a message id that is nowhere" nobody bad "no message 'nobody'"
	run 'DROP TABLE outbox_exception'
	finds "a missing table is found" tables bad 'outbox_exception'
	follow tables
	mended tables
	run "CREATE TABLE clock AS SELECT ms FROM wherry_clock"
	run "DROP VIEW wherry_clock; CREATE VIEW wherry_clock AS SELECT ms - 3600000 AS ms FROM clock"
	finds "a clock that is an hour off is told" clock warn "1h"
	run "DROP VIEW wherry_clock; DROP TABLE clock"
	"$wherry" create "$url" --print --all >create.sql && run "$(cat create.sql)" >/dev/null 2>&1
	mended clock
}

# Servers take a while to start: until they are needed.
server_launch careless max_connections=12
server_launch sound fsync=on full_page_writes=on autovacuum=on autovacuum_naptime=1d

# ---- SQLite ----

url=sqlite:$tmp/shop.db
shell=(sqlite3 -cmd '.timeout 5000' "$tmp/shop.db")
w create "$url"
common "(SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) + 3600000" \
	"(SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) - 3600000"
finds "a connection that syncs less is told" durability warn 'a power loss' \
	--set db.synchronous=normal
mended durability

mkfifo talk
"${shell[@]}" <talk >answer 2>&1 &
pids+=($!)
exec 7>talk
echo "BEGIN IMMEDIATE; SELECT 'writing';" >&7
until_true 10 grep -q writing answer
finds "a writer that does not end is found" writing bad 'locked' --set db.busy_timeout=50ms
echo 'ROLLBACK;' >&7
mended writing
exec 7>&-
wait "${pids[-1]}"

run "PRAGMA journal_mode=delete" >/dev/null
mkfifo again
"${shell[@]}" <again >answer 2>&1 &
pids+=($!)
exec 7>again
echo "BEGIN; SELECT count(*) || 'reading' FROM outbox;" >&7
until_true 10 grep -q reading answer
finds "another journal mode than WAL is told" journal warn 'delete' --set db.busy_timeout=50ms
exec 7>&-
wait "${pids[-1]}"
follow journal
mended journal
run "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
	INSERT INTO outbox(topic, payload) SELECT 't', hex(zeroblob(1000)) FROM n;
	DELETE FROM outbox"
finds "a file that is mostly empty is told" bloat warn 'the file takes'
follow bloat
mended bloat
w doctor "$url" --json
json "as JSON it has the same" 'd["table"] == "outbox" and d["bad"] == 0 and d["warn"] == 1 and
	[f["level"] for f in d["findings"] if f["check"] == "relay"] == ["warn"]'
w doctor "$url" --verbose
expect "for people there is a line for each finding" 0 "out:warn  relay " "out:      to do " \
	"out:ok    tables "
w doctor "sqlite:$tmp/nowhere.db"
expect "a database that is not there is an error" 1 "err:nowhere.db" "is:"
w doctor "$url" --older-than soon
expect "an age needs a unit" 2 "err:older-than"

# ---- tables of another program ----

"$wherry" create sqlite:#outbox_events --layout event-bus --print | sqlite3 bus.db
w doctor sqlite:bus.db#outbox_events --json
json "tables without a lease are looked at as far as they go" \
	'd["bad"] == 0 and "relay" not in {f["check"] for f in d["findings"]}'

# ---- PostgreSQL ----

server_await careless
case $? in
0) ;;
77)
	skip "PostgreSQL" "no server is installed"
	finish
	;;
*) result 1 "a server starts" "it does not" && finish ;;
esac
url="postgres://wherry@/postgres?host=$folder"
shell=(sql_on "$folder" wherry)
w create "$url"
finds "fsync that is off is found" durability bad 'fsync is off'
finds "and full_page_writes" durability warn 'full_page_writes is off'
finds "autovacuum that is off is found" autovacuum warn 'autovacuum is off'
mkfifo many
for ((i = 0; i < 8; i++)); do
	psql -X -q -h "$folder" -U wherry postgres <many >/dev/null 2>&1 &
	pids+=($!)
done
exec 7>many
until_true 20 test 8 = "$(run "SELECT 8")"
until_true 20 eval 'doctor; is_found connections warn "of 9 connections"'
finds "connections that are nearly used up are told" connections warn 'of 9 connections'
exec 7>&-
mended connections

server_await sound
url="postgres://wherry@/postgres?host=$folder"
shell=(sql_on "$folder" wherry)
w create "$url"
doctor
check "a server as it should be has nothing else than that no relay runs" \
	is "$(grep -v '^ok' <<<"$out" | cut -c 1-25 | xargs)" 'warn relay to do'
common "now() + interval '1 h'" "now() - interval '1 h'"

# ---- sessions ----

# session NAME SQL: one that stays; its process is the last of pids.
session() {
	mkfifo "$1"
	PGAPPNAME=$1 psql -X -q -A -t -h "$folder" -U wherry postgres <"$1" >"$1.out" 2>&1 &
	pids+=($!)
	exec 7>"$1"
	printf '%s;\n' "$2" "SELECT 'so far'" >&7
	until_true 20 grep -q 'so far' "$1.out"
}

session sleepy "BEGIN; INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
finds "a transaction that stays open is found, by pid" long-transactions warn \
	"(sleepy, user wherry) is 'idle in transaction'" --older-than 0s
doctor
check "but not while it is young" is_well long-transactions
of_message "a message that is not there may be in it" nobody bad '(sleepy) has written since'
doctor --older-than 0s
follow long-transactions
mended long-transactions --older-than 0s
exec 7>&-

session locker 'BEGIN; LOCK TABLE outbox'
finds "a lock on the table is found" locks bad 'AccessExclusiveLock' --set db.busy_timeout=50ms
follow locks
mended locks
exec 7>&-

run "BEGIN; INSERT INTO wherry_outbox(name) VALUES ('gone'); PREPARE TRANSACTION 'left'"
of_message "a message that is not there may be in it" nobody bad "prepared transaction 'left'"
finds "a prepared transaction is found" prepared bad "'left' of wherry" --older-than 0s
follow prepared
mended prepared --older-than 0s
run "DELETE FROM wherry_outbox WHERE name = 'gone'"

# ---- what create makes ----

run 'ALTER TABLE outbox DISABLE TRIGGER outbox_wake'
finds "a trigger that is disabled is found" trigger warn 'outbox has its trigger disabled'
follow trigger
mended trigger
run 'DROP TRIGGER wherry_wake ON wherry_lease'
finds "a trigger that is missing is found" trigger warn 'wherry_lease has no trigger'
follow trigger
mended trigger
for function in wherry_wake wherry_wake_control; do
	run "CREATE OR REPLACE FUNCTION $function() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
	finds "an emptied function $function is found" trigger warn "has a trigger with another function $function()"
	follow trigger
	mended trigger
done
run "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_tx'::regclass"
finds "an index that is not valid is found" invalid bad 'outbox_tx'
follow invalid
mended invalid
run 'DROP INDEX outbox_tx; DROP INDEX outbox_done'
finds "a missing index is found" indexes bad 'outbox_tx'
finds "and the other as well" indexes bad 'outbox_done'
follow indexes
mended indexes
run 'ALTER TABLE outbox ALTER COLUMN id SET CACHE 20'
finds "an identity with a cache is found" identity bad '20 ids at once'
follow identity
mended identity
run "INSERT INTO outbox(id, topic, payload) VALUES (5000, 't', '{}')"
finds "an identity behind its rows is found" identity bad 'producers will fail'
follow identity
mended identity

# ---- partitions ----

w create "$url" --partitions
run "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, clean, unclean,
		win, suspects, mask)
	SELECT 'outbox', 7 + i, 'log', 'boat' || i, 1, now() + interval '1 hour', 0, 0, 1, 0,
		(ARRAY[4294967295, 65535::bigint << 32])[i] FROM generate_series(1, 2) AS i"
finds "partitions that nobody has are found" partitions warn '16 of 64 partitions have no relay'
expect "and who has the others is told" 0 "out:boat2 has 16 of 64 partitions"
run "UPDATE wherry_lease SET mask = ~4294967295 WHERE owner = 'boat2'"
mended partitions
w status "$url"
expect "status tells who has how many" 0 "out:partitions  32 of 64: boat2, epoch 1"
w status "$url" --json
expect "as JSON, too" 0 'out:"relays":[{"owner":"boat1","partitions":32,'
run "DELETE FROM wherry_lease"

# ---- the server ----

run "CREATE ROLE reader LOGIN; GRANT SELECT ON outbox, wherry_schema, wherry_outbox,
	wherry_lease, wherry_clock TO reader"
url="postgres://reader@/postgres?host=$folder"
finds "a role that lacks rights is found" rights bad 'INSERT, UPDATE, DELETE on public.outbox'
finds "and one that does not see others" activity warn 'reader'
for ((i = 0; i < 4; i++)); do # one for each table
	follow rights
	doctor
done
mended rights
follow activity
mended activity
url="postgres://wherry@/postgres?host=$folder"
run "ALTER ROLE wherry SET synchronous_commit = off; ALTER ROLE reader SET synchronous_commit = off"
finds "asynchronous commits are told" durability warn 'synchronous_commit is off'
finds "of other roles as well" durability warn 'synchronous_commit of role reader is off'
run 'ALTER ROLE reader RESET synchronous_commit; ALTER ROLE wherry RESET synchronous_commit'
mended durability
run "ALTER SYSTEM SET synchronous_standby_names = 'ghost'; SELECT pg_reload_conf()" >/dev/null
until_true 20 eval 'doctor; is_found sync-standby bad'
finds "a synchronous standby that is away is found" sync-standby bad "'ghost'"
follow sync-standby
mended sync-standby
run 'ALTER TABLE outbox SET (autovacuum_enabled = false)'
finds "autovacuum that is off for the table is found" autovacuum warn 'for the table "public"."outbox"'
follow autovacuum
mended autovacuum
run "ALTER ROLE wherry SET default_transaction_read_only = on"
finds "a database that is read only is found" writing bad 'target_session_attrs'
run "SET default_transaction_read_only = off; ALTER ROLE wherry RESET default_transaction_read_only"
mended writing

w create "$url" --unique-ids
run "INSERT INTO outbox(message_id, topic, payload)
	SELECT i || repeat(md5(i::text), 15), 't', to_json(sha512(i::text::bytea))
	FROM generate_series(1, 20000) AS i; ANALYZE outbox; DELETE FROM outbox"
until_true 20 eval 'doctor; is_found vacuum warn'
finds "dead rows that are many are told" vacuum warn 'it was never vacuumed'
follow vacuum
mended vacuum
run "INSERT INTO outbox(topic, payload) VALUES ('t', '{}'); VACUUM outbox"
finds "an index that is mostly empty is told" bloat warn 'the index outbox_message_id takes'
run 'REINDEX TABLE CONCURRENTLY outbox; VACUUM outbox'
mended bloat

# ---- a standby, and a pooler ----

as=() # neither runs as root
[ "$(id -u)" -ne 0 ] || {
	as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
	mkdir standby
	chmod 755 "$tmp"
	chown postgres: standby
}
bin=$(run "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
"${as[@]}" "$bin/pg_basebackup" -h "$folder" -U wherry -D "$tmp/standby/data" -R -c fast \
	--no-sync >standby.log 2>&1 &&
	"${as[@]}" "$bin/postgres" -D "$tmp/standby/data" -c listen_addresses= \
		-c unix_socket_directories="$tmp/standby" -c fsync=off -c max_connections=60 \
		-c max_prepared_transactions=5 >>standby.log 2>&1 &
pids+=($!)
disown
until_true 30 "$bin/pg_isready" -q -h "$tmp/standby"
url="postgres://wherry@/postgres?host=$tmp/standby"
finds "a standby is found not to be written" writing bad 'being a standby'
finds "and named" server warn 'it is a standby'
"${as[@]}" "$bin/pg_ctl" -D "$tmp/standby/data" promote -w >>standby.log 2>&1
mended writing
"${as[@]}" "$bin/pg_ctl" -D "$tmp/standby/data" -m immediate stop >>standby.log 2>&1

if command -v pgbouncer >/dev/null; then
	cat >pgbouncer.ini <<-END
		[databases]
		* = host=$folder user=wherry
		[pgbouncer]
		listen_addr =
		unix_socket_dir = $folder
		listen_port = 6432
		auth_type = any
		user = postgres
		pool_mode = session
		ignore_startup_parameters = extra_float_digits,options
	END
	"${as[@]}" pgbouncer -q "$tmp/pgbouncer.ini" >pgbouncer.log 2>&1 &
	pids+=($!)
	disown
	until_true 20 test -S "$folder/.s.PGSQL.6432"
	url="postgres://wherry@/postgres?host=$folder&port=6432"
	finds "a pooler is found" pooler warn 'a pooler is between'
else
	skip "a pooler is found" "pgbouncer is not installed"
fi
finish
