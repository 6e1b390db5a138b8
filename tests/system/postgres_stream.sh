#!/usr/bin/env bash
# Drives the real program on PostgreSQL's log: both modes, Debezium's table, what is refused.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical max_replication_slots=5 max_wal_senders=5

stream() { # [#TABLE [ARGUMENT...]]
	w relay "$url${1-}" stdout: --engine stream --until-empty --timeout 60s "${@:2}"
}

slot() {
	sql "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'wherry_$1%'"
}

released() { # SLOT: nobody reads it
	for ((i = 0; i < 200; i++)); do
		! answers "SELECT count(*) FROM pg_replication_slots WHERE active" 0 || return 0
		command sleep 0.05
	done
	return 1
}

# ---- marked ----

w create "$url" --layout native
w enqueue --lines "$url" --topic quakes --key /net --id /id --from "$quakes"
stream
json "what was there before the slot is delivered" 'len(l) == 1707'
sql "INSERT INTO outbox(topic, payload) VALUES ('orders', '{\"order\":7}')"
stream
json "and then what comes by the log" 'len(l) == 1 and d["body"] == {"order": 7}'
w status "$url" --json
json "all of it is marked, and the stream's state is told" \
	'd["done"] == 1708 and d["stream"]["slot"].startswith("wherry_outbox_")
	 and d["stream"]["lost"] is False'
w status "$url"
expect "also to people" 0 "out:stream      wherry_outbox_"
sql "INSERT INTO outbox(topic, payload, created_at)
     VALUES ('orders', '{\"order\":8}', now() - interval '1 h')"
w status "$url" --json
json "what nobody reads is behind for as long as the oldest row waits" \
	'd["stream"]["behind_us"] >= 3600e6 and d["stream"]["behind_by"] == "rows"
	 and d["stream"]["reader"] == 0'
w status "$url"
expect "people are told what says so" 0 "out:(as the oldest row says)"
stream
w status "$url" --json
json "and once it is delivered, for no time" \
	'd["stream"]["behind_us"] == 0 and d["stream"]["behind_by"] == ""'
w relay "$url" stdout: --until-empty --timeout 60s
expect "the other engine goes on where this one stopped" 0 "is:" "err:0 delivered"

# Slots whose name begins so which standbys do not copy, though the server could tell them to.
left_behind() {
	sql "SELECT count(*) FROM pg_replication_slots AS s WHERE slot_name LIKE 'wherry_$1%'
		AND to_jsonb(s) ->> 'failover' = 'false'"
}

check "a standby may copy the slot that the relay made" is "$(left_behind outbox)" 0

sql "INSERT INTO outbox(topic, payload) VALUES ('orders', '{\"order\":9}')"
w relay "postgres://wherry@${folder//\//%2F},${tmp//\//%2F}%2Fnowhere/postgres" stdout: --engine stream \
	--until-empty --timeout 20s
json "a stream connects to the host that answered, if the URL has hosts and no ports" 'd["body"] == {"order": 9}'

# ---- nothing is marked ----

w create "$url#kept" --layout native --stream
expect "create makes publication and slot" 0
check "a standby may copy it" is "$(left_behind kept)" 0
check "so they are there" test -n "$(slot kept)"
sql "INSERT INTO kept(topic, payload) VALUES ('before', '{}')"
stream "#kept" --on-done keep
json "the first run delivers what is in the table" 'len(l) == 1 and d["topic"] == "before"'
check "a standby may copy the slot that this run made in its place" is "$(left_behind kept)" 0
sql "BEGIN; INSERT INTO kept(topic, payload) VALUES ('gone', '{}');
     DELETE FROM kept WHERE topic = 'gone'; COMMIT"
stream "#kept" --on-done keep
json "what was deleted at once is delivered, and nothing twice" \
	'len(l) == 1 and d["topic"] == "gone"'
check "no row says so" answers "SELECT count(*) FROM kept WHERE status = 0" 1
sql "INSERT INTO kept(topic, payload) VALUES ('bad', '{}')"
w relay "$url#kept" 'exec:exit 65' --engine stream --on-done keep --until-empty
expect "what is refused dies" 3 "err:1 dead"
check "and is kept" answers "SELECT topic FROM wherry_dead WHERE outbox = 'kept'" bad
w status "$url#kept"
expect "which status tells" 0 "out:1 in wherry_dead"
sql "UPDATE wherry_stream SET written_at = now() - interval '1 h' WHERE outbox = 'kept';
     INSERT INTO kept(topic, payload) VALUES ('later', '{}')"
w status "$url#kept" --json
json "where no row says so it is behind for as long as the last relay is gone" \
	'd["stream"]["behind_us"] >= 3600e6 and d["stream"]["behind_by"] in ("relay", "slot")'
check "the slot is free again" released
sql "SELECT pg_drop_replication_slot('$(slot kept)')" >/dev/null
stream "#kept" --on-done keep
check "a lost slot ends the relay" test "$status" -ne 0
expect "which says what can be done" "$status" "err:--from now" "err:--from table"
w create "$url#kept" --layout native --stream
expect "create makes no other, which would leave messages out" 2 "err:--from now"
check "so there is none" test -z "$(slot kept)"
stream "#kept" --on-done keep --from now
expect "and goes on when it is told" 0 "is:" "err:0 delivered"

# ---- Debezium's table ----

sql "CREATE TABLE events(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
     aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)"
w create "$url#events"
expect "the table of the event router is recognised" 0
sql "BEGIN; INSERT INTO events VALUES (gen_random_uuid(), 'order', '7', 'Made', '{\"a\":1}');
     DELETE FROM events; COMMIT"
stream "#events"
expect "its log begins with its slot" 0 "is:"
sql "BEGIN; INSERT INTO events VALUES (gen_random_uuid(), 'order', '7', 'Made', '{\"a\":1}');
     DELETE FROM events; COMMIT"
stream "#events"
json "then each event is delivered as the router would" \
	'd["topic"] == "outbox.event.order" and d["key"] == "7" and d["headers"] == {"type": "Made"}'
w relay "$url#events" stdout: --engine exclusive
expect "no other engine can relay it" 2 "err:--engine stream"

# ---- what cannot be ----

sql "CREATE ROLE clerk LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk"
w relay "${url/wherry@/clerk@}" stdout: --engine stream
check "a role that may not replicate is refused" test "$status" -ne 0
expect "with the way out" "$status" "err:REPLICATION"
sql "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')" >/dev/null 2>&1 ||
	sql "SELECT pg_create_physical_replication_slot('theirs')" >/dev/null
stream "" --set stream.slot=theirs
check "a slot of another kind is refused" test "$status" -ne 0
expect "and named" "$status" "err:'theirs' is another's" "err:stream.slot"
sql "CREATE PUBLICATION others FOR TABLE kept"
stream "" --set stream.publication=others
check "so is a publication without the table" test "$status" -ne 0
expect "with the statement that mends it" "$status" "err:ADD TABLE public.outbox"

# A table that is made again is not in the publication of the one before.
sql "ALTER TABLE kept RENAME TO kept_before"
w create "$url#kept" --layout native
expect "a table that is made again is put into its publication" 0
check "which has it" test "$(sql "SELECT count(*) FROM pg_publication_tables
	WHERE tablename = 'kept' AND pubname LIKE 'wherry_kept_%'")" = 1
sql "ALTER PUBLICATION $(sql "SELECT pubname FROM pg_publication
	WHERE pubname LIKE 'wherry_outbox_%'") DROP TABLE outbox"
stream
check "a publication of Wherry's without the table is refused, too" test "$status" -ne 0
expect "and says who adds it" "$status" "err:run \`wherry create '$url#outbox' --stream\`"
w create "$url" --layout native
stream
expect "and then it streams again" 0
w relay "sqlite:$tmp/a.db" stdout: --engine stream
check "there is no log on SQLite" test "$status" -ne 0
w relay "$url" stdout: --on-done keep
expect "and nothing is kept without one" 2 "err:--engine stream"
stop_server

rm -f "$tmp/hold" "$tmp/folder"
start_server
w create "$url" --layout native
w relay "$url" stdout: --engine stream
check "a server that writes no such log is refused" test "$status" -ne 0
expect "with the setting that it takes" "$status" "err:wal_level = logical"
stop_server

finish
