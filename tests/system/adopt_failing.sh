#!/usr/bin/env bash
# A row for which an expression of an adopted table fails dies alone, on PostgreSQL and SQLite: the others are delivered.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

run_sql() { # SQL
	case $url in sqlite:*) sqlite3 "${url#sqlite:}" "$1" ;; *) sql "$1" ;; esac
}
# shellcheck source=tests/system/adopt_failing.bash
. "$source_dir/tests/system/adopt_failing.bash"

# ---- PostgreSQL ----

kind=postgres
columns="id bigserial PRIMARY KEY, type text NOT NULL, key text, data text NOT NULL, v text, published_at timestamptz"
good="'7'"
dies "a division in the body" "'0'" "division by zero" --body "(concat(data, 6 / v::integer))"
dies "a cast in the key" "'seven'" "invalid input syntax for type integer" --key "((v::integer)::text)"
dies "a cast in the topic" "'x'" "invalid input syntax for type integer" --topic "('a' || left(v::integer::text, 0))"
dies "a number that is too large" "'99999999999'" "out of range for type integer" --message-id "(id || '-' || v::integer)"
dies "a text that is no time" "'soon'" "invalid input syntax for type timestamp" \
	--created-at "(CASE WHEN v = '7' THEN now() ELSE v::timestamptz END)"
dies "a condition" "'no'" "invalid input syntax for type integer" --where "v::integer > 0"
good="'{\"x\": 1}'"
dies "a text that is not JSON in the body" "'{no'" "invalid input syntax for type json" --body "(v::jsonb)"
dies "and in the key" "'{no'" "invalid input syntax for type json" --key "(v::jsonb->>'x')"
dies "and in the headers" "'{no'" "invalid input syntax for type json" --headers "(json_build_object('x', v::json->>'x'))"
dies "a body that is NULL" "NULL" "payload is .* or NULL" --body "(v)"
good="'\x61'"
columns=${columns/v text/v bytea}
dies "bytes that are no text" "'\xff'" "invalid byte sequence" --topic "('a' || left(convert_from(v, 'UTF8'), 0))"
columns=${columns/v bytea/v bigint}
good=1767225600
dies "a number that is no time" 9000000000000000000 "timestamp out of range" --created-at v
columns=${columns/v bigint/v json}
good="'{\"x\": 1}'"
dies "headers with a NUL" "'{\"x\": \"\\u0000\"}'" "unsupported Unicode escape sequence" --headers v
columns=${columns/v json/v text}
good="'7'"
waits "a cast in the key" "'seven'" --key "((v::integer)::text)"
waits "a cast in the body" "'seven'" --body "((v::integer)::text)"
waits "a condition" "'seven'" --where "v::integer > 0"

# A row that is committed late.
sql "CREATE TABLE events($columns)"
w adopt "$url#events" --key "((v::integer)::text)" --yes
exec 5> >(exec psql -X -q "$url" >/dev/null)
echo "BEGIN; INSERT INTO events(type, data, v) VALUES ('late', '{}', 'x'), ('late', '{}', '1');" >&5
until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" 1
sql "INSERT INTO events(type, data, v) VALUES ('a', '{}', '1')"
relay
echo "COMMIT; SELECT 1;" >&5
exec 5>&-
until_true 20 answers "SELECT count(*) FROM events WHERE type = 'late'" 2
relay
check "postgres: one that is committed late dies, too" is "$(got .id), $(dead | cut -d' ' -f1)" "2, 1"

# Consumers.
w create "$url#events_log/consumed"
sql "INSERT INTO events(type, data, v) VALUES ('a', '{}', '3'), ('a', '{}', 'y'), ('a', '{}', '4')"
check "postgres: a consumer gets the others" is "$(sql "SELECT key FROM wherry_consume('consumed', 10, 'events_log')" | paste -sd' ')" "1 1 3 4"
check "postgres: and these die" is "$(dead /consumed | cut -d' ' -f1 | sort -n | paste -sd' ')" "1 5"
relay
w drop "$url#events_log/consumed" --yes

# Many of them, and relays that share the keys.
w create "$url#events_log" --partitions
sql "INSERT INTO events(type, data, v) SELECT 'a', '{}', CASE WHEN n % 10 = 0 THEN 'x' ELSE n % 7 || '' END FROM generate_series(1, 3000) AS n"
relay
check "postgres: many die, and all others are delivered" is "$(wc -l <got.ndjson), $(sql "SELECT count(*) FROM events_log_exception WHERE subscription = 'relay' AND state = 4")" "2700, 302"
check "postgres: in the order of each key" is \
	"$(jq -r '[.key, .id] | @tsv' got.ndjson | awk '$2 <= last[$1] { bad++ } { last[$1] = $2 } END { print bad + 0 }')" 0
w drop "$url#events_log" --yes
sql "DROP TABLE events"

# Marks: they cost little, however many there are, and belong to a row.
marks() {
	sql "SELECT count(*) FROM events_log_exception WHERE subscription = ''"
}
sql "CREATE TABLE events($columns)"
w adopt "$url#events" --key "((v::integer)::text)" --body "(concat(data, 6 / v::integer))" --where "v::integer > 0" --yes
sql "INSERT INTO events(type, data, v) SELECT 'a', '1', '7' FROM generate_series(1, 2000);
	INSERT INTO events_log_exception(subscription, id, state, last_error) SELECT '', 2 * n, 4, 'none' FROM generate_series(1, 10000) AS n;
	ANALYZE events, events_log_exception"
check "postgres: a row is looked for among the marks by an index" is "$(sql "EXPLAIN (ANALYZE, FORMAT JSON)
	SELECT * FROM events_log WHERE id > 0 ORDER BY id LIMIT 1000" | jq '[.. | objects | select(."Relation Name"? == "events_log_exception") |
	."Actual Rows" * ."Actual Loops"] | add < 10000')" true
most=0
for ((round = 0; round < 100 && $(marks) > 1000; round++)); do
	before=$(marks)
	w purge "$url#events_log" --older-than 0 --yes
	gone=$((before - $(marks)))
	[ "$gone" -le "$most" ] || most=$gone
done
check "postgres: marks of rows that are not there go by and by" is "$(marks), $((most <= 2000))" "1000, 1"
sql "DELETE FROM events_log_exception WHERE subscription = ''; INSERT INTO events(type, data, v) VALUES ('a', '2', 'x'), ('a', '3', 'x'), ('a', '4', 'x')"
relay
check "postgres: three die" is "$(dead | cut -d' ' -f1 | sort -n | paste -sd' '), $(marks)" "2001 2002 2003, 3"
w discard "$url#events_log" 2001 2002 --yes
sql "DELETE FROM events WHERE id = 2001"
relay
check "postgres: the mark of a row that its owner deleted goes" is "$(got .id), $(marks)" ", 2"
sql "BEGIN; DELETE FROM events WHERE id = 2002; INSERT INTO events(id, type, data, v) VALUES (2002, 'a', '5', '3'); COMMIT"
relay
check "postgres: what its owner writes again under the same number is not marked" is "$(got '"\(.id) \(.body)"'), $(dead | cut -d' ' -f1)" "2002 52, 2003"
sql "BEGIN; DELETE FROM events WHERE id = 2002; INSERT INTO events(id, type, data, v) VALUES (2002, 'a', '5', 'y'); COMMIT"
relay
check "postgres: but it dies if it fails again" is "$(got .id), $(dead | grep -c '"y"'), $(marks)" ", 1, 2"
sql "UPDATE events SET wherry_tx = '0'"
check "postgres: rows whose numbers a restored dump took away are marked still" is "$(sql "SELECT count(e) - count(e.message_id) FROM events_log AS e")" 2
w drop "$url#events_log" --yes
sql "DROP TABLE events"

# ---- SQLite ----

kind=sqlite
url=sqlite:shop.db
columns="id INTEGER PRIMARY KEY, type TEXT NOT NULL, key TEXT, data TEXT NOT NULL, v, published_at TEXT"
good="'{\"x\": 1}'"
dies "a text that is not JSON in the body" "'{no'" "malformed JSON" --body "(json(v))"
dies "and in the key" "'{no'" "malformed JSON" --key "(json_extract(v, '\$.x'))"
dies "and in the topic" "'{no'" "malformed JSON" --topic "('a' || substr(json_extract(v, '\$.x'), 1, 0))"
dies "and in the condition" "'{no'" "malformed JSON" --where "json_extract(v, '\$.x') > 0"
good=1
dies "a number that is too large" "-9223372036854775807 - 1" "integer overflow" --body "(abs(v))"
dies "a key that is no text" "x'ff'" "partition_key is not UTF-8" --key "(CASE WHEN v = 1 THEN 'x' ELSE CAST(v AS TEXT) END)"
good="'{\"x\": 1}'"
waits "a text that is not JSON in the key" "'{no'" --key "(json_extract(v, '\$.x'))"
waits "and in the condition" "'{no'" --where "json_extract(v, '\$.x') > 0"

stop_server
finish
