#!/usr/bin/env bash
# The real program through the real pgbouncer, which gives each transaction another session.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

pgbouncer=$(PATH=$PATH:/usr/sbin:/sbin command -v pgbouncer)
if [ -z "$pgbouncer" ]; then
	printf '1..1\nok 1 - pgbouncer # SKIP it is not installed\n'
	exit 0
fi
start_server
direct=$url

# Two sessions that take turns, so that what one of them keeps is missed soon.
cat >"$folder/pgbouncer.ini" <<END
[databases]
postgres = host=$folder port=5432 user=wherry
raw = host=$folder port=5432 user=wherry
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $folder
auth_type = any
pool_mode = transaction
default_pool_size = 2
min_pool_size = 2
server_round_robin = 1
logfile = $folder/pgbouncer.log
pidfile =
END
"${server_user[@]}" "$pgbouncer" -q "$folder/pgbouncer.ini" >/dev/null 2>&1 9>&- &
pids+=($!)
url="postgres://wherry@/postgres?host=$folder&port=6432"

through() { # SQL; prints what it answers
	psql -X -q -A -t -h "$folder" -p 6432 -U wherry postgres -c "$1"
}

until_true 20 through "SELECT 1"
check "pgbouncer answers" through "SELECT 1"

# ---- each command ----

w create "$url" --unique-ids
expect "create works through it" 0 "out:outbox 'outbox' is ready"
psql -X -q "$direct" -c "CREATE TABLE theirs(id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL)"
w adopt "$url#theirs" --yes
expect "adopt needs the server itself" 2 "err:a connection pooler is between this program and the server"
check "and leaves no lock behind" is "$(psql -X -q -A -t "$direct" -c "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1671")" 0
w adopt "$direct#theirs" --yes
expect "which it has then" 0
w drop "$url#theirs_log" --yes
w enqueue --lines "$url" --topic quakes --key /net --id /id --from "$quakes"
expect "a file of 1707 lines is enqueued" 0 "is:1707 enqueued, 0 duplicates"
w enqueue --lines "$url" --topic quakes --key /net --id /id --from "$quakes" --json
json "the same file again is all duplicates" 'd == {"enqueued": 0, "duplicates": 1707}'
w relay "$url" file:out.ndjson --until-empty --timeout 60s
expect "a relay until empty delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
expect "and says that it cannot be woken" 0 "err:event=pooler" "err:direct connection"
out=$(cat out.ndjson)
json "each key kept the order of the file" \
	"$(in_file_order "m['key']")"
w status "$url"
expect "status works" 0 "out:done        1707"
through "INSERT INTO outbox(topic, payload) VALUES ('orders', '{\"order\":8}')"
w relay "$url" 'exec:exit 65' --until-empty --timeout 60s
w list "$url" --state dead --json
json "list works" 'd["state"] == "dead" and d["topic"] == "orders"'
id=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["id"])' "$out")
w show "$url" "$id"
expect "show works" 0 "out:dead"
w retry "$url" "$id"
expect "retry works" 0
w relay "$url" stdout: --until-empty --timeout 60s
json "and the message is delivered" 'd["body"] == {"order": 8}'
w seek "$url" "$id"
expect "seek works" 0
w pause "$url"
expect "pause works" 0
w resume "$url"
expect "resume works" 0
w relay "$url" stdout: --until-empty --timeout 60s
json "what lies behind the place is delivered again" 'len(l) == 1'
w purge "$url" --older-than 0s --yes
expect "purge works" 0 "out:1708"

# ---- a log, whose relay keeps its position while sessions end ----

w create "$url#logged"
w enqueue --lines "$url#logged" --topic quakes --key /net --id /id --from "$quakes"
w relay "$url#logged" file:logged.ndjson --until-empty --timeout 60s
expect "a relay of a log delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
out=$(cat logged.ndjson)
json "in the order of each key" \
	"$(in_file_order "m['key']")"
"$wherry" relay "$url#logged" file:more.ndjson >/dev/null 2>log.logged </dev/null 9>&- &
relay=$!
pids+=("$relay")
until_true 20 grep -q event=leading log.logged
for i in $(seq 1 20); do
	until_true 20 through "INSERT INTO logged(topic, partition_key, payload) VALUES ('live', 'k$((i % 3))', '$i')"
	[ $((i % 5)) != 0 ] || sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" >/dev/null
done
all_there() {
	[ "$(sed 's/.*"body":\([0-9]*\).*/\1/' more.ndjson | sort -un | wc -l)" = 20 ]
}
check "it loses nothing when sessions end" until_true 60 all_there
kill "$relay"
wait "$relay"
check "and ends as it should" test $? -eq 0

# ---- rows that have no form in UTF-8, and bodies that are too long, stop nobody through it either ----

sql "CREATE DATABASE raw ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
raw="postgres://wherry@/raw?host=$folder&port=6432"
w create "$raw" --payload text
w create --kind queue "$raw#jobs" --payload text
w create --kind delayed "$raw#delayed"
psql -X -q -h "$folder" -U wherry raw >/dev/null 2>"$tmp/.err" <<-'END'
	INSERT INTO outbox(topic, payload) VALUES ('t', 'a'), ('t', E'\xff'), (E'\xfe', 'b'), ('t', repeat('x', 70000000)), ('t', 'c');
	INSERT INTO jobs(topic, body) VALUES ('t', 'a'), ('t', E'\xff'), ('t', 'c');
	INSERT INTO delayed("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
	SELECT k, md5('mail|bytes'), 'x', 1, 1, 1 FROM unnest(ARRAY['a', E'\xff', 'c']) AS k
END
result $? "hostile rows are written" "$(cat "$tmp/.err")"
w relay "$raw" stdout: --until-empty --timeout 60s
json "a relay delivers bodies as they are" '[m.get("body", m.get("body_base64")) for m in l] == ["a", "/w==", "c"]'
w list "$raw" --state dead --json
json "and makes each of the others dead" 'sorted(m["id"] for m in l) == [3, 4]'
got=
for i in 1 2; do
	w receive "$raw#jobs"
	got+=$(base64 <<<"$out")
done
check "receivers get them too" is "$got" YQo=/wo=
w poll "$raw#delayed/mail" --limit 9 --json
check "so do consumers of a delayed queue" is "$status $(grep -c '"state":"leased"' <<<"$out")" "0 3"

# ---- a lease is not lost with the server, though other commits need not wait for the disk ----

sql "CREATE TABLE waits(what text);
	CREATE FUNCTION note_wait() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN
	INSERT INTO public.waits VALUES (TG_TABLE_NAME || ' ' || current_setting('synchronous_commit'));
	RETURN NULL; END\$\$;
	CREATE TRIGGER note AFTER INSERT OR UPDATE OF epoch ON wherry_lease
	FOR EACH ROW EXECUTE FUNCTION note_wait();
	CREATE TRIGGER note AFTER UPDATE OF high ON outbox_progress
	FOR EACH ROW EXECUTE FUNCTION note_wait();
	INSERT INTO outbox(topic, payload) VALUES ('waits', '{}');"
w relay "$url" null: --until-empty --timeout 60s --set db.synchronous=normal
expect "a relay whose commits need not wait works" 0
check "a lease waits for the disk" answers "SELECT DISTINCT what FROM waits WHERE what LIKE 'wherry_lease %'" \
	"wherry_lease on"
check "a position does not" answers "SELECT DISTINCT what FROM waits WHERE what LIKE 'outbox%'" "outbox_progress off"
sql "DROP TRIGGER note ON wherry_lease; DROP TRIGGER note ON outbox_progress; DROP TABLE waits; DROP FUNCTION note_wait()"
w purge "$url" --older-than 0s --yes

# ---- an application that lends its connection ----

sql "CREATE TABLE ledger(id text PRIMARY KEY, k text NOT NULL, n bigint NOT NULL);
	CREATE TABLE counter(k text PRIMARY KEY, n bigint NOT NULL)"
"$build_dir/tests/crash_postgres_main" "$url" lent 1 2 0 >/dev/null 2>writer.err 9>&- &
writer=$!
pids+=("$writer")
until_true 30 answers "SELECT count(*) > 100 FROM ledger" t
check "a writer with a borrowed connection writes" answers "SELECT count(*) > 100 FROM ledger" t
kill "$writer"
wait "$writer"
check "and was not ended by an error" test ! -s writer.err
w relay "$url" file:lent.ndjson --until-empty --timeout 60s
check "what it committed is delivered" is "$(wc -l <lent.ndjson)" \
	"$(sql "SELECT count(*) FROM ledger")"

# ---- a relay that goes on ----

"$wherry" relay "$url" file:live.ndjson >/dev/null 2>log </dev/null 9>&- &
pids+=($!)
relay=$!
until_true 20 grep -q event=leading log
for i in 1 2 3; do
	through "INSERT INTO outbox(topic, payload) VALUES ('live', '{}')"
	check "message $i is found by looking" until_true 20 lines live.ndjson "$i"
	command sleep 0.3 # it would be asleep by then, where it can be woken
done
check "nothing is listened to in the pooler's sessions" \
	test "$(through "SELECT count(*) FROM pg_listening_channels()")" = 0
check "no lock is kept by one of them" \
	answers "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'" 0
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" >/dev/null
until_true 20 through "INSERT INTO outbox(topic, payload) VALUES ('live', '{}')"
check "it goes on when the pooler's sessions were terminated" \
	until_true 30 lines live.ndjson 4
kill "$relay"
wait "$relay"
check "it ends as it should" test $? -eq 0

# ---- what it leaves to others ----

left=
for setting in enable_seqscan lock_timeout default_transaction_isolation synchronous_commit \
	client_min_messages idle_in_transaction_session_timeout; do
	for _ in 1 2 3 4; do
		[ "$(through "SHOW $setting")" = "$(sql "SHOW $setting")" ] || left+=" $setting"
	done
done
is "$left" ""
result $? "no setting is left in the pooler's sessions" "changed:$left"
is "$(through "SELECT count(*) FROM pg_prepared_statements")" 0
result $? "nor a prepared statement" ""
w relay "$direct" stdout: --until-empty --timeout 60s
expect "a direct connection is no pooler's" 0 "no:event=pooler"

stop_server

finish
