#!/usr/bin/env bash
# Drives the real program on PostgreSQL's WAL: the table of Debezium's event router, and what is refused.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical max_replication_slots=5 max_wal_senders=5

stream() { # [#TABLE [ARGUMENT...]]
	w relay "$url${1-}" stdout: --until-empty --timeout 60s "${@:2}"
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

# Slots whose name begins so which standbys do not copy, though the server could tell them to.
left_behind() {
	sql "SELECT count(*) FROM pg_replication_slots AS s WHERE slot_name LIKE 'wherry_$1%'
		AND to_jsonb(s) ->> 'failover' = 'false'"
}

event() { # TABLE AGGREGATEID: an event that is deleted in its transaction
	sql "BEGIN; INSERT INTO $1 VALUES (gen_random_uuid(), 'order', '$2', 'Made', '{\"a\":1}'); DELETE FROM $1; COMMIT"
}

# ---- Debezium's table ----

sql "CREATE TABLE events(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
     aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)"
w create "$url#events"
expect "the table of the event router is recognised" 0
event events 6
stream "#events"
expect "the WAL is read from its slot on" 0 "is:"
check "a standby may copy the slot that the relay made" is "$(left_behind events)" 0
w status "$url#events" --json
json "status tells of it" 'd["stream"]["slot"].startswith("wherry_events_") and d["stream"]["lost"] is False'
w status "$url#events"
expect "also to people" 0 "out:stream      wherry_events_"
event events 7
stream "#events"
json "then each event is delivered as the router would" \
	'd["topic"] == "outbox.event.order" and d["key"] == "7" and d["headers"] == {"type": "Made"}'
event events 9
w relay "postgres://wherry@${folder//\//%2F},${tmp//\//%2F}%2Fnowhere/postgres#events" stdout: --until-empty --timeout 20s
json "it connects to the host that answered, if the URL has hosts and no ports" 'd["key"] == "9"'

w create "$url#kept" --layout debezium --stream
expect "create makes publication and slot" 0
check "a standby may copy it" is "$(left_behind kept)" 0
check "so they are there" test -n "$(slot kept)"
sql "INSERT INTO kept VALUES (gen_random_uuid(), 'order', '1', 'Made', '{}')"
stream "#kept"
json "the first run delivers what was written since" 'len(l) == 1 and d["key"] == "1"'
check "a standby may copy the slot that this run left" is "$(left_behind kept)" 0
event kept 2
stream "#kept"
json "what was deleted at once is delivered, and nothing twice" 'len(l) == 1 and d["key"] == "2"'
event kept 3
w relay "$url#kept" 'exec:exit 65' --until-empty
expect "what is refused dies" 3 "err:1 dead"
check "and is kept" answers "SELECT aggregate_id FROM wherry_dead WHERE outbox = 'kept'" 3
w status "$url#kept"
expect "which status tells" 0 "out:1 in wherry_dead"
sql "UPDATE wherry_stream SET written_at = now() - interval '1 h' WHERE outbox = 'kept'"
event kept 4
w status "$url#kept" --json
json "it is behind for as long as the last relay is gone" \
	'd["stream"]["behind_us"] >= 3600e6 and d["stream"]["behind_by"] in ("relay", "slot")'
check "the slot is free again" released
sql "SELECT pg_drop_replication_slot('$(slot kept)')" >/dev/null
stream "#kept"
check "a lost slot ends the relay" test "$status" -ne 0
expect "which says what can be done" "$status" "err:--from now" "err:--from table"
w create "$url#kept" --layout debezium --stream
expect "create makes no other, which would leave messages out" 2 "err:--from now"
check "so there is none" test -z "$(slot kept)"
stream "#kept" --from now
expect "and goes on when it is told" 0 "is:" "err:0 delivered"

w create "$url#named" --layout debezium --stream --set stream.slot=mine
stream "#named" --set stream.slot=mine
w doctor "$url#named"
expect "the doctor looks at the slot that the relay read" "$status" "no:is gone" "out:replication slot mine"
sql "SELECT pg_drop_replication_slot('mine')" >/dev/null

# ---- what cannot be ----

sql "CREATE ROLE clerk LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk"
w relay "${url/wherry@/clerk@}#events" stdout:
check "a role that may not replicate is refused" test "$status" -ne 0
expect "with the way out" "$status" "err:REPLICATION"
sql "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')" >/dev/null 2>&1 ||
	sql "SELECT pg_create_physical_replication_slot('theirs')" >/dev/null
stream "#events" --set stream.slot=theirs
check "a slot of another kind is refused" test "$status" -ne 0
expect "and named" "$status" "err:'theirs' is another's" "err:stream.slot"
sql "CREATE PUBLICATION others FOR TABLE kept"
stream "#events" --set stream.publication=others
check "so is a publication without the table" test "$status" -ne 0
expect "with the statement that mends it" "$status" "err:ADD TABLE public.events"

# A table that is made again is not in the publication of the one before.
sql "ALTER TABLE kept RENAME TO kept_before"
w create "$url#kept" --layout debezium
expect "a table that is made again is put into its publication" 0
check "which has it" test "$(sql "SELECT count(*) FROM pg_publication_tables
	WHERE tablename = 'kept' AND pubname LIKE 'wherry_kept_%'")" = 1
sql "ALTER PUBLICATION $(sql "SELECT pubname FROM pg_publication
	WHERE pubname LIKE 'wherry_events_%'") DROP TABLE events"
stream "#events"
check "a publication of Wherry's without the table is refused, too" test "$status" -ne 0
expect "and says who adds it" "$status" "err:run \`wherry create '$url#events' --stream\`"
w create "$url#events" --stream
stream "#events"
expect "and then it reads the WAL again" 0
stop_server

rm -f "$tmp/hold" "$tmp/folder"
start_server
w create "$url#events" --layout debezium
w relay "$url#events" stdout:
check "a server that writes no such log is refused" test "$status" -ne 0
expect "with the setting that it takes" "$status" "err:wal_level = logical"
stop_server

finish
