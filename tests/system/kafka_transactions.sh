#!/usr/bin/env bash
# Kafka's transactions, on a broker that hides what is not committed and fences producers.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"

start_broker --topic orders 4 --topic secret 1 --deny secret
to="kafka://$broker?transactional.id=shop"

python3 -c '
import json
for n in range(200):
    print(json.dumps({"id": "m%d" % n, "key": "k%d" % (n % 7), "n": n}))' >many.ndjson

# enqueue DATABASE: 200 messages of 7 keys.
enqueue() {
	w init "$1"
	w enqueue "$1" --topic orders --key /key --id /id --from many.ndjson
}

# stand_still PID DATABASE: stop it where it does not have the database's lock.
stand_still() {
	until kill -STOP "$1" && sql "$2" 'BEGIN IMMEDIATE; ROLLBACK' 2>/dev/null; do
		kill -CONT "$1"
	done
}

sees() { # LEVEL TOPIC N
	[ "$(read_topic "$1" "$2" | wc -l)" -ge "$3" ]
}

all_once='len(l) == 200 and len({m["id"] for m in l}) == 200'
in_order='[all(a < b for a, b in zip(ns, ns[1:])) for ns in [
	[m["body"]["n"] for m in l if m["key"] == "k%d" % k] for k in range(7)]] == [True] * 7'

# ---- as it should be ----

enqueue sqlite:shop.db
w relay sqlite:shop.db "$to" --until-empty --timeout 60s
expect "a relay in transactions delivers all" 0 "err:200 delivered, 0 retried, 0 dead"
out=$(read_topic committed orders)
json "readers of what is committed see each once" "$all_once"
json "in order per key" "$in_order"

# ---- killed before a commit ----

start_broker --topic orders 4
to="kafka://$broker?transactional.id=shop"
enqueue sqlite:killed.db
broker hold 26
"$wherry" relay sqlite:killed.db "$to" --set relay.lease=1s 2>killed.err &
pid=$!
pids+=("$pid")
check "a relay has written all, and waits for its commit" until_true 20 sees uncommitted orders 200
kill -KILL "$pid"
wait "$pid" 2>/dev/null
out=$(read_topic committed orders)
json "it is killed: readers of what is committed see nothing" 'not l'
"$wherry" relay sqlite:killed.db "$to" --set relay.lease=1s 2>second.err &
pid=$!
pids+=("$pid")
check "the next one writes it again" until_true 30 sees uncommitted orders 201
broker go
check "and delivers it" until_true 30 sees committed orders 200
kill -TERM "$pid"
wait "$pid"
out=$(read_topic committed orders)
json "readers of what is committed see each once, nothing of what was aborted" "$all_once"
json "in order per key" "$in_order"

# ---- taken over ----

start_broker --topic orders 4
to="kafka://$broker?transactional.id=shop"
enqueue sqlite:fenced.db
broker hold 26
"$wherry" relay sqlite:fenced.db "$to" --set relay.lease=1s --set relay.claim_timeout=1s 2>first.err &
first=$!
pids+=("$first")
check "a relay has written all, and waits for its commit" until_true 20 sees uncommitted orders 200
stand_still "$first" fenced.db
"$wherry" relay sqlite:fenced.db "$to" --set relay.lease=1s 2>second.err &
second=$!
pids+=("$second")
check "it stands still, and the next one takes over" until_true 30 sees uncommitted orders 201
kill -CONT "$first"
broker go
check "which delivers all" until_true 30 sees committed orders 200
has_lost() {
	err=$(cat first.err)
	[[ $err == *event=lease-lost* ]]
}
check "the first one finds that it has lost the lease" until_true 20 has_lost
kill -TERM "$second"
wait "$second"
kill -TERM "$first"
wait "$first"
out=$(read_topic committed orders)
json "what the first one had written is not seen: each is there once" "$all_once"
json "in order per key" "$in_order"

# ---- the producer is fenced, the lease is not lost ----

start_broker --topic orders 4
to="kafka://$broker?transactional.id=shop"
enqueue sqlite:one.db
broker refuse 26 47 1
w relay sqlite:one.db "$to" --until-empty --timeout 60s
expect "a producer that is fenced says so, and delivers all the same" 0 \
	"err:event=destination-down" "err:another relay has taken this transactional.id over" \
	"err:200 delivered, 0 retried, 0 dead"
out=$(read_topic committed orders)
json "each is there once" "$all_once"
answer=$(broker_says names)
check "the one opened anew has the number of the lease, too" is "$answer" "shop-0"

# ---- refused ----

w init sqlite:refused.db
w_in '{"id":"late","n":1}' enqueue sqlite:refused.db --topic orders --id /id
broker refuse 26 53 1
w relay sqlite:refused.db "$to" --until-empty --timeout 60s
expect "a commit that is refused is nobody's fault" 0 \
	"err:event=destination-down" "err:give this user the rights" "err:1 delivered, 0 retried"
broker refuse 22 53 1
w_in '{"id":"later","n":1}' enqueue sqlite:refused.db --topic orders --id /id
w relay sqlite:refused.db "$to" --until-empty --timeout 60s
expect "nor is an id that this user has no right to" 0 \
	"err:event=destination-down" "err:give this user the rights" "err:1 delivered, 0 retried"

# ---- one among others ----

start_broker --topic orders 4 --topic secret 1 --deny secret
to="kafka://$broker?transactional.id=shop"
enqueue sqlite:mixed.db
w_in '{"id":"hidden","n":1}' enqueue sqlite:mixed.db --topic secret --id /id
w relay sqlite:mixed.db "$to" --until-empty --timeout 20s --set retry.attempts=2 --set retry.base=10ms
expect "a topic without rights takes no others along, and its message waits" 5 \
	"err:event=topic-held topic=secret" "err:200 delivered, 0 retried" "err:, 0 dead in"
out=$(read_topic committed orders)
json "readers of what is committed see each of them once" "$all_once"
w list sqlite:mixed.db --state failed --json
json "the message says why it waits" '"rights" in d["last_error"]'

# ---- what cannot be ----

w init sqlite:compete.db
w_in '{"n":1}' enqueue sqlite:compete.db --topic orders
w relay sqlite:compete.db "$to" --engine competing --until-empty --timeout 2s
expect "relays that compete cannot fence each other" 5 \
	"err:relays that compete have no lease" "err:--engine exclusive"

finish
