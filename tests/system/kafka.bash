# What the scripts with Kafka share: librdkafka's mock cluster, which lives as long as
# descriptor 8 is open, and kcat to read it back.  Sets broker.
# shellcheck shell=bash disable=SC2034

# shellcheck source=tests/system/kills.bash
. "$(dirname "${BASH_SOURCE[0]}")/kills.bash"

kafka_mock=$build_dir/tests/publish_kafka_mock_linked_main

# start_kafka [BROKERS]: or say that there is none, and end.
start_kafka() {
	if [ ! -x "$kafka_mock" ]; then
		printf '1..1\nok 1 - Kafka # SKIP built without librdkafka\n'
		exit 0
	fi
	if ! command -v kcat >/dev/null; then
		printf '1..1\nok 1 - Kafka # SKIP kcat is not installed\n'
		exit 0
	fi
	mkfifo "$tmp/kafka.in" "$tmp/kafka.out"
	"$kafka_mock" "${1:-1}" <"$tmp/kafka.in" >"$tmp/kafka.out" &
	pids+=($!)
	disown $!
	exec 8>"$tmp/kafka.in" 7<"$tmp/kafka.out"
	read -r -t 20 broker <&7
}

# kafka WORD...: tell the cluster, and wait until it has done so.
kafka() {
	local answer=
	echo "$*" >&8
	read -r -t 20 answer <&7
	[ "$answer" = ok ]
}

# read_back TOPIC: each record as a line of JSON: partition, offset, key, headers, body.
read_back() {
	timeout 60 kcat -b "$broker" -t "$1" -C -e -q -o beginning -X fetch.wait.max.ms=10 -J |
		python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    h = m.get("headers") or []
    body = m["payload"]
    try:
        body = json.loads(body)
    except (TypeError, ValueError):
        pass
    print(json.dumps({"partition": m["partition"], "offset": m["offset"],
                      "key": m["key"], "headers": dict(zip(h[::2], h[1::2])),
                      "body": body}))'
}

# ---- for kills.bash ----

pace() {
	kafka topic orders 8
	if [ "$1" = fast ]; then
		kafka rtt 0
	else
		kafka rtt 4
	fi
}

gone() {
	kafka rtt 20
	kafka down 0
	command sleep 0.5 # the producer says nothing of it
}

back() {
	kafka up 0
}

arrived() {
	read_back orders | python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    print(json.dumps({"id": m["headers"]["message-id"], "key": m["key"], "n": m["body"]["n"]}))'
}
