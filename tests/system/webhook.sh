#!/usr/bin/env bash
# The program and receivers of webhooks, in processes of their own.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"

export NO_PROXY='*'

if [[ $("$wherry" relay x: y: 2>&1) != *https:* ]]; then
	skip "webhooks" "this program is built without WHERRY_HTTP"
	finish
fi

# judge MESSAGES KEYS: all arrived, each key in order once duplicates are dropped, and there
# are not too many of these.
judge() {
	python3 - log "$1" "$2" <<'PYTHON'
import json, sys

first, lines = {}, 0
for line in open(sys.argv[1], encoding="utf-8"):
    if not line.endswith("\n"):
        continue  # the receiver was killed
    entry = json.loads(line)
    lines += 1
    first.setdefault(entry["headers"]["idempotency-key"], json.loads(entry["body"]))
keys = {}
for body in first.values():
    keys.setdefault(body["k"], []).append(body["n"])
assert len(first) == int(sys.argv[2]), f"{len(first)} messages arrived"
assert len(keys) == int(sys.argv[3]), f"{len(keys)} keys"
for key, numbers in keys.items():
    assert numbers == sorted(numbers), f"key {key} is out of order: {numbers}"
assert lines <= int(sys.argv[2]) + 4 * 1000, f"{lines} requests"
PYTHON
}

# ---- nothing is lost, whatever is killed ----

messages=10000 keys=100
w init sqlite:a.db
python3 -c "
for i in range($messages):
    print('{\"k\": \"%d\", \"n\": %d}' % (i % $keys, i))" >messages.ndjson
w enqueue sqlite:a.db --topic t --key /k --from messages.ndjson
expect "messages are enqueued" 0 "out:$messages enqueued"

relay() {
	"$wherry" relay sqlite:a.db "http://127.0.0.1:$port/hook" --until-empty --lease 1s \
		--set retry.base=100ms --set retry.attempts=100 "$@" 2>>relay.log &
	relay_pid=$!
	pids+=("$relay_pid")
}

receive --log log
for at in 1500 4000 7500; do
	relay
	check "a relay delivers $at messages" until_true 60 lines log "$at"
	kill -KILL "$relay_pid"
	wait "$relay_pid" 2>/dev/null
done
relay
check "another takes over" until_true 60 lines log 8500
kill_receiver
check "it sees that the receiver is gone" until_true 20 grep -q destination-down relay.log
receive --log log --port "$port"
wait "$relay_pid"
check "and delivers the rest once that is back" is $? 0
check "all have arrived, in order per key" judge $messages $keys
check "and nothing is open" is "$(sql a.db "SELECT count(*) FROM outbox WHERE status <> 2")" 0
finish
