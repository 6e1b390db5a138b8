#!/usr/bin/env bash
# A row that takes little room in PostgreSQL and is far over the limit as text is never sent: it becomes dead
# alone, and costs neither relays nor receivers their memory.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical

# Types, and SQL of a value that is about so many bytes, which %s stands for.
declare -A expands=(
	[text]="repeat('x', %s)"
	[json]="CAST(concat('\"', repeat('x', %s), '\"') AS json)"
	[bytea]="decode(repeat('00', %s), 'hex')"
	[jsonb]="to_jsonb(repeat('x', %s))"
	[digits]="(SELECT jsonb_agg(1e131071) FROM generate_series(1, %s / 131072))"
)

of_type() { # KIND
	[ "$1" = digits ] && echo jsonb || echo "$1"
}

value() { # KIND BYTES
	# shellcheck disable=SC2059
	printf "${expands[$1]}" "$2"
}

relayed() { # NAME SOURCE
	local name=$1 source=$2
	w relay "$source" "file:$tmp/$name" --until-empty --timeout 60s --set outbox.body_max=1MB
	out=$(wc -l <"$tmp/$name")
	[ "$out" = 2 ] && [[ $err == *'event=dead id=2 '*'why="payload is over its limit '* ]]
	result $? "a relay delivers what is beside $name" "${why-}"
}

for kind in "${!expands[@]}"; do
	w create "$url#o_$kind" --payload "$(of_type "$kind")"
	sql "INSERT INTO o_$kind(topic, payload) VALUES ('t', '1'), ('t', $(value "$kind" 3000000)), ('t', '2')"
	relayed "o_$kind" "$url#o_$kind"

	w create --kind queue "$url#q_$kind" --payload "$(of_type "$kind")"
	sql "INSERT INTO q_$kind(body) VALUES ('1'), ($(value "$kind" 3000000)), ('2')"
	relayed "q_$kind" "$url#q_$kind"

	# Receivers have a limit of their own.
	sql "DELETE FROM q_$kind; INSERT INTO q_$kind(body) VALUES ('1'), ($(value "$kind" 70000000)), ('2')"
	why="SELECT count(*) FROM q_$kind WHERE state = 4 AND last_error LIKE 'the body is over its limit%'"
	out=$(sql "SELECT count(*) FROM wherry_receive('q_$kind', 2)" 2>&1)
	[ "$out" = 2 ] && answers "$why" 1
	result $? "wherry_receive() receives what is beside $kind" "${why-}"
	sql "UPDATE q_$kind SET state = 0, available_at = NULL, lease_token = NULL, attempts = 0"
	w list "$url#q_$kind"
	[ "$status" = 0 ] && [ ${#out} -lt 10000 ]
	result $? "list goes past $kind" "${why-}"
	w receive "$url#q_$kind"
	w receive "$url#q_$kind"
	expect "receive receives what is beside $kind" 0 is:2
	answers "$why" 1
	result $? "and makes the $kind dead" "$why"
done

for kind in jsonb digits; do
	sql "CREATE SCHEMA f_$kind"
	w create "$url#f_$kind.outbox" --layout eventferry
	sql "SET search_path = f_$kind; INSERT INTO outbox(topic, aggregate_type, aggregate_id, message_id, payload, headers)
		VALUES ('t', 'a', '1', gen_random_uuid(), '1', '{}'), ('t', 'a', '2', gen_random_uuid(), $(value "$kind" 3000000), '{}'),
		('t', 'a', '3', gen_random_uuid(), '2', '{}')"
	relayed "f_$kind" "$url#f_$kind.outbox"
done

# ---- the WAL ----

# As text the value has a gigabyte, so the server cannot even send it to a relay that reads the WAL.
sql "CREATE TABLE events(id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb)"
event() { # AGGREGATEID PAYLOAD
	sql "INSERT INTO events VALUES (gen_random_uuid(), 'order', '$1', 'Made', $2)"
}
w create "$url#events"
"$build_dir/wherry" relay "$url#events" "file:$tmp/streamed" 2>"$tmp/relay.log" &
relay=$!
check "a relay streams" until_true 60 grep -q event=streaming "$tmp/relay.log"
event 1 "'1'"
check "and delivers" until_true 60 grep -q '"aggregate_id":"1"' "$tmp/streamed"
event 2 "to_jsonb(repeat(chr(1), 180000000))"
event 3 "'3'"
check "it says that the server cannot send a row" until_true 240 grep -q 'event=unsendable' "$tmp/relay.log"
check "and where" grep -q 'why="the server cannot send a row that was committed behind the WAL position ' "$tmp/relay.log"
warns() {
	w status "$url#events"
	[[ $out == 'warning     the server cannot send a row '* ]]
}
check "status begins with it" until_true 30 warns
w doctor "$url#events"
expect "and so does the doctor" 1 "out:bad   unsendable          the server cannot send a row "
peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$relay/status")
check "the relay's memory stays small: $peak kB" [ "${peak:-999999}" -lt 200000 ]
check "it asks the server for it no more than once in five minutes" [ "$(grep -c event=unsendable "$tmp/relay.log")" = 1 ]
kill "$relay"
wait "$relay"
sql "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots" >/dev/null
w relay "$url#events" "file:$tmp/streamed" --from now --until-empty --timeout 60s
expect "the row is given up with its slot" 0
"$build_dir/wherry" relay "$url#events" "file:$tmp/streamed" 2>"$tmp/relay.log" &
relay=$!
event 4 "'4'"
check "which goes on" until_true 60 grep -q '"aggregate_id":"4"' "$tmp/streamed"
kill "$relay"
wait "$relay"

# The server can send this one.  Its message dies, and is kept whole.
bytes=40000000
[ -z "${WHERRY_TEST_DEEP-}" ] || bytes=600000000
sql "CREATE TABLE blobs(id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload bytea);
	ALTER TABLE blobs ALTER payload SET STORAGE EXTERNAL"
blob() { # AGGREGATEID PAYLOAD
	sql "INSERT INTO blobs VALUES (gen_random_uuid(), 'order', '$1', 'Made', $2)"
}
w create "$url#blobs"
"$build_dir/wherry" relay "$url#blobs" "file:$tmp/blobs" --set db.busy_timeout=10m 2>"$tmp/relay.log" &
relay=$!
blob 1 "'1'"
check "a relay streams again" until_true 60 grep -q '"aggregate_id":"1"' "$tmp/blobs"
psql -X -q -h "$folder" -U wherry postgres -c "BEGIN; LOCK TABLE wherry_dead IN EXCLUSIVE MODE; SELECT pg_sleep(600)" \
	>"$tmp/holder" 2>&1 &
holder=$!
lock="FROM pg_locks WHERE relation = 'wherry_dead'::regclass AND mode = 'ExclusiveLock' AND granted"
check "nobody can write a dead message" until_true 60 answers "SELECT count(*) $lock" 1
half="decode(repeat('0123456789', $((bytes / 10))), 'hex')"
blob 2 "$half || $half"
blob 3 "'3'"
check "the relay says that it writes a large message" until_true 240 grep -q 'event=large-dead' "$tmp/relay.log"
check "and which" grep -q "why=\"the relay writes a large message to wherry_dead: $((bytes / 1000000)) MB, message id [0-9a-f-]*\"" "$tmp/relay.log"
w status "$url#blobs"
expect "status begins with it" 0 'out:warning     the relay writes a large message to wherry_dead: '
w doctor "$url#blobs"
expect "and so does the doctor" 1 "out:bad   large-dead          the relay writes a large message to wherry_dead: "
sql "SELECT pg_terminate_backend(pid) $lock" >"$tmp/ended"
wait "$holder"
check "what is behind it leaves" until_true 300 grep -q '"aggregate_id":"3"' "$tmp/blobs"
check "and it is kept whole" answers "SELECT octet_length(payload) FROM wherry_dead WHERE outbox = 'blobs'" "$bytes"
dead_alone() {
	w status "$url#blobs"
	[[ $out == 'warning     1 message is dead'* ]]
}
check "status says no more that it is written" until_true 30 dead_alone
kill "$relay"
wait "$relay"

stop_server
finish
