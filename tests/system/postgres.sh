#!/usr/bin/env bash
# Drives the real program on a private PostgreSQL server, without anything that the suites
# add to it; and what it says when that cannot be reached, written or found.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

# ---- a whole run ----

w create "$url" --unique-ids
expect "create makes the outbox and says so" 0 "out:outbox 'outbox' is ready"
w create "$url"
expect "create again is fine" 0
w enqueue --lines "$url" --topic quakes --key /net --id /id --from "$quakes"
expect "a file of 1707 lines is enqueued" 0 "is:1707 enqueued, 0 duplicates"
w enqueue --lines "$url" --topic quakes --key /net --id /id --from "$quakes" --json
json "the same file again is all duplicates" 'd == {"enqueued": 0, "duplicates": 1707}'
w status "$url"
expect "status says what to do" 0 "out:\`wherry help relay\` shows how to start one"
w relay "$url" file:out.ndjson --until-empty --timeout 60s
expect "a relay until empty delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
out=$(cat out.ndjson)
json "each key kept the order of the file" \
	"$(in_file_order "m['key']")"
w status "$url"
expect "all are done" 0 "out:done        1707"

# ---- plain SQL ----

sql "BEGIN; INSERT INTO outbox(topic, payload) VALUES ('gone', '{}'); ROLLBACK" >/dev/null
sql "INSERT INTO outbox(topic, partition_key, payload) VALUES ('orders', 'k', '{\"order\":7}')"
w relay "$url" stdout: --until-empty --timeout 60s
json "a plain insert is a message; one that was rolled back is not" \
	'len(l) == 1 and d["topic"] == "orders" and d["body"] == {"order": 7}'

sql "SELECT wherry_enqueue('orders', '{\"order\":9}', key => 'k', lock_key => true)" >/dev/null
check "a duplicate message id gives NULL" test -z "$(sql "SELECT wherry_enqueue('t', '{}',
	message_id => (SELECT max(message_id) FROM outbox))")"
w relay "$url" stdout: --until-empty --timeout 60s
json "a call of wherry_enqueue() is a message" \
	'len(l) == 1 and d["key"] == "k" and d["body"] == {"order": 9}'

# ---- names ----

sql 'CREATE SCHEMA billing' >/dev/null
w create "$url#billing.Odd Name" --json
json "an outbox may be in any schema" 'd["table"] == "billing.Odd Name"'
w_in '{"n":1}' enqueue --lines "$url#billing.\"Odd Name\"" --topic t
expect "and have any name" 0 "is:1 enqueued, 0 duplicates"
w relay "$url#billing.Odd Name" stdout: --until-empty --timeout 60s
json "under which it is relayed" 'len(l) == 1 and d["body"] == {"n": 1}'
w doctor "$url#billing.Odd Name" --json
json "doctor finds its tables, indexes, triggers and ids" \
	'{f["check"]: f["level"] for f in d["findings"] if f["check"] in
	  ("tables", "indexes", "trigger", "identity", "rights")} ==
	 dict.fromkeys(("tables", "indexes", "trigger", "identity", "rights"), "ok")'
sql 'ALTER TABLE billing."Odd Name" DISABLE TRIGGER ALL'
w doctor "$url#billing.Odd Name"
expect "its advice can be given to a shell" "$status" "out:#billing.Odd Name' --print"
sql 'ALTER TABLE billing."Odd Name" ENABLE TRIGGER ALL'
w create "$url#billing.nothing.more"
expect "a name of three parts is refused" 2 "err:SCHEMA.TABLE"
sql 'DROP SCHEMA billing CASCADE' 2>/dev/null

w create "$url#documents" --payload jsonb
expect "payloads may be jsonb" 0
w_in '{"n":1}' enqueue --lines "$url#documents" --topic t
w relay "$url#documents" stdout: --until-empty --timeout 60s
json "and are relayed" 'len(l) == 1 and d["body"] == {"n": 1}'

# ---- the table of eventferry ----

sql 'CREATE SCHEMA ferry; CREATE TABLE ferry.outbox (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	message_id UUID NOT NULL DEFAULT gen_random_uuid() UNIQUE, topic VARCHAR(255) NOT NULL,
	aggregate_type VARCHAR(255) NOT NULL, aggregate_id VARCHAR(255) NOT NULL, "key" TEXT,
	payload JSONB NOT NULL, headers JSONB NOT NULL DEFAULT $${}$$, trace_id VARCHAR(64),
	status SMALLINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0, next_retry_at TIMESTAMPTZ,
	claimed_at TIMESTAMPTZ, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), processed_at TIMESTAMPTZ)'
sql "INSERT INTO ferry.outbox (topic, aggregate_type, aggregate_id, payload) VALUES
	('orders', 'order', '7', '{\"order\": 7}'), ('orders', 'order', '7', '{\"order\": 8}')"
w status "$url#ferry.outbox" --json
json "its table is known by its columns" 'd["layout"] == "eventferry"'
w relay "$url#ferry.outbox" stdout: --until-empty --timeout 60s
json "and relayed" '[m["body"]["order"] for m in l] == [7, 8] and d["aggregate_id"] == "7"'
check "as that library marks what is done" test \
	"$(sql 'SELECT count(*) FROM ferry.outbox WHERE status = 2 AND processed_at IS NOT NULL')" = 2
sql 'DROP SCHEMA ferry CASCADE' 2>/dev/null

# ---- what operators do ----

sql "INSERT INTO outbox(topic, payload) VALUES ('orders', '{\"order\":8}')"
w relay "$url" 'exec:exit 65' --until-empty --timeout 60s
w list "$url" --state dead --json
json "a refused message is dead" 'd["state"] == "dead" and d["topic"] == "orders"'
id=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["id"])' "$out")
w show "$url" "$id"
expect "it is shown" 0 "out:dead"
sql "UPDATE outbox SET payload = '{\"order\":88}' WHERE id = $id"
w retry "$url" "$id"
expect "and retried" 0
w relay "$url" stdout: --until-empty --timeout 60s
json "then it is delivered, with the body that was corrected" 'd["body"] == {"order": 88}'
w seek "$url" "$id"
expect "a subscription goes back to a message" 0 "is:1 message is pending in subscription 'relay' of outbox 'outbox'"
w relay "$url" stdout: --until-empty --timeout 60s
json "which is delivered again" 'd["id"] == '"$id"
w pause "$url"
expect "an outbox is paused" 0
w status "$url"
expect "and says so" 0 "out:paused"
w resume "$url"
expect "and resumed" 0
w purge "$url" --older-than 0s --yes
expect "what was delivered is purged" 0 "out:1710"

# ---- what cannot be ----

w status "postgres://wherry@/nowhere?host=$folder"
check "a database that is not there is named" test "$status" -ne 0
expect "with the way out" "$status" "err:nowhere" "err:createdb"
w status "postgres://wherry:Secret1@/postgres?host=$tmp"
check "a server that is not there fails" test "$status" -ne 0
expect "and no password is shown" "$status" "err:is the server running" "no:Secret1"
w status "postgres://wherry:Secret1@/post%gres"
check "a URL that cannot be read fails" test "$status" -ne 0
expect "and shows no password" "$status" "no:Secret1"
w status "$url#billing"
expect "an outbox that is not there names create" "$status" "err:wherry create"
sql "ALTER ROLE wherry SET default_transaction_read_only = on"
w_in '{}' enqueue --lines "$url" --topic t
check "one that cannot be written fails" test "$status" -ne 0
expect "and says what to do" "$status" "err:target_session_attrs=read-write"

stop_server
check "the server's folder is gone" test ! -e "$folder"

finish
