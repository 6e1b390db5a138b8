#!/usr/bin/env bash
# The life of an outbox on PostgreSQL: tables lists, doctor looks at triggers and
# constraints, drop removes all that create made.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
start_server

everything() { # what a schema has, beside what the application has
	sql "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)
	          + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)"
}

sql 'CREATE TABLE orders(id int, payload text)'
before=$(everything)
sql 'CREATE SCHEMA billing'
w create "$url"
expect "create says that it made the outbox" 0 "out:it was made"
w create "$url#billing.outbox" --payload jsonb
w create "$url"
expect "a second time there is nothing to do" 0 "out:is up to date"
for part in --partitions --unique-ids; do
	w create "$url#billing.outbox" $part
	expect "create says that it added what $part asks for" 0 "out:what was missing was added"
	w create "$url#billing.outbox" $part
	expect "which is there the second time ($part)" 0 "out:is up to date"
done
sql "SELECT wherry_enqueue('t', '{}')" >/dev/null
w tables "$url" --json
json "tables lists those of every schema, and no other table" \
	'[(o["table"], o["messages"]) for o in l] == [("billing.outbox", 0), ("public.outbox", 1)]'

# ---- doctor ----

w doctor "$url" --json
json "a new outbox has its constraint, and no function that follows the search path" \
	'{f["level"] for f in d["findings"]
	  if f["check"] in ("constraints", "search-path")} == {"ok"}'
sql 'ALTER TABLE outbox DROP CONSTRAINT outbox_sane'
w doctor "$url" --json
json "a table without its constraint is found, with what to do" \
	'[("wherry create" in f["advice"], f["level"]) for f in d["findings"]
	  if f["check"] == "constraints"] == [(True, "warn")]'
sql "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER keep BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()"
w doctor "$url" --json
json "a trigger whose function follows the search path is found" \
	'["keep()" in f["what"] for f in d["findings"] if f["check"] == "search-path"] == [True]'
sql 'DROP FUNCTION keep CASCADE'

# ---- what is ready ----

sql "DELETE FROM outbox;
	INSERT INTO outbox(topic, partition_key, payload) SELECT 't', 'a', '{}' FROM generate_series(1, 3);
	INSERT INTO outbox_exception(subscription, id, state, next_retry_at)
	SELECT 'relay', min(id), 3, now() + interval '1 hour' FROM outbox"
w status "$url" --json
json "messages that wait behind a failed one are not ready, and have no age" \
	'(d["pending"], d["failed"], d["ready"], d["oldest_ready_us"]) == (2, 1, 0, 0)'
sql "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'b', '{}')"
w status "$url" --json
json "others are" 'd["ready"] == 1 and d["oldest_ready_us"] > 0'
sql 'DELETE FROM outbox WHERE id > (SELECT min(id) FROM outbox)'

# ---- drop ----

w drop "$url#billing.outbox" --yes
expect "an outbox of another schema is dropped" 0 "out:is gone"
sql 'DROP SCHEMA billing'
check "with all that is its own there" is $? 0
w drop "$url" --yes
expect "the last of a schema is dropped" 0 "out:with 1 message that was not delivered"
check "with its functions" is "$(everything)" "$before"
w create "$url"
w create "$url/audit" --from now
sql "SELECT wherry_enqueue('t', '{}')" >/dev/null
w drop "$url" --yes
expect "a log is dropped with its subscriptions" 0 "out:is gone"
check "and with all that create made" is "$(everything)" "$before"
sql "CREATE TABLE ferry(LIKE orders)"
w drop "$url#ferry" --yes
expect "a table that is not an outbox is refused" 1 "err:there is no table 'ferry' of Wherry"
stop_server
finish
