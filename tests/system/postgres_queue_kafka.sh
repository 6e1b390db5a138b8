#!/usr/bin/env bash
# From a queue in PostgreSQL to Kafka, with a kill on the way.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/kafka.bash
. "$source_dir/tests/system/kafka.bash"

most=2000

# arrived_all N: that many messages are in the topic of the queue.
arrived_all() {
	[ "$(read_back jobs | grep -o '"message-id": "[^"]*"' | sort -u | wc -l)" -ge "$1" ]
}

start_kafka 1
start_server
kafka topic jobs 4
w create --kind queue "$url#jobs"
w send "$url#jobs" '{"n":0}' --id m0 --header 'kind=first' --correlation-id c0
w relay "$url#jobs" "kafka://$broker" --until-empty --timeout 60s
expect "a queue is relayed to the topic of its name" 0 "err:1 delivered"
out=$(read_back jobs)
json "with its message id and headers, and without a key" 'd["headers"]["message-id"] == "m0"
	and d["headers"]["kind"] == "first" and d["body"] == {"n": 0} and not d["key"]'

sql "SELECT wherry_send('jobs', json_build_object('n', n), message_id => 'm' || n)
	FROM generate_series(1, $most) AS n" >/dev/null
kafka rtt 20
"$wherry" relay "$url#jobs" "kafka://$broker" 2>first.err &
first=$!
pids+=("$first")
until_true 30 arrived_all 50
kill -KILL "$first"
wait "$first" 2>/dev/null
kafka rtt 0
w relay "$url#jobs" "kafka://$broker" --until-empty --timeout 100s --set relay.lease=1s
expect "after a kill, another relay delivers the rest" 0
check "nothing is lost" arrived_all $((most + 1))
w status "$url#jobs" --json
json "and the queue is empty" '(d["ready"], d["leased"], d["waiting"], d["dead"]) == (0, 0, 0, 0)'

w create --kind queue "$url#audit"
w queue subscribe "$url#audit" orders
kafka topic orders 4
w queue publish "$url" orders '{"order":7}' --id p1
w relay "$url#audit" "kafka://$broker" --until-empty --timeout 60s
out=$(read_back orders)
json "what was published goes to the topic of that name" 'd["headers"]["message-id"] == "p1"'

kafka down 0
w send "$url#jobs" '{"n":-1}'
w relay "$url#jobs" "kafka://$broker" --until-empty --timeout 2s
expect "while Kafka is down, nothing is delivered" 5
kafka up 0
w status "$url#jobs" --json
json "and no message dies" 'd["dead"] == 0 and d["ready"] + d["leased"] + d["waiting"] == 1'
stop_server
finish
