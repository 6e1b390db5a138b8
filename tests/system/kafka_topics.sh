#!/usr/bin/env bash
# Topics of Kafka that are not there, on a broker that makes none by itself.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"

start_broker --topic there 2 --topic shop.orders 1
quick=topic.metadata.propagation.max.ms=100

# told PARAMETERS TEXT: while nothing is to be sent, a relay logs it.
told() {
	"$wherry" relay sqlite:idle.db "kafka://$broker?$1" 2>idle.err &
	local pid=$! found
	pids+=("$pid")
	until_true 20 grep -q "$2" idle.err
	found=$?
	kill -TERM "$pid"
	wait "$pid"
	return $found
}

made() {
	timeout 60 kcat -b "$broker" -L -J | python3 -c '
import json, sys
sys.exit(not any(t["topic"] == sys.argv[1] and len(t["partitions"]) == int(sys.argv[2])
                 for t in json.load(sys.stdin)["topics"]))' "$@"
}

# ---- at the start ----

w create sqlite:idle.db
check "a topic of the URL that is not there is told at the start" told "topic=gone" "event=no-topic topic=gone .*create="
check "with its prefix" told "topic=gone&topic.prefix=shop." "event=no-topic topic=shop.gone "
check "one that is there is not" is "$(told topic=there "event=leading" && grep -c no-topic idle.err)" 0
"$wherry" relay sqlite:idle.db "kafka://$broker?topic=fresh&create=partitions:3,replication:1" 2>idle.err &
pid=$!
pids+=("$pid")
check "or it is made at the start" until_true 20 made fresh 3
kill -TERM "$pid"
wait "$pid"

# ---- with a message ----

w create sqlite:shop.db
w_in '{"n":1}' enqueue --lines sqlite:shop.db --topic nowhere
w_in '{"n":2}' enqueue --lines sqlite:shop.db --topic there
w relay sqlite:shop.db "kafka://$broker?$quick" --until-empty --timeout 4s --set retry.attempts=1 --set retry.cap=200ms
expect "a topic that is not there is held, and others are delivered" 5 \
	"err:event=topic-held topic=nowhere" "err:1 delivered, 0 retried" "err:, 0 dead in"
w list sqlite:shop.db --state failed --json
json "no attempt of its message is counted" 'd["attempts"] == 0'
json "its error names the topic and the way out" \
	'"topic nowhere: " in d["last_error"] and "create=partitions:3" in d["last_error"]'
w_in '{"n":1}' enqueue --lines sqlite:shop.db --topic anywhere
w relay sqlite:shop.db "kafka://$broker?$quick&create=partitions:5,replication:1" --until-empty --timeout 60s
expect "with create= it is delivered, and so is the one that was held" 0 "err:2 delivered, 0 retried, 0 dead"
check "and the topic has as many partitions" made anywhere 5

finish
