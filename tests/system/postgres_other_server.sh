#!/usr/bin/env bash
# Another server leads, here one that is promoted: relays of each kind of table say so, to status and doctor.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical
w create "$url"
w create "$url#events" --layout debezium --stream
w create "$url#jobs" --kind queue
w create "$url#later" --kind delayed
tables=("$url" "$url#events" "$url#jobs" "$url#later/mail")

w doctor "$url"
expect "doctor finds no other server" 1 "no:warn  other-server"
for i in "${!tables[@]}"; do
	"$wherry" relay "${tables[i]}" null: 2>"$i.log" 9>&- &
	pids+=($!)
done
check "four relays work" until_true 20 answers \
	"SELECT count(*) > 3 FROM wherry_lease WHERE expires_at > now()" t

sql CHECKPOINT
pid=$(cat "$folder/pid")
kill -KILL "$pid"
until_true 30 eval '! pgrep -P "$pid" >/dev/null'
"${server_user[@]}" touch data/standby.signal
echo "start $pid" >&9
check "the server is promoted" until_true 30 answers "SELECT pg_promote()" t
for of in "${tables[@]}"; do
	check "status says that another server leads: ${of#"$url"}" until_true 20 eval \
		"'$wherry' status '$of' | grep -q 'another server leads'"
	check "and so does doctor" eval \
		"'$wherry' doctor '$of' | grep -q '^warn  other-server .*another server leads'"
	check "it is not taken for a failed delivery" eval \
		"! '$wherry' status '$of' | grep -q 'deliveries fail'"
done
check "the log says it" eval '[ "$(cat ./*.log | grep -c event=failed-over)" -ge 4 ]'
stop_server
finish
