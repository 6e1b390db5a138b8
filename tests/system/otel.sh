#!/usr/bin/env bash
# Spans and metrics of deliveries, at a collector that checks them.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

if [[ $("$wherry" relay x: y: 2>&1) != *https:* ]]; then
	printf '1..1\nok 1 - OpenTelemetry # SKIP built without WHERRY_HTTP\n'
	exit 0
fi
export NO_PROXY='*' OTEL_BSP_SCHEDULE_DELAY=100 OTEL_METRIC_EXPORT_INTERVAL=200
box=$tmp/box
mkdir "$box"
python3=${WHERRY_TEST_PYTHON-python3}
collect() { # [ARGUMENT...]
	rm -f "$box/port"
	"$python3" "$source_dir/tests/otel/collector.py" "$box" "$@" 2>>collector.err &
	collector_pid=$!
	pids+=("$collector_pid")
	until_true 20 test -s "$box/port"
	endpoint=http://127.0.0.1:$(cat "$box/port")
}
kill_collector() {
	kill -KILL "$collector_pid"
	wait "$collector_pid" 2>/dev/null
}
collect

trace=0af7651916cd43dd8448eb211c80319c
parent=b7ad6b7169203331

# spans: all of them that arrived, a line each, with attributes as a dict.
spans() {
	python3 - "$box/traces" <<-'END'
		import json, os, sys
		for line in open(sys.argv[1]) if os.path.exists(sys.argv[1]) else []:
		    for resource in json.loads(line)["resourceSpans"]:
		        for span in resource["scopeSpans"][0]["spans"]:
		            span["at"] = {a["key"]: list(a["value"].values())[0] for a in span["attributes"]}
		            span["service"] = resource["resource"]["attributes"][0]["value"]["stringValue"]
		            print(json.dumps(span))
	END
}

# traced FILE TOPIC ID TRACE [BODY]: a message with a trace id.
traced() {
	sql "$1.db" "INSERT INTO outbox(topic, message_id, trace_id, payload)
		VALUES ('$2', '$3', '$4', '${5-{\}}')"
}

# ---- off ----

w create sqlite:a.db
w enqueue sqlite:a.db '{}' --topic orders
w relay sqlite:a.db file:out --until-empty
check "without an endpoint nothing is sent" test ! -e "$box/traces" -a ! -e "$box/metrics"

# ---- spans ----

traced a orders one "00-$trace-$parent-01" '{"n":1}'
w enqueue sqlite:a.db '{"n":2}' --topic orders --key k --id two --header "traceparent=00-$trace-$parent-01"
w enqueue sqlite:a.db '{"n":3}' --topic orders --key k --id quiet --header "traceparent=00-$trace-$parent-00"
w enqueue sqlite:a.db '{"n":4}' --topic mails --id root
traced a mails known "$trace"
w relay sqlite:a.db file:out --until-empty --set "otel.endpoint=$endpoint/" --set otel.service=shop \
	--set otel.headers=x-key=hunter2%21,x-b=2
expect "messages are delivered as without it" 0 "err:5 delivered, 0 retried, 0 dead" "no:hunter2"
out=$(spans)
json "each sampled message has a span when the program ends" \
	"sorted(s['at']['messaging.message.id'] for s in l) == ['known', 'one', 'root', 'two']"
json "a traceparent is the parent, as a header or as the trace id" \
	"all(s['traceId'] == '$trace' and s['parentSpanId'] == '$parent' for s in l
	     if s['at']['messaging.message.id'] in ('one', 'two'))"
json "a message without a trace begins one" \
	"[('parentSpanId' in s, s['traceId'] != '$trace') for s in l
	  if s['at']['messaging.message.id'] == 'root'] == [(False, True)]"
json "one with a trace id alone is in that trace" \
	"[('parentSpanId' in s, s['traceId']) for s in l
	  if s['at']['messaging.message.id'] == 'known'] == [(False, '$trace')]"
json "names and attributes are those of the conventions" \
	"[s['name'] for s in l if s['at'] == {
	     'messaging.system': 'file', 'messaging.destination.name': 'orders',
	     'messaging.operation.name': 'send', 'messaging.operation.type': 'send',
	     'messaging.message.id': 'one', 'messaging.message.body.size': '7'}] == ['send orders'] and
	 all(s['service'] == 'shop' and s['kind'] == 4 for s in l)"
check "headers are sent" grep -q '"x-key": "hunter2!", "x-b": "2"' "$box/traces"

# ---- metrics ----

out=$(tail -n 1 "$box/metrics")
json "sums count each topic, also what is not sampled" \
	"{tuple(a['value']['stringValue'] for a in p['attributes'] if 'destination' in a['key']): p['asInt']
	  for p in d['resourceMetrics'][0]['scopeMetrics'][0]['metrics'][0]['sum']['dataPoints']
	 } == {('orders',): '3', ('mails',): '2'}"
json "and how long deliveries took" \
	"(lambda m: m['name'] == 'messaging.client.operation.duration' and m['unit'] == 's' and
	  sorted(p['count'] for p in m['histogram']['dataPoints']) == ['2', '3'])(
	    d['resourceMetrics'][0]['scopeMetrics'][0]['metrics'][1])"

# ---- failures, and the variables ----

rm -f "$box/traces"
export OTEL_EXPORTER_OTLP_ENDPOINT=$endpoint OTEL_SERVICE_NAME=by-variable OTEL_EXPORTER_OTLP_HEADERS=x-v=1
w create sqlite:b.db
w enqueue sqlite:b.db '{}' --topic bad --id bad
w relay sqlite:b.db 'exec:exit 65' --until-empty --timeout 30s --set retry.base=10ms
out=$(spans)
json "a refused message has a span with its error" \
	"all(s['status']['code'] == 2 and s['at']['error.type'] == 'rejected' and s['service'] == 'by-variable'
	     for s in l) and l"
rm -f "$box/traces"
sampled() { # IDS SAMPLER [ARGUMENT]
	rm -f "$box/traces" s.db*
	w create sqlite:s.db
	traced s t yes "00-$trace-$parent-01"
	traced s t no "00-$trace-$parent-00"
	w enqueue sqlite:s.db '{}' --topic t --id root
	OTEL_TRACES_SAMPLER=$2 OTEL_TRACES_SAMPLER_ARG=${3-} "$wherry" relay sqlite:s.db null: \
		--until-empty 2>.err
	out=$(spans)
	json "$2 ${3-} samples $1" \
		"' '.join(sorted(s['at']['messaging.message.id'] for s in l)) == '$1'"
}
sampled "no root yes" always_on
sampled "" always_off
sampled "yes" parentbased_always_off
sampled "root yes" parentbased_traceidratio 1.0
sampled "" traceidratio 0
sampled "root yes" unknown
rm -f "$box/traces" "$box/metrics"
OTEL_SDK_DISABLED=true w relay sqlite:a.db null: --until-empty
check "OTEL_SDK_DISABLED turns it off" test ! -e "$box/metrics"

# ---- what is ignored is said, once ----

ignored() { # NAME=VALUE TEXT
	w_env "$1" relay sqlite:a.db null: --until-empty
	expect "$1 is ignored, which is said" 0 "err:event=setting-ignored" "err:$1: it is ignored" "err:$2"
}
w_env() {
	export "${1?}"
	w "${@:2}"
	unset "${1%%=*}"
}
ignored OTEL_EXPORTER_OTLP_PROTOCOL=grpc "set this variable to http/json"
ignored OTEL_TRACES_SAMPLER=jaeger_remote "known are always_on"
ignored OTEL_TRACES_SAMPLER_ARG=10% "a ratio from 0 to 1"
ignored OTEL_BSP_SCHEDULE_DELAY=5s "write milliseconds"
export OTEL_BSP_SCHEDULE_DELAY=100
w_env OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf relay sqlite:a.db null: --until-empty
expect "protobuf over HTTP is not, since collectors take JSON there" 0 "no:setting-ignored"
w_env OTEL_EXPORTER_OTLP_ENDPOINT="$endpoint/v1/traces" relay sqlite:a.db null: --until-empty
expect "an endpoint with the path of spans is refused, with the right one" 2 \
	"err:/v1/traces is added to it: write OTEL_EXPORTER_OTLP_ENDPOINT=$endpoint"
export OTEL_EXPORTER_OTLP_ENDPOINT=$endpoint
unset OTEL_EXPORTER_OTLP_ENDPOINT OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_HEADERS

# ---- a collector that is dead, hangs or refuses ----

# flow NAME: 3,000 messages pass while the collector does not work, and the program ends soon.
flow() {
	rm -f f.db*
	w create sqlite:f.db
	seq 3000 | sed 's/.*/{"n":&}/' >many
	w enqueue --lines sqlite:f.db --topic t --from many
	local begin=$SECONDS
	w relay sqlite:f.db null: --until-empty --timeout 60s --set "otel.endpoint=$endpoint"
	expect "$1: all is delivered" 0 "err:3000 delivered, 0 retried, 0 dead"
	check "$1: the program does not wait long for it" test $((SECONDS - begin)) -lt 15
}
echo hang >"$box/answer"
flow "a collector that hangs"
echo 503 >"$box/answer"
flow "one that is busy"
kill_collector
flow "one that is gone"

w create sqlite:c.db
"$wherry" relay sqlite:c.db null: --set "otel.endpoint=$endpoint" 2>relay.log &
relay_pid=$!
pids+=("$relay_pid")
sleep_until_said() { # TEXT: messages flow until the log has it
	"$wherry" enqueue --lines sqlite:c.db --topic t --from many 2>/dev/null
	grep -q "$1" relay.log
}
check "what is dropped is counted and said" until_true 40 sleep_until_said \
	'event=collector-down .*why="[^"]*Failed to connect.* dropped=[1-9]\|spans-dropped\|collector-down'
rm "$box/answer"
rm -f "$box/traces"
collect --port "${endpoint##*:}"
check "a collector that is back gets what waited" until_true 40 test -s "$box/traces"
kill "$relay_pid"
wait "$relay_pid"

kill_collector
w create sqlite:idle.db
"$wherry" relay sqlite:idle.db null: --set "otel.endpoint=$endpoint" --set relay.lease=1s 2>idle.log &
relay_pid=$!
pids+=("$relay_pid")
said() { [ "$(grep -c "event=$1" idle.log)" = "$2" ]; }
check "an idle relay says that the collector is down" until_true 20 said collector-down 1
collect --port "${endpoint##*:}"
check "and that it is back" until_true 40 said collector-up 1
check "each once" said collector-down 1
kill "$relay_pid"
wait "$relay_pid"

# ---- a daemon ----

rm -f "$box/traces" "$box/metrics"
cat >wherry.yaml <<END
defaults:
  otel: {endpoint: '$endpoint', service: daemon}
relays:
  - {name: one, from: sqlite:d.db, to: 'file:$tmp/one'}
  - {name: two, from: 'sqlite:e.db', to: 'file:$tmp/two'}
END
for db in d e; do
	w create "sqlite:$db.db"
	w enqueue "sqlite:$db.db" '{}' --topic "of-$db"
done
OTEL_TRACES_SAMPLER=odd "$wherry" run wherry.yaml 2>run.log &
run_pid=$!
said_of_two() { [ "$(grep -c event=setting-ignored run.log)" = "$1" ]; }
pids+=("$run_pid")
both() {
	grep -q of-d "$box/traces" && grep -q of-e "$box/traces"
}
check "wherry run sends the spans of its relays" until_true 20 both
one_request() {
	tail -n 1 "$box/metrics" | grep -q 'of-d.*of-e\|of-e.*of-d'
}
check "and their metrics together, since they share an exporter" until_true 20 one_request
check "what is ignored in the environment is said once" said_of_two 1
kill "$run_pid"
wait "$run_pid"

w relay sqlite:a.db null: --set "otel.endpoint=$endpoint/v1/metrics/"
expect "an endpoint with the path of metrics is refused, with the right one" 2 \
	"err:otel.endpoint: /v1/metrics is added to it: write otel.endpoint=$endpoint"
w relay sqlite:a.db null: --until-empty --set otel.service=shop
expect "a service without an endpoint is said" 0 "err:otel.service has no effect: nothing is sent without otel.endpoint"
w relay sqlite:a.db null: --set otel.endpoint=http://
expect "an endpoint without a host is refused" 2 "err:otel.endpoint: write http://HOST:4318"
w relay sqlite:a.db null: --set otel.endpoint=localhost:4318
expect "an endpoint without a scheme is refused" 2 "err:otel.endpoint: write http://HOST:4318"
w relay sqlite:a.db null: --set "otel.endpoint=$endpoint" --set otel.headers=nothing
expect "and headers that are none" 2 "err:otel.headers: write NAME=VALUE"
check "the collector found no fault in any request" test ! -e "$box/faults"

kill_collector
finish
