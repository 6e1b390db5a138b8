#!/usr/bin/env bash
# The example of a destination that a program implements does what it says.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

receive() {
	rm -f socket
	python3 "$source_dir/examples/unix_socket.py" "$tmp/socket" >>received 2>receiver.err &
	pids+=($!)
	until_true 20 test -S socket
}

w create sqlite:shop.db
w enqueue --lines sqlite:shop.db --topic quakes --key /net --from "$quakes"
total=$(sql shop.db 'SELECT count(*) FROM outbox')
sql shop.db "INSERT INTO outbox(topic, payload) VALUES ('empty', '')"
example=$build_dir/examples/unix_socket

wherry=$example # what w() runs
w shop.db "$tmp/socket" relay.timeout=2s retry.attempts=1
check "without a receiver nothing is lost" is \
	"$(state_count sqlite:shop.db pending)" $((total + 1))

receive
w shop.db "$tmp/socket" unix.window=7
expect "a relay with a destination that a program implements runs to its end" 0
check "each message arrived once" is "$(grep -c '^[0-9]' received)" $((total + 1))
check "all are done" is "$(state_count sqlite:shop.db done)" "$total"
check "but for the one that was rejected, with the reason" is \
	"$(sql shop.db 'SELECT last_error FROM outbox_exception WHERE state = 4')" "it is empty"

w shop.db "$tmp/socket" unix.window=0
expect "its settings have bounds" 1 "err:unix.window: 0 is below the least, 1"
w shop.db socket
expect "what it refuses is said" 1 "err:unix: needs a short absolute path"

kill "${pids[@]}"
wait
finish
