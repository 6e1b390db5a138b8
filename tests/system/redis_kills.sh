#!/usr/bin/env bash
# Relays to Redis are killed on the way, and so is the server.
#
# Writes TAP.

# shellcheck source=tests/system/redis.bash
. "$(dirname "$0")/redis.bash"

# ---- for kills.bash ----

pace() {
	pauses "$1" "$redis_pid" 0.002
}

gone() {
	pace fast
	kill_redis
	check "it sees that the server is gone" until_true 20 grep -q destination-down last.err
}

back() {
	run_redis
}

arrived() {
	read_back "$redis" orders | python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    print(json.dumps({"id": m["message_id"], "key": m["key"], "n": m["body"]["n"]}))'
}

start_redis
w create sqlite:many.db
deliver_with_kills sqlite:many.db "$redis"

finish
