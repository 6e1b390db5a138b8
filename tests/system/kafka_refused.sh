#!/usr/bin/env bash
# Kafka refuses requests while others of the same partition are in flight behind them, on a
# broker that checks their sequence as Kafka does: of a producer that it does not know yet it
# takes anything.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"

produce=0
# Answers to what was not written, and to what was, but not by enough.
not_leader=6 not_enough=19 timed_out=7 not_enough_after=20
several='linger.ms=0&batch.num.messages=1&retry.backoff.ms=10&max.in.flight.requests.per.connection=5' # requests in flight at once

# enqueue DATABASE N KEYS
enqueue() {
	w create "$1"
	python3 -c '
import json, sys
for n in range(int(sys.argv[1])):
    print(json.dumps({"id": "m%d" % n, "key": "k%d" % (n % int(sys.argv[2])), "n": n}))' "$2" "$3" >many.ndjson
	w enqueue --lines "$1" --topic orders --key /key --id /id --from many.ndjson
}

# complete N KEYS COPIES, of what arrived: so many may be there more than once.
complete() {
	json "nothing is lost, and at most $3 are there twice" \
		"len({m['id'] for m in l}) == $1 and len(l) <= $1 + $3"
	json "each key is in order, by first and by last occurrences" "all(
		[n for n in dict.fromkeys(m['body']['n'] for m in way if m['key'] == 'k%d' % k)] ==
		list(range(k, $1, $2))[::step] for k in range($2) for way, step in ((l, 1), (l[::-1], -1)))"
}

received() { # N requests, or more
	[ "$(broker_says received "$produce")" -ge "$1" ]
}

refused() { # N requests, or more
	[ "$(broker_says refused "$produce")" -ge "$1" ]
}

# start_relay DATABASE PARAMETERS: sets pid.
start_relay() {
	"$wherry" relay "$1" "kafka://$broker?$several$2" --until-empty --timeout 100s 2>relay.err &
	pid=$!
	pids+=("$pid")
}

# delivered N: the relay ends, and has.
delivered() {
	wait "$pid"
	status=$? err=$(cat relay.err)
	expect "all is delivered" 0 "err:$1 delivered, " "err: 0 dead"
}

# ---- the first of a producer ----

# refuse_first CODE PARAMETERS: the first request is answered so, when another is behind it.
refuse_first() {
	start_broker --topic orders 1
	rm -f shop.db*
	enqueue sqlite:shop.db 40 8
	broker hold "$produce"
	broker refuse "$produce" "$1" 1
	start_relay sqlite:shop.db "$2"
	check "several requests of a partition are in flight" until_true 20 received 2
	broker go
	delivered 40
	check "the first one was answered $1$2" refused 1
}

for code in $not_leader $not_enough; do
	refuse_first "$code" ""
	check "that it is sent again is logged" grep -q event=sent-again relay.err
	out=$(read_topic orders)
	complete 40 8 0
done

for code in $timed_out $not_enough_after; do
	refuse_first "$code" ""
	out=$(read_topic orders)
	complete 40 8 1
done

# ---- when it is known ----

start_broker --topic orders 1
enqueue sqlite:known.db 40 1
broker hold "$produce"
start_relay sqlite:known.db ""
check "the first of a key is in flight alone" until_true 20 received 1
broker go 1
check "then several do" until_true 20 received 3
broker refuse "$produce" "$timed_out" 1
broker go
delivered 40
check "one was answered $timed_out" refused 1
out=$(read_topic orders)
complete 40 1 0

# ---- in silence ----

start_broker --topic orders 1
enqueue sqlite:silent.db 40 1
broker hold "$produce"
start_relay sqlite:silent.db ""
check "that nothing is acknowledged is logged in seconds" until_true 20 grep -q event=unacknowledged relay.err
w status sqlite:silent.db
expect "and status does not say that all is well" 0 "out:acknowledge nothing" "no:all is well"
broker go
delivered 40

# ---- a quota ----

start_broker --topic orders 1
enqueue sqlite:quota.db 8 8
broker throttle 400
w relay sqlite:quota.db "kafka://$broker?delivery.timeout.ms=1200&batch.num.messages=1" --until-empty --timeout 30s
expect "messages wait under a quota, and none is sent again" 0 "err:event=throttled" \
	"err:8 delivered, 0 retried, 0 dead" "no:destination-down"
check "each was sent once" is "$(broker_says received "$produce")" 8
out=$(read_topic orders)
complete 8 8 0

# ---- any of them ----

codes=("$not_leader" "$not_enough" "$timed_out" "$not_enough_after")

# refuse_any N TIMES PARAMETERS: of the requests for so many messages, in as many bouts.
refuse_any() {
	start_broker --topic orders 4
	rm -f many.db*
	enqueue sqlite:many.db "$1" 20
	several=$3 start_relay sqlite:many.db ""
	for ((i = 1; i <= $2; i++)); do
		broker refuse "$produce" "${codes[i % 4]}" $((i % 3 + 1))
		until_true 20 received $((10 * i)) || break
		ended "$pid" && break
	done
	delivered "$1"
	check "a request or more was refused in each bout" refused "$2"
	out=$(read_topic orders)
	complete "$1" 20 "$(broker_says refused "$produce")"
}

refuse_any 3000 200 "$several"
refuse_any 3000 20 "${several%&*}" # with the default of requests in flight

# ---- and the broker goes away ----

start_broker --topic orders 4
enqueue sqlite:away.db 3000 20
start_relay sqlite:away.db "&reconnect.backoff.ms=10"
for ((i = 1; i <= 5; i++)); do
	check "requests arrive" until_true 20 received $((200 * i))
	check "the broker goes" broker down
	check "and comes back" broker up
done
delivered 3000
out=$(read_topic orders)
complete 3000 20 20

finish
