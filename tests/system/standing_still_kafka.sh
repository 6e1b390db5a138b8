#!/usr/bin/env bash
# Makes messages stand still in each way that docs/internals/standing-still.md lists for Kafka, and
# compares status, doctor, /readyz and /metrics with the table.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"
# shellcheck source=tests/system/standing.bash
. "$source_dir/tests/system/standing.bash"

produce=0
denied=29 not_enough=19
patient=(--older-than 2s)
quick='topic.metadata.propagation.max.ms=100&batch.num.messages=1&linger.ms=0'
limit=1500

start_broker --topic there 1

# relay_on DATABASE: a daemon relays this outbox, which is new.
relay_on() {
	db=sqlite:$1.db
	w create "$db"
	run_to "kafka://$broker?$quick&delivery.timeout.ms=$limit"
}

# It takes the first message, and lets the second one wait for a minute.
broker throttle 60000
relay_on quota
one there
check "the first message is delivered" until_true 20 \
	metric 'v("wherry_last_delivery_seconds", relay="r") >= 0'
one there
broker throttle 0
slow=$daemon slow_port=$port

relay_on beside
one there
one nowhere
stands "a topic is missing, and another one takes messages" daemon
quit_daemon

relay_on alone
for ((i = 0; i < 12; i++)); do
	one nowhere
done
stands "a topic is missing, and no other takes messages" daemon
quit_daemon

relay_on right
broker refuse "$produce" "$denied" 1000
one there
stands "the relay has no right on the topic" daemon
quit_daemon
broker accept "$produce"

relay_on replicas
broker refuse "$produce" "$not_enough" 1000
one there
stands "the topic has too few replicas in sync" daemon
quit_daemon
broker accept "$produce"

db=sqlite:quota.db daemon=$slow port=$slow_port
stands "a quota delays messages" daemon
quit_daemon

start_broker --topic there 1
limit=20000
relay_on down
one there
check "a message is delivered" until_true 20 metric 'v("wherry_last_delivery_seconds", relay="r") >= 0'
broker down
one there
stands "no broker can be reached" daemon
check "the log says why" grep -q 'event=brokers-down why="no broker can be reached: .*refused' log
broker up
check "and when one is back, the message is delivered" until_true 20 \
	metric 'v("wherry_destination_up", relay="r") == 1 and v("wherry_outbox_pending", relay="r") == 0'
quit_daemon

finish
