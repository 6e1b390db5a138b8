# A Kafka broker with TLS and SASL (broker.py), for scripts; it lives as long as
# descriptor 6 is open.  Sets broker.
# shellcheck shell=bash disable=SC2034

# start_broker [OPTION...]: as broker.py has them; in the place of one that runs.  Or say
# that there is none, and end.
start_broker() {
	if [ ! -x "$build_dir/tests/publish_kafka_mock_linked_main" ]; then
		printf '1..1\nok 1 - Kafka # SKIP built without librdkafka\n'
		exit 0
	fi
	if ! command -v kcat >/dev/null; then
		printf '1..1\nok 1 - Kafka # SKIP kcat is not installed\n'
		exit 0
	fi
	rm -f "$tmp/broker.in" "$tmp/broker.out"
	mkfifo "$tmp/broker.in" "$tmp/broker.out"
	python3 "$source_dir/tests/kafka/broker.py" "$@" <"$tmp/broker.in" >"$tmp/broker.out" 2>broker.err &
	pids+=($!)
	disown $!
	exec 6>"$tmp/broker.in" 5<"$tmp/broker.out"
	read -r -t 20 broker <&5
}

# broker_says WORD...: what it answers.
broker_says() {
	local answer=
	echo "$*" >&6
	read -r -t 20 answer <&5
	echo "$answer"
}

# broker WORD...: a command, done when this returns.
broker() {
	[ "$(broker_says "$@")" = ok ]
}

# read_topic TOPIC: its messages, one a line.
read_topic() {
	timeout 60 kcat -b "$broker" -t "$1" -C -e -q -o beginning -X fetch.wait.max.ms=10 -J |
		python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    h = m["headers"]
    print(json.dumps({"id": h[h.index("message-id") + 1], "key": m["key"],
                      "body": json.loads(m["payload"])}))'
}
