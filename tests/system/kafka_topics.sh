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

# told PARAMETERS TEXT [OPTION]: while nothing is to be sent, a relay logs it.
told() {
	"$wherry" relay sqlite:idle.db "kafka://$broker?$1" "${@:3}" 2>idle.err &
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

# ---- a topic that can lose messages ----

start_broker --replicas 3 --topic safe 1 --topic one 1 --topic both 1 --topic may-not 1 \
	--setting safe min.insync.replicas 2 --setting safe unclean.leader.election.enable false \
	--setting one min.insync.replicas 1 --setting both min.insync.replicas 1 \
	--setting both unclean.leader.election.enable true --setting may-not min.insync.replicas 1
check "a topic of the URL that can lose messages is named at the start, with the command that repairs it" told topic=one \
	"event=unsafe-topic topic=one replicas=3 .*--entity-name one --add-config min.insync.replicas=2"
describe=32 no_right=29
broker refuse $describe $no_right 1
check "without the right to describe it that is logged for debugging only" told "topic=may-not" \
	"level=debug .*event=topic-unread topic=may-not why=.*Topic authorization failed" --verbose
check "and not as a warning" is "$(grep -c "level=warn" idle.err)" 0

w create sqlite:unsafe.db
for topic in safe both safe both; do
	w enqueue sqlite:unsafe.db --topic $topic '{}'
done
# With OpenTelemetry, which stands before the destination and must pass on its notices.
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9 "$wherry" relay sqlite:unsafe.db "kafka://$broker" --lease 1s \
	2>unsafe.err &
pid=$!
pids+=("$pid")
check "a topic that can lose messages is named when it is first met" until_true 20 grep -q \
	"event=unsafe-topic topic=both .*--add-config min.insync.replicas=2,unclean.leader.election.enable=false" unsafe.err
check "and by doctor" until_true 20 eval '"$wherry" doctor sqlite:unsafe.db | grep -q "unsafe-topic .*of the topic both"'
w doctor sqlite:unsafe.db
expect "with the command" 0 \
	"out:kafka-configs.sh --bootstrap-server $broker --alter --entity-type topics --entity-name both --add-config"
w status sqlite:unsafe.db
expect "for status it is a notice" 0 "out:all is well" "out:notice"
kill -TERM "$pid"
wait "$pid"
check "it is named once, and no other topic is" is "$(grep -c unsafe-topic unsafe.err)" 1

finish
