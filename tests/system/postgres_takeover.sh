#!/usr/bin/env bash
# As takeover.sh, on PostgreSQL, also where relays share the outbox.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/takeover.bash
. "$source_dir/tests/system/takeover.bash"

start_server

w create "$url"
takes_over "$url"

# In other namespaces, as in another container, no process is known.
if unshare -pf --kill-child true 2>/dev/null; then
	unshare -pf --kill-child "$wherry" relay "$url" null: --lease 1h 2>away.log &
	away=$!
	pids+=("$away")
	until_true 20 grep -q 'event=leading' away.log
	w status "$url"
	expect "status knows a relay in another container" 0 "no:no relay is running" "no:no session"
	kill -KILL "$(pgrep -P "$away")"
	check "status knows that its session has ended" until_true 4 eval \
		'"$wherry" status "$url" | grep -q "^relay .* no session of the database"'
	w status "$url"
	expect "and promises no delivery" 0 "no:all is well" "out:another relay takes over in seconds"
	w status "$url" --json
	expect "as JSON, too" 0 'out:"state":"disconnected"'
	w doctor "$url"
	expect "and doctor says so" 1 "out:warn  relay               the relay has no session of the database" \
		"out:whose session of the database has ended"
	sql "INSERT INTO outbox(message_id, topic, payload) VALUES ('waits', 't', '{}')"
	w show "$url" waits
	expect "show does not promise that it delivers" 0 "out:has no session of the database" \
		"no:will come to it"
	w doctor "$url" waits
	expect "nor does doctor of one message" 1 "out:warn  message  " "out:(waits) is pending: relay " \
		"no:will come to it"
	"$wherry" relay "$url" null: --lease 1h 2>near.log &
	pids+=($!)
	check "another relay takes over from it in seconds" \
		until_true 4 grep -q 'event=leading' near.log
	check "and says so" grep -q 'event=leader-gone.*session' near.log
	w status "$url"
	expect "status names that one" 0 "out:all is well" "no:no session"

	# A relay with another engine does not wait for the hour, either: a table may have got another layout meanwhile.
	for option in '' --partitions; do
		name=${option:+shared} name=${name:-alone}
		# shellcheck disable=SC2086
		w create "$url#$name" $option
		unshare -pf --kill-child "$wherry" relay "$url#$name" null: --lease 1h 2>away.log &
		away=$!
		pids+=("$away")
		until_true 20 grep -q 'event=leading' away.log
		sql "UPDATE wherry_lease SET engine = 'stream' WHERE outbox = '$name'"
		w relay "$url#$name" null: --lease 1h --until-empty --timeout 20s
		expect "$name: a relay with another engine that works is not joined" 1 "err:with the engine 'stream'" \
			"err:stop that one first"
		kill -KILL "$(pgrep -P "$away")"
		until_true 4 eval '"$wherry" status "$url#$name" | grep -q "no session of the database"'
		sql "INSERT INTO $name(topic, payload) VALUES ('t', '{}')"
		w relay "$url#$name" null: --lease 1h --until-empty --timeout 20s
		expect "$name: one whose session has ended is taken over from" 0 "err:event=standby" \
			"err:event=leader-gone" "err:1 delivered"
	done
fi

finish
