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
several='linger.ms=0&batch.num.messages=1&retry.backoff.ms=10' # requests in flight at once

# enqueue DATABASE N KEYS
enqueue() {
	w init "$1"
	python3 -c '
import json, sys
for n in range(int(sys.argv[1])):
    print(json.dumps({"id": "m%d" % n, "key": "k%d" % (n % int(sys.argv[2])), "n": n}))' "$2" "$3" >many.ndjson
	w enqueue "$1" --topic orders --key /key --id /id --from many.ndjson
}

# What arrived, each where it was first; sets out.
read_firsts() {
	out=$(read_topic uncommitted orders | python3 -c '
import sys
print("".join(dict.fromkeys(sys.stdin)), end="")')
}

# complete N KEYS, of what read_firsts read.
complete() {
	json "nothing is lost" "len(l) == $1"
	json "each key is in order" "all([m['body']['n'] for m in l if m['key'] == 'k%d' % k] ==
		list(range(k, $1, $2)) for k in range($2))"
}

received() { # N requests, or more
	[ "$(broker_says received "$produce")" -ge "$1" ]
}

# ---- the first of a producer ----

# refuse_first CODE PARAMETERS: the first request is answered so, when another is behind it.
refuse_first() {
	start_broker --topic orders 1
	rm -f shop.db*
	enqueue sqlite:shop.db 40 8
	broker hold "$produce"
	broker refuse "$produce" "$1" 1
	"$wherry" relay sqlite:shop.db "kafka://$broker?$several$2" --until-empty --timeout 30s 2>relay.err &
	local pid=$!
	pids+=("$pid")
	check "several requests of a partition are in flight" until_true 20 received 2
	broker go
	wait "$pid"
	status=$? err=$(cat relay.err)
	expect "the first is answered $1$2: all is delivered" 0 "err:40 delivered, 0 retried, 0 dead"
}

for code in $not_leader $not_enough $timed_out $not_enough_after; do
	refuse_first "$code" ""
	read_firsts
	complete 40 8
done

for code in $not_enough $timed_out; do
	refuse_first "$code" "&transactional.id=shop"
	out=$(read_topic committed orders)
	complete 40 8
done

# ---- any of them ----

start_broker --topic orders 4
enqueue sqlite:many.db 3000 20
codes=("$not_leader" "$not_enough" "$timed_out" "$not_enough_after")
"$wherry" relay sqlite:many.db "kafka://$broker?$several" --until-empty --timeout 100s 2>relay.err &
pid=$!
pids+=("$pid")
for ((i = 0; i < 200; i++)); do
	broker refuse "$produce" "${codes[i % 4]}" $((i % 3 + 1))
	until_true 20 received $((10 * i)) || break
	ended "$pid" && break
done
check "some hundred requests are refused meanwhile" [ "$i" -ge 100 ]
wait "$pid"
status=$? err=$(cat relay.err)
expect "all is delivered" 0 "err:3000 delivered, " "err: 0 dead"
read_firsts
complete 3000 20

# ---- and the broker goes away ----

start_broker --topic orders 4
enqueue sqlite:away.db 3000 20
"$wherry" relay sqlite:away.db "kafka://$broker?$several&reconnect.backoff.ms=10" --until-empty --timeout 100s 2>relay.err &
pid=$!
pids+=("$pid")
for ((i = 1; i <= 5; i++)); do
	check "requests arrive" until_true 20 received $((200 * i))
	broker down
	broker up
done
wait "$pid"
status=$? err=$(cat relay.err)
expect "all is delivered" 0 "err:3000 delivered, " "err: 0 dead"
read_firsts
complete 3000 20

finish
