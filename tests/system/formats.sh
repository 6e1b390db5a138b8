#!/usr/bin/env bash
# Every format on every destination, read by that destination's own tools and checked by
# formats.py, which knows the specifications and not Wherry.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"
eval "$(declare -f read_back | sed '1s/read_back/read_nats/')"
# shellcheck source=tests/system/kafka.bash
. "$source_dir/tests/system/kafka.bash"
eval "$(declare -f read_back | sed '1s/read_back/read_kafka/')"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"
# shellcheck source=tests/amqp/amqp.bash
. "$source_dir/tests/amqp/amqp.bash"

formats='raw cloudevents cloudevents-structured debezium debezium-expanded'
trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01

# send FORMAT URL [SETTING...]: a message in this format, and one that has no such form.
send() {
	local format=$1 url=$2 further=() forged=ID
	shift 2
	rm -f a.db*
	"$wherry" create sqlite:a.db >/dev/null 2>&1
	case $format in
	debezium) further=(--set message.placement=type:header:eventType) ;;
	debezium-expanded) further=(--set message.placement=type:envelope:eventType) ;;
	raw) forged= ;;
	*) forged=${prefix}id further=(--set message.source=/shop) ;;
	esac
	[ -z "$forged" ] || "$wherry" enqueue sqlite:a.db '{"n":0}' --topic orders --key 7 \
		--aggregate-type order --aggregate-id 8 --header "$forged=x" >/dev/null
	"$wherry" enqueue sqlite:a.db '{"n":1}' --topic orders --key 7 --id m-1 --aggregate-type order \
		--aggregate-id '9 ä' --header tenant=acme --header "traceparent=$trace" \
		--header tracestate=a=b --header baggage=c=d >/dev/null
	"$wherry" relay sqlite:a.db "$url" --until-empty --timeout 30s --set "message.format=$format" \
		"${further[@]}" "$@" >relay.out 2>relay.log
	status=$? out=$(cat relay.out) err=$(cat relay.log)
	case $format in
	raw) expect "$name: raw is delivered" 0 "err:1 delivered, 0 retried, 0 dead" ;;
	cloudevents-structured) expect "$name: $format has no header to forge" 0 "err:2 delivered" ;;
	*) expect "$name: $format refuses a forged header, and delivers the next message of its key" 3 \
		"err:1 delivered, 0 retried, 1 dead" "err:its header '$forged' collides" ;;
	esac
}

# is_in FORMAT: the last line of the file line.
is_in() {
	tail -n 1 line >last
	check "$name: $1 is what its consumers expect" python3 "$source_dir/tests/system/formats.py" \
		"$1" "$prefix" <last
}

# as_message EXPRESSION: each line of JSON m as topic, headers and body.
as_message() {
	python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    t, h, b = eval(sys.argv[1])
    try:
        b = json.loads(b) if sys.argv[2] == "text" else b
    except ValueError:
        pass
    print(json.dumps({"topic": t, "headers": h, "body": b, "percent": sys.argv[3] == "percent"}))' "$@"
}

name=stdout prefix=ce-
for format in $formats; do
	send "$format" stdout:
	printf '%s\n' "$out" | as_message 'm["topic"], m["headers"], m["body"]' value plain >line
	is_in "$format"
done

name=webhook
for format in $formats; do
	rm -f requests
	receive --log requests
	send "$format" "http://127.0.0.1:$port/"
	as_message 'dict(m["headers"])["wherry-topic"], dict(m["headers"]), m["body"]' text percent <requests >line
	is_in "$format"
	kill_receiver
done

name=NATS
if command -v nats-server >/dev/null && [ -x "$nats_tool" ]; then
	start_nats
	for format in $formats; do
		stream add "$format" "$format.>" >/dev/null # A stream drops ids that it has seen.
		send "$format" "$nats/$format.{topic}"
		read_nats "$format" | as_message 'm["headers"]["topic"], m["headers"], m["body"]' value percent >line
		is_in "$format"
	done
	kill_nats
fi

name=Redis
if command -v redis-server >/dev/null; then
	start_piped redis
	redis=$piped
	for format in $formats; do
		send "$format" "redis://127.0.0.1:$redis?stream=s"
		redis-cli -p "$redis" --json XREVRANGE s + - COUNT 1 | as_message \
			'(lambda f: (f["topic"], json.loads(f["headers"]), f["body"]))(dict(zip(m[0][1][::2], m[0][1][1::2])))' \
			text plain >line
		is_in "$format"
	done
	exec 5>&-
fi

name=RabbitMQ prefix=cloudEvents:
if has_rabbit && start_rabbit; then
	amqp_do 'c.queue_declare("all", durable=True)'
	for format in $formats; do
		send "$format" "$amqp?routing_key=all"
		read_queue all | as_message \
			'm["headers"]["topic"], {**m["headers"], "content-type": m.get("content_type", "")}, m["body"]' \
			value plain >line
		is_in "$format"
	done
	stop_rabbit
fi

name=Kafka prefix=ce_
if [ -x "$kafka_mock" ] && command -v kcat >/dev/null; then
	start_kafka 1
	for format in $formats; do
		topic=orders
		[[ $format != debezium* ]] || topic=outbox.event.order
		send "$format" "kafka://$broker"
		read_kafka $topic | as_message "'$topic', m['headers'], m['body']" value plain >line
		is_in "$format"
	done
	rm -f a.db*
	"$wherry" create sqlite:a.db >/dev/null 2>&1
	"$wherry" enqueue sqlite:a.db '{"n":1}' --topic framed >/dev/null
	"$wherry" relay sqlite:a.db "kafka://$broker" --until-empty --set message.schema_id=258 2>/dev/null
	check "a deserializer of the registry finds the schema's id" is \
		"$(timeout 60 kcat -b "$broker" -t framed -C -e -q -o beginning -f %s | od -An -tx1 | tr -d ' \n')" \
		00000001027b226e223a317d
fi

finish
