#!/usr/bin/env bash
# wherry adopt on SQLite: tables of other programs, relayed where they are.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

url=sqlite:shop.db
q() { # SQL
	sqlite3 shop.db "$1"
}
relay() { # OUTBOX [OPTION...]: delivers what is there
	rm -f got.ndjson
	w relay "$url#$1" file:got.ndjson --until-empty "${@:2}"
}
got() { # JQ TEXT: of each message that the last relay delivered
	is "$([ ! -e got.ndjson ] || jq -r "$1" got.ndjson | paste -sd' ')" "$2"
}

# ---- a table with a time ----

q "CREATE TABLE events(id INTEGER PRIMARY KEY, type TEXT NOT NULL, customer INTEGER, data TEXT, meta TEXT,
	created_at TEXT DEFAULT CURRENT_TIMESTAMP, published_at TEXT);
INSERT INTO events(type, customer, data, meta, published_at) VALUES ('a', 3000000, '{\"n\": 1}', '{\"x\": 7}', NULL), ('b', NULL, NULL, NULL, NULL),
	('old', 1, '', '', '2026-01-01')"
before=$(q .schema)
w adopt "$url#events" --key customer
expect "a plan says what is taken for what" 0 "out:  topic          type" "out:what is not delivered: 2 rows" "out:add --yes"
check "and changes nothing" is "$(q .schema)" "$before"
w adopt "$url#events" --key customer --yes
expect "the table is adopted" 0 "out:events_log"
relay events_log
expect "what is not delivered is" 0 "err:2 delivered"
check "with its fields" got '[.id, .topic, .key, .headers.x, (.body | tostring)] | map(tostring) | join("/")' '1/a/3000000/7/{"n":1} 2/b/null/null/'
check "and its rows say so" is "$(q "SELECT count(*) FROM events WHERE published_at IS NULL")" 0
check "a time is as it was written" is "$(jq -r .created_at got.ndjson | head -n 1 | cut -c1-10)" "$(date -u +%F)"
q "INSERT INTO events(type, data) VALUES ('c', '{}')"
relay events_log
check "its programs write as before" got .topic c
q "DELETE FROM events WHERE id = 4; INSERT INTO events(type, data) VALUES ('again', '{}')"
check "SQLite gives an id again" is "$(q "SELECT id FROM events WHERE type = 'again'")" 4
relay events_log
check "which is not taken for the one before" got .topic again
q "INSERT INTO events(type, data) VALUES ('x', '{}'), ('y', '{}')"
w discard "$url#events_log" 5 --yes
expect "a message is discarded" 0
relay events_log
check "and not delivered" got .topic y
check "its row is there" is "$(q "SELECT type FROM events WHERE id = 5")" x
w relay "$url#events_log" exec:false --until-empty --set retry.attempts=1
q "INSERT INTO events(type, data) VALUES ('bad', '{}')"
w relay "$url#events_log" exec:false --until-empty --set retry.attempts=1
expect "a message dies" 3 "err:1 dead"
check "a dead one is not called published" is "$(q "SELECT count(*) FROM events WHERE published_at IS NULL")" 1
w retry "$url#events_log" --all
relay events_log
check "it is tried again" got .topic bad
relay events_log --set relay.source=wal
expect "it has no WAL to read from, and the setting is named" 2 "err:only a relay of an outbox of Wherry's own layout on PostgreSQL" "err:set relay.source=table"
w enqueue "$url#events_log" --topic x '{}'
expect "its owner writes it" 1 "err:which alone writes its messages"
w create "$url#events_log/audit" --topics 'audit.*'
q "INSERT INTO events(type, data) VALUES ('audit.x', '{}')"
relay events_log
check "one subscription is not all" is "$(q "SELECT published_at IS NULL FROM events WHERE type = 'audit.x'")" 1
relay events_log/audit
check "another has its topics" got .topic audit.x
check "when all have it, it is published" is "$(q "SELECT published_at IS NULL FROM events WHERE type = 'audit.x'")" 0
q "INSERT INTO events(type, data) VALUES ('dies', '{}')"
w relay "$url#events_log" exec:false --until-empty --set retry.attempts=1
q "DELETE FROM events WHERE type = 'dies'; INSERT INTO events(type, data) VALUES ('heir', '{}')"
relay events_log
check "a row with the id of a dead one is not dead" got .topic heir
w tables "$url"
expect "it is among the tables" 0 "out:events_log"

# ---- the table is not the same any more ----

q "DROP TABLE events; CREATE TABLE events(id INTEGER PRIMARY KEY, type TEXT NOT NULL, customer INTEGER, data TEXT, meta TEXT,
	created_at TEXT, published_at TEXT); INSERT INTO events(type, data) VALUES ('new', '{}')"
relay events_log
expect "a relay does not begin on its successor" 2 "err:adopt the table again"
w doctor "$url#events_log"
expect "the doctor says it, too" 1 "out:bad   adopted" "out:has no trigger"
w adopt "$url#events" --key customer --yes
relay events_log
check "it is read from its start" got .topic new
w drop "$url#events_log" --yes
expect "the outbox is dropped" 0 "out:has its rows"
check "and nothing of it is left" is "$(q "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'wherry%' OR name LIKE 'events_log%'")" 0
check "nor an index" is "$(q "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'events'")" 0
check "the rows are there" is "$(q "SELECT count(*) FROM events")" 1

# ---- other tables ----

q "CREATE TABLE mails(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT, sent BOOLEAN NOT NULL DEFAULT 0, created_at INTEGER);
INSERT INTO mails(body, created_at) VALUES ('eins', 1767225600), ('zwei', 1767225600000)"
w adopt "$url#mails"
expect "a topic that no column has is asked for" 2 "err:--topic =TEXT"
w adopt "$url#mails" --topic =mails --body "(json_object('id', id, 'text', body))" --yes
relay mails_log
check "an expression, and times in seconds and milliseconds" got '[.topic, .body.text, .created_at] | join("/")' \
	'mails/eins/2026-01-01T00:00:00.000Z mails/zwei/2026-01-01T00:00:00.000Z'
check "a flag is set" is "$(q "SELECT count(*) FROM mails WHERE sent")" 2
q "CREATE TABLE gone(id INTEGER PRIMARY KEY, type TEXT, data BLOB, created_at INTEGER);
INSERT INTO gone(type, data, created_at) VALUES ('old', x'00ff', 1767225600), ('new', 'x', strftime('%s', 'now'))"
w adopt "$url#gone" --done delete --yes
relay gone_log
check "bytes are delivered" got '[.body_base64, .body] | map(tostring) | join("/")' 'AP8=/null null/x'
check "what is older than the retention is deleted" is "$(q "SELECT group_concat(type) FROM gone")" new
q "CREATE TABLE flags(id INTEGER PRIMARY KEY, topic TEXT, payload TEXT, event_id TEXT, is_sent INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT 'no');
INSERT INTO flags(topic, payload) VALUES ('before', '{}')"
w adopt "$url#flags" --done note
expect "a text that is never NULL says nothing" 2 "err:write the value that it gets"
w adopt "$url#flags" --done is_sent --yes
relay flags_log
check "a number that is 0 is not set, and a row without a message id has its number" got '"\(.topic)/\(.message_id)"' before/1
check "and becomes 1" is "$(q "SELECT is_sent FROM flags")" 1
w adopt "$url#flags" --done is_sent --yes
expect "twice is fine" 0 "out:again"
q "ALTER TABLE flags DROP COLUMN payload" 2>said
check "a column that is read is not dropped by mistake" grep -q "no such column" said
q "CREATE TABLE reals(id INTEGER PRIMARY KEY, event_id REAL, type, customer REAL NOT NULL, aggregate_id REAL, trace_id, data TEXT, published_at TEXT);
INSERT INTO reals(event_id, type, customer, aggregate_id, trace_id, data) VALUES (1.0, 2.0, 3000000, -4, 5.0, 'a'), (NULL, '2.0', 0.5, 1e17, 0.0, 'b')"
w adopt "$url#reals" --key customer --yes
relay reals_log
check "a whole number in a column of floating-point ones has no fraction" got \
	'[.message_id, .topic, .key, .aggregate_id, .trace_id] | join("/")' '1/2/3000000/-4/5 2/2.0/0.5/1.0e+17/0'
q "CREATE TABLE keyed(id TEXT PRIMARY KEY, type TEXT, data TEXT); CREATE VIEW seen AS SELECT 1 AS id"
w adopt "$url#keyed"
expect "a table without a number is refused" 2 "err:INTEGER PRIMARY KEY"
w adopt "$url#seen"
expect "a view, too" 2 "err:is not a table"
w adopt "$url#nowhere"
expect "and no table" 1 "err:there is no table 'nowhere'"

finish
