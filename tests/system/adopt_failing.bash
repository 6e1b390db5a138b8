# A row for which an expression of an adopted table fails dies alone: the others are delivered.  Scripts set url, kind and, for
# each case, columns and good, and define run_sql.
# shellcheck shell=bash disable=SC2154

relay() { # [SUBSCRIPTION]: delivers what is there
	rm -f got.ndjson
	w relay "$url#events_log${1-}" file:got.ndjson --until-empty --timeout 60s
}
got() { # JQ: of each message that the last relay delivered
	[ ! -e got.ndjson ] || jq -r "$1" got.ndjson | paste -sd' '
}
dead() { # [SUBSCRIPTION]: id and reason of each dead message
	"$wherry" list "$url#events_log${1-}" --state dead --json | jq -r '"\(.id) \(.last_error)"'
}
undone() {
	run_sql "SELECT id FROM events WHERE published_at IS NULL ORDER BY id" | paste -sd' '
}

# dies NAME VALUE REASON OPTION...: the expression of the options fails for the second and the fifth row, of which `v` is the
# value; the others have $good.
dies() {
	local name="$kind: $1" value=$2 reason=$3
	shift 3
	run_sql "CREATE TABLE events($columns)"
	w adopt "$url#events" "$@" --yes
	[ "$status" = 0 ] || echo "# $err"
	run_sql "INSERT INTO events(type, \"key\", data, v) VALUES ('a', 'x', '1', $good), ('a', 'x', '2', $value), ('a', 'y', '3', $good),
		('a', 'x', '4', $good), ('a', 'y', '5', $value), ('a', 'y', '6', $good)"
	w create "$url#events_log/audit" --topics 'a,b'
	relay
	check "$name: the other rows are delivered" is "$(got .id)" "1 3 4 6"
	check "$name: these are dead, with the reason" is "$(dead | grep "$reason" | cut -d' ' -f1 | sort -n | paste -sd' ')" "2 5"
	relay /audit
	check "$name: another subscription has the same" is "$(got .id), $(dead /audit | grep -c "$reason")" "1 3 4 6, 2"
	relay
	check "$name: the owner knows what is done" is "$(undone)" "2 5"
	w status "$url#events_log"
	expect "$name: the commands work" 0 "out:dead        2"
	run_sql "UPDATE events SET v = $good WHERE id = 2"
	w retry "$url#events_log" --all
	relay
	check "$name: what its owner repaired is delivered by a retry" is "$(got .id)" 2
	check "$name: and the other one dies again" is "$(dead | cut -d' ' -f1)" 5
	w discard "$url#events_log" 5 --yes
	check "$name: it can be discarded" is "$(dead)" ""
	relay
	check "$name: it is not done while another subscription has it" is "$(undone)" "2 5"
	w discard "$url#events_log/audit" --state dead --yes
	expect "$name: there they are discarded by state" 0 "out:2 messages discarded" "err:action=discard" "err:id=5"
	[ "$kind" != mssql ] || relay /audit # Its position passes the new row version of what was repaired.
	relay
	check "$name: discarded and delivered rows are done for their owner" is "$(undone)" ""
	w drop "$url#events_log" --yes
	run_sql "DROP TABLE events"
}

# waits NAME VALUE OPTION...: the row is one of those that were not delivered before the table was adopted.
waits() {
	local name="$kind: $1" value=$2
	shift 2
	run_sql "CREATE TABLE events($columns);
		INSERT INTO events(type, \"key\", data, v) VALUES ('a', 'x', '1', $good), ('a', 'x', '2', $value), ('a', 'x', '3', $good)"
	w adopt "$url#events" "$@" --yes
	run_sql "INSERT INTO events(type, \"key\", data, v) VALUES ('a', 'x', '4', $good)"
	relay
	check "$name: a row that was there before dies alone, too" is "$(got .id), $(dead | cut -d' ' -f1)" "1 3 4, 2"
	w drop "$url#events_log" --yes
	run_sql "DROP TABLE events"
}
