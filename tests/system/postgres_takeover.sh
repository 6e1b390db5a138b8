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
	"$wherry" relay "$url" null: --lease 1h 2>near.log &
	pids+=($!)
	until_true 20 grep -q 'event=standby' near.log
	kill -KILL "$(pgrep -P "$away")"
	check "a relay takes over from one in another container whose session has ended" \
		until_true 4 grep -q 'event=leading' near.log
	check "and says so" grep -q 'event=leader-gone.*session' near.log
fi

finish
