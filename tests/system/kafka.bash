# What the scripts with Kafka share: librdkafka's mock cluster, which lives as long as
# descriptor 8 is open, and kcat to read it back.  Sets broker.
# shellcheck shell=bash disable=SC2034

# shellcheck source=tests/system/cli.bash
declare -F result >/dev/null || . "$(dirname "${BASH_SOURCE[0]}")/cli.bash"

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
	timeout 30 kcat -b "$broker" -t "$1" -C -e -q -o beginning -X fetch.wait.max.ms=10 -J |
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

done_at_least() { # URL N
	[ "$("$wherry" status "$1" --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["done"])')" -ge "$2" ]
}

# deliver_with_kills URL: 10,000 messages of 100 keys; the relay is killed three times on the
# way, and the brokers are gone once for a while.
deliver_with_kills() {
	local url=$1 pid k at to="kafka://$broker?topic=orders"
	local -a relay=("$wherry" relay "$url" "$to" --set relay.lease=1s
		--set relay.window=60)

	python3 -c '
import json
for n in range(10000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 100), "n": n}))' >many.ndjson
	w enqueue "$url" --topic orders --key /key --from many.ndjson
	expect "10,000 messages of 100 keys are enqueued" 0 "is:10000 enqueued, 0 duplicates"
	kafka topic orders 8
	kafka rtt 4 # or all is over before anything can be killed
	for at in 1500 3500 5500; do
		"${relay[@]}" 2>>relay.err &
		pid=$!
		pids+=("$pid")
		check "a relay has delivered $at" until_true 60 done_at_least "$url" "$at"
		kill -KILL "$pid"
		wait "$pid" 2>/dev/null
	done
	kafka rtt 20
	"${relay[@]}" --until-empty --timeout 90s 2>last.err &
	pid=$!
	pids+=("$pid")
	check "a relay has delivered 7500" until_true 60 done_at_least "$url" 7500
	kafka down 0
	command sleep 0.5
	kafka up 0
	kafka rtt 0
	wait "$pid"
	status=$? out='' err=$(cat last.err)
	expect "the last relay delivers the rest" 0 "err: 0 dead in "
	out=$(read_back orders)
	json "all are there" 'len({m["headers"]["message-id"] for m in l}) == 10000'
	json "in order per key, taking the first of each" '[
		all(a < b for a, b in zip(ns, ns[1:])) for ns in [
			list(dict.fromkeys(m["body"]["n"] for m in l if m["key"] == "k%d" % k))
			for k in range(100)]] == [True] * 100'
	json "what is there twice was in flight when somebody was killed" \
		'len(l) - 10000 <= 3 * 60'
}
