#!/usr/bin/env bash
# Who may connect to PostgreSQL, and do what; settings of roles and databases; a full disk.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

# ---- passwords ----

sql "CREATE ROLE shop LOGIN PASSWORD 'Right1'"
sql "CREATE DATABASE shop OWNER shop"
sed -i '1i local shop shop scram-sha-256' "$folder/data/pg_hba.conf"
sql "SELECT pg_reload_conf()" >/dev/null
shop="postgres://shop@/shop?host=$folder"
asks() { psql -X -w "$shop" -c 'SELECT 1' 2>&1 | grep -q 'no password'; }
check "the server asks for a password" until_true 20 asks

w status "$shop"
expect "without a password the ways to give one are named" 1 \
	"err:PGPASSWORD, ~/.pgpass" "err:no password supplied"
PGPASSWORD=Wrong1 w status "$shop"
expect "a wrong one is said to be wrong" 1 "err:password authentication failed" "no:Wrong1"
PGPASSWORD=Right1 w create "$shop"
expect "PGPASSWORD works" 0
echo "*:*:shop:shop:Right1" >"$tmp/.pgpass"
chmod 600 "$tmp/.pgpass"
HOME=$tmp w status "$shop"
expect "a password file works" 0
printf '[shop]\nhost=%s\ndbname=shop\nuser=shop\npassword=Right1\n' "$folder" >"$tmp/services"
PGSERVICEFILE=$tmp/services w status 'postgres://?service=shop'
expect "a service file works" 0
PGSERVICEFILE=$tmp/services w relay 'postgres://?service=shop' stdout: --until-empty
expect "for a relay too" 0

# ---- missing rights; postgres_log.sh tries what each role may and may not do ----

w create "$url" --unique-ids
sql "CREATE ROLE producer LOGIN; CREATE ROLE enqueuer LOGIN; CREATE ROLE relay LOGIN;
	CREATE ROLE operator LOGIN; CREATE ROLE nobody LOGIN"
as() { echo "postgres://$1@/postgres?host=$folder"; }
put() { # ROLE
	psql -X -q "$(as "$1")" -c "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
}

w status "$(as nobody)"
expect "a missing right is said with the table and the role" 1 \
	"err:permission denied for table wherry_schema (role nobody)" "no:GRANT" \
	"err:try: wherry create " "err: --grant nobody=operator, as the owner" "no:nobody@"
# The command of the last message, run as the owner of the tables.
follow() { # SENTENCE COMMAND...
	local sentence=$1 command
	shift
	command=$(sed -n 's/^  try: \(wherry .*\), as the owner$/\1/p' <<<"$err")
	echo "# $command"
	PGUSER=wherry bash -c "${command:-false}" >/dev/null 2>"$tmp/.advised" || {
		err="$command: $(cat "$tmp/.advised")"
		status=1
		expect "$sentence" 0
		return
	}
	w "$@"
	expect "$sentence" 0 "no:GRANT"
}
PATH=$build_dir:$PATH follow "what it advises gives the right" status "$(as nobody)"
sql "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM nobody; GRANT SELECT ON wherry_schema TO nobody"
w_in '{}' enqueue --lines "$(as nobody)" --topic t
expect "whatever the table is" 1 \
	"err:\`GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO nobody\`" \
	"err:try: wherry create " "err: --grant nobody=enqueuer, as the owner"
sql "GRANT SELECT ON outbox TO nobody"
w relay "$(as nobody)" stdout: --until-empty
expect "a relay that may not write ends with that sentence" 1 "err:(role nobody)"
w purge "$(as nobody)" --older-than 0s --yes
expect "so does a purge" 1 "err:(role nobody)"
w doctor "$(as nobody)"
expect "the doctor says once which checks it could not make" 1 \
	"out:this role may not read what these checks need: kept, paused, relay, " \
	"out: --grant nobody=operator\`, as the owner; or give doctor the URL of the relay" "no:permission denied" \
	"out:role nobody lacks " "out: on public.wherry_lease; SELECT" "out:as the owner of the tables: \`GRANT DELETE"
check "and once which rights a relay would need" is "$(grep -c '^bad   rights' <<<"$out")" 1
w create --kind queue "$url#rights"
w receive "$(as nobody)#rights"
expect "the way out names the kind of role that a command needs" 1 "err:try: wherry create --kind queue " \
	"err:#rights' --grant nobody=receiver, as the owner"
w send "$(as nobody)#rights" 1
expect "which is another one for a sender" 1 "err:#rights' --grant nobody=sender, as the owner"
w create "$(as nobody)#new"
expect "and create, which the owner of its tables runs" 1 "err:create it again as wherry: run \`wherry create "
sql "CREATE SCHEMA fresh; GRANT USAGE ON SCHEMA fresh TO nobody"
w create "$(as nobody)#fresh.new"
expect "and which needs the schema" 1 "err:permission denied for schema fresh" \
	"err:CREATE ON SCHEMA fresh TO nobody\`" "no:--grant"

may() { # ROLE=KIND...
	local grants=()

	for grant; do
		grants+=(--grant "$grant")
	done
	w create "$url" "${grants[@]}"
}
may producer=producer enqueuer=enqueuer relay=relay operator=operator
expect "create --grant gives each role its rights" 0
w create "$url" --grant producer=producer --print
check "and --print prints how" test "$(grep -c '^GRANT INSERT' <<<"$out")" -eq 1
w create "$url" --grant producer=king
expect "a kind that is not there is refused by name" 2 "err:producer=king"
w create sqlite:none.db --grant producer=producer
expect "and so is a database without roles" 2 "err:sqlite" "err:--grant"
check "before anything is made" test ! -e none.db
check "a producer in plain SQL needs no more" put producer
w_in '{"id":1}' enqueue --lines "$(as enqueuer)" --topic t --id /id
expect "nor one that enqueues" 0
calls() {
	psql -X -q "$(as enqueuer)" -v ON_ERROR_STOP=1 -c \
		"SELECT wherry_enqueue('t', '{}'::$1, key => 'k', lock_key => true)"
}
for type in text bytea json jsonb; do
	check "nor one that calls wherry_enqueue() with $type" calls $type
done
w_in '{"id":1}' enqueue --lines "$(as enqueuer)" --topic t --id /id
expect "and is told of duplicates" 0 "out:1 duplicate"
put producer
w relay "$(as relay)" stdout: --until-empty --timeout 60s --set outbox.retention=1ms --set relay.purge_every=100ms
expect "nor a relay that purges" 0 "err: 0 retried, 0 dead"
put producer
w relay "$(as relay)" 'exec:exit 65' --until-empty --timeout 60s
expect "nor one that buries" 3
operator=$(as operator)

# ---- and nothing else ----

may producer=producer enqueuer=enqueuer relay=relay operator=operator
denied() { # ROLE SQL
	psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate "$(as "$1")" -c "$2" 2>&1 |
		grep -q 42501
}
no() { # ROLE WHAT SQL
	check "role $1 may not $2" denied "$1" "$3"
}
put producer
for role in producer enqueuer; do
	no $role "empty the outbox" "TRUNCATE outbox"
	no $role "take the lease" "UPDATE wherry_lease SET expires_at = 'infinity'"
	no $role "pause the outbox" "UPDATE wherry_outbox SET paused_at = now()"
done
no producer "read message ids" "SELECT message_id FROM outbox"
for role in relay operator; do
	no $role "empty the outbox" "TRUNCATE outbox"
	no $role "alter it" "ALTER TABLE outbox ADD COLUMN x text"
	no $role "drop it" "DROP TABLE outbox"
	no $role "put a trigger on it" "CREATE TRIGGER t AFTER INSERT ON outbox FOR EACH STATEMENT
		EXECUTE FUNCTION wherry_wake()"
	no $role "replace a function" "CREATE OR REPLACE FUNCTION wherry_wake() RETURNS trigger
		LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
	no $role "make a table beside it" "CREATE TABLE wherry_other()"
	no $role "say which version the tables have" "UPDATE wherry_schema SET version = 9"
done
no relay "write a message" "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
no relay "change the text of one" "UPDATE outbox SET payload = '{}'"
no relay "pause the outbox" "UPDATE wherry_outbox SET paused_at = now()"
may relay=producer
no relay "do what it might before its rights were changed" "SELECT payload FROM outbox"
may relay=relay
w relay "$(as relay)" stdout: --until-empty --timeout 60s
expect "rights come back, too" 0

# ---- row-level security hides rows in silence ----

sql "CREATE ROLE worker LOGIN"
w create --kind queue "$url#rights" --grant worker=receiver
put producer
sql "SELECT wherry_send('rights', '{}')" >/dev/null
sql "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; ALTER TABLE rights ENABLE ROW LEVEL SECURITY"
hidden() { # WHAT ARGUMENT...: the command says that it may not see all rows, and the way out
	w "${@:2}"
	expect "with row-level security $1 fails, and names the way out" 1 "err:row-level security" \
		"err:ALTER ROLE " "err: BYPASSRLS" "no:--grant"
}
hidden "a relay" relay "$(as relay)" stdout: --until-empty --timeout 60s
hidden "status" status "$(as relay)"
hidden "a purge" purge "$operator" --older-than 0s
hidden "a relay of a queue" relay "$(as worker)#rights" stdout: --until-empty --timeout 60s
hidden "a receiver" receive "$(as worker)#rights"
hidden "a look at a queue" list "$(as worker)#rights"
w doctor "$(as relay)"
expect "the doctor says that it counts for a role" 1 "out:bad   row-security"
w doctor "$(as worker)#rights"
expect "of a queue, too" 1 "out:bad   row-security"
w doctor "$url"
check "and warns the owner, for whom it does not count" grep -q '^warn  row-security' <<<"$out"
sql "ALTER ROLE relay BYPASSRLS"
w relay "$(as relay)" stdout: --until-empty --timeout 60s
expect "a role that it does not count for delivers" 0 "err:1 delivered"
sql "ALTER TABLE outbox DISABLE ROW LEVEL SECURITY; ALTER TABLE rights DISABLE ROW LEVEL SECURITY"
w receive "$(as worker)#rights"
expect "and so does the receiver without it" 0

# ---- what a role or the server sets ----

sql "CREATE ROLE odd LOGIN SUPERUSER;
	ALTER ROLE odd SET default_transaction_isolation = serializable;
	ALTER ROLE odd SET lock_timeout = '1ms';
	ALTER ROLE odd SET idle_in_transaction_session_timeout = '1s';
	ALTER ROLE odd SET synchronous_commit = off;
	ALTER ROLE odd SET standard_conforming_strings = off;
	ALTER ROLE odd SET DateStyle = 'German';
	ALTER ROLE odd SET TimeZone = 'Asia/Kathmandu';
	ALTER ROLE odd SET bytea_output = escape"
w enqueue --lines "$(as odd)" --topic quakes --key /net --id /id --from "$quakes"
expect "a role's settings do not matter to enqueue" 0 "is:1707 enqueued, 0 duplicates"
w relay "$(as odd)" file:odd --until-empty --timeout 60s
expect "nor to a relay" 0 "err:1707 delivered, 0 retried, 0 dead"

# ---- what a database sets ----

sql "CREATE DATABASE odd"
sql "ALTER DATABASE odd SET standard_conforming_strings = off"
sql "ALTER DATABASE odd SET quote_all_identifiers = on"
sql "ALTER DATABASE odd SET escape_string_warning = off"
strange="postgres://wherry@/odd?host=$folder"
for command in "create" "create --kind queue" "create --kind delayed" "create --kind inbox" "create --kind cron"; do
	# shellcheck disable=SC2086 # two words
	if [ "$command" = "create --kind queue" ]; then w $command "$strange#jobs"; else w $command "$strange"; fi
	expect "\`wherry $command\` works where strings have escapes and names are quoted" 0
done
in_odd() { # SQL WANTED
	check "there, $1 works" test "$(psql -X -q -A -t "$strange" -c "$1" 2>&1)" = "$2"
}
# PGlite has one session for all, in which no setting may stay.
sql "CREATE DATABASE wasm"
psql -X -q "postgres://wherry@/wasm?host=$folder" <<'END'
SET allow_system_table_mods = on;
SELECT format('CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS %s', regexp_replace(
	pg_get_viewdef('pg_stat_activity'::regclass), '\ms.backend_type', $$'standalone backend'::text AS backend_type$$)) \gexec
END
w create "postgres://wherry@/wasm?host=$folder"
w relay "postgres://wherry@/wasm?host=$folder" stdout: --until-empty --timeout 60s
expect "a server with one session for all is treated as a pooler" 0 "err:event=polls" "err:one session for all"
in_odd "SELECT wherry_send('jobs', '{}'::text, headers => '{\"a\": \"b\"}') > 0" t
in_odd "SELECT headers->>'a' FROM wherry_receive('jobs')" b
in_odd "SELECT wherry_queue_length('jobs')" 0
in_odd "SELECT wherry_subscribe('t', 'jobs'), wherry_publish('t', '1'::text)" "t|1"
in_odd "SELECT wherry_offer('mail', 'k', 'x'::text)" created
in_odd "SELECT convert_from(body, 'UTF8') FROM wherry_poll('mail')" x
in_odd "SELECT wherry_accept('m1'), wherry_accept('m1')" "t|f"
in_odd "SELECT wherry_enqueue('t', '{}'::text, key => 'k', lock_key => true) > 0" t
w relay "$strange" stdout: --until-empty --timeout 60s
expect "and a relay does" 0 "err:1 delivered"

sql "ALTER ROLE odd SET statement_timeout = '200ms'"
psql -X -q -h "$folder" -U wherry postgres >/dev/null 2>&1 \
	<<<"BEGIN; LOCK outbox; SELECT 1 \\watch 3600" &
pids+=($!)
holder=$!
until_true 20 answers "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'
	AND relation = 'outbox'::regclass AND granted" 1
w_in '{}' enqueue --lines "$(as odd)" --topic t
expect "a statement that is ended by statement_timeout says so" 1 "err:statement timeout"
kill "$holder"
wait "$holder" 2>/dev/null
w_in '{}' enqueue --lines "$(as odd)" --topic t
expect "and works when the table is free" 0

sql "CREATE ROLE few LOGIN CONNECTION LIMIT 0"
w status "$(as few)"
expect "too many connections say so" 1 "err:max_connections"

# ---- encodings ----

for encoding in LATIN1 SQL_ASCII; do
	sql "CREATE DATABASE $encoding ENCODING $encoding TEMPLATE template0"
	other="postgres://wherry@/$(echo $encoding | tr "[:upper:]" "[:lower:]")?host=$folder"
	w create "$other" --payload bytea
	w_in '{"n":"Café €"}' enqueue --lines "$other" --topic Grüße
	expect "a database in $encoding takes what it has letters for" 0
	w relay "$other" stdout: --until-empty --timeout 60s
	json "and gives it back, with any body" \
		'd["topic"] == "Grüße" and d["body"] == {"n": "Café €"}'
done
w_in '{}' enqueue --lines "postgres://wherry@/latin1?host=$folder" --topic '€'
expect "a letter that it has not is refused" 1 "err:LATIN1"

# ---- a full disk ----

full() {
	local small=$tmp/small disk="postgres://wherry@/postgres?host=$folder" body
	mkdir "$small"
	mount -t tmpfs -o size=3m wherry-system "$small" 2>/dev/null || {
		skip "a full disk is said" "no tmpfs can be mounted here"
		return
	}
	mounted=$small
	chmod 777 "$tmp" "$small"
	mkdir "$small/space"
	[ "$(id -u)" -ne 0 ] || chown postgres: "$small/space"
	sql "CREATE TABLESPACE small LOCATION '$small/space'"
	sql "ALTER TABLE outbox SET TABLESPACE small"
	sql "DELETE FROM outbox"
	body=$(head -c 300000 /dev/urandom | base64 -w 0)
	for ((i = 0; i < 50; i++)); do
		w_in "\"$body\"" enqueue --lines "$disk" --topic full
		[ "$status" -eq 0 ] || break
	done
	expect "a full disk is said, and that nothing was written" 1 "err:disk is full" \
		"err:nothing was"
	mount -o remount,size=64m "$small"
	w_in '"last"' enqueue --lines "$disk" --topic full
	expect "with room again it goes on" 0
	w relay "$disk" stdout: --until-empty --timeout 60s
	json "and all that was taken is delivered" "len(l) == $((i + 1))"
	sql "DROP TABLE outbox"
	sql "DROP TABLESPACE small"
	umount "$small" && mounted=
}
full

stop_server
finish
