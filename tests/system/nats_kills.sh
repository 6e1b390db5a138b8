#!/usr/bin/env bash
# Relays to NATS are killed on the way, and so is the server.
#
# Writes TAP.

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"

# ---- for kills.bash ----

pace() {
	[ "$1" != slow ] || stream add ORDERS orders
	pauses "$1" "$nats_pid" 0.005
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
