#!/usr/bin/env bash
# Relays to NATS are killed on the way, and so is the server.
#
# Writes TAP.

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"

# ---- for kills.bash ----

# The server is faster than kills.  So it stands still for most of the time.
falter() {
	while kill -STOP "$nats_pid" && command sleep 0.03 && kill -CONT "$nats_pid"; do
		command sleep 0.005
	done 2>/dev/null
}

pace() {
	[ -z "${faltering-}" ] || {
		kill "$faltering"
		wait "$faltering" 2>/dev/null
		kill -CONT "$nats_pid" 2>/dev/null
		faltering=
	}
	[ "$1" != slow ] || stream add ORDERS orders
	[ "$1" = fast ] || {
		falter &
		faltering=$!
		pids+=("$faltering")
	}
}

gone() {
	pace fast
	kill_nats
	check "it sees that the server is gone" until_true 20 grep -q destination-down last.err
}

back() {
	run_nats
}

arrived() {
	read_back ORDERS | python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    print(json.dumps({"id": m["headers"]["Nats-Msg-Id"], "key": m["headers"]["key"],
                      "n": m["body"]["n"]}))'
}

start_nats
w create sqlite:many.db
deliver_with_kills sqlite:many.db "$nats"
json "the stream dropped what came twice" 'd["done"] == 10000'
out=$(arrived)
json "so that each message is there once" 'len(l) == 10000'

finish
