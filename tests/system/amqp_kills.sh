#!/usr/bin/env bash
# 10,000 messages to RabbitMQ, while relays are killed, and the broker once: in a quorum queue, which
# keeps what it has confirmed.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/kills.bash
. "$(dirname "$0")/kills.bash"
# shellcheck source=tests/amqp/amqp.bash
. "$source_dir/tests/amqp/amqp.bash"

if ! has_rabbit; then
	printf '1..1\nok 1 - RabbitMQ # SKIP %s\n' "$amqp_lacks"
	exit 0
fi

# ---- for kills.bash ----

slowing=

# Freeze the broker most of the time.
slow_down() {
	local pid

	while pid=$(cat "$amqp_folder/pid"); do
		kill -STOP "$pid"
		command sleep 0.02
		kill -CONT "$pid"
		command sleep 0.01
	done
}

pace() {
	if [ "$1" = fast ] || [ -n "$slowing" ]; then
		return
	fi
	slow_down 2>/dev/null &
	slowing=$!
	pids+=("$slowing")
}

gone() {
	kill "$slowing"
	wait "$slowing" 2>/dev/null
	rabbit kill
	check "it sees that the broker is gone" until_true 20 grep -q destination-down last.err
}

back() {
	check "the broker comes back" rabbit start
}

arrived() {
	read_queue orders | python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    print(json.dumps({"id": m["message_id"], "key": m["headers"]["key"], "n": m["body"]["n"]}))'
}

start_rabbit || exit 1
amqp_do 'c.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})'
w create sqlite:many.db
deliver_with_kills sqlite:many.db "$amqp"

stop_rabbit
finish
