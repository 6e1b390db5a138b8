#!/usr/bin/env bash
# A row that takes little room in PostgreSQL and is far over the limit as text is never sent: it becomes dead
# alone, and costs neither relays nor receivers their memory.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

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

stop_server
finish
