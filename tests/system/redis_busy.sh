#!/usr/bin/env bash
# A relay to Redis while the server has memory and none, again and again.  The server refuses commands
# in the middle of what was sent to it, and takes the next ones.
#
# Writes TAP.

# shellcheck source=tests/system/redis.bash
. "$(dirname "$0")/redis.bash"

start_redis
python3 -c '
import json
for n in range(20000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 5), "n": n}))' >many.ndjson
w create sqlite:many.db
w enqueue --lines sqlite:many.db --topic orders --key /key --from many.ndjson
"$wherry" relay sqlite:many.db "$redis" --until-empty --timeout 200s 2>relay.err &
relay_pid=$!
while kill -0 "$relay_pid" 2>/dev/null; do
	ask CONFIG SET maxmemory 1mb >/dev/null
	command sleep "0.00$((RANDOM % 9 + 1))"
	ask CONFIG SET maxmemory 0 >/dev/null
	command sleep "0.0$((RANDOM % 5))"
done
wait "$relay_pid"
status=$? out='' err=$(cat relay.err)
expect "all are delivered, and no attempt is counted" 0 "err:20000 delivered, 0 retried, 0 dead" \
	"err:event=server-busy"
out=$(read_back "$redis" orders)
json "each is there once, and each key is in order" 'len(l) == 20000 and [
	all(a < b for a, b in zip(ns, ns[1:])) for ns in [
		[m["body"]["n"] for m in l if m["key"] == "k%d" % k] for k in range(5)]] == [True] * 5'

finish
