#!/usr/bin/env bash
# Relays to a stream that three servers keep, of which one at a time is killed with kill -9, and so
# are relays.  A consumer in Python reads it, if pip can install nats-py.
#
# Writes TAP.

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"

find_nats
declare -a ports routes server_pids
for i in 0 1 2; do
	ports[i]=$(free_port)
	routes[i]=$(free_port)
done
members=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}
nats=nats://$members

start_member() { # NUMBER
	cat >"member$1.conf" <<-END
		server_name: m$1
		listen: "127.0.0.1:${ports[$1]}"
		jetstream { store_dir: "$tmp/js$1" }
		cluster {
			name: wherry
			listen: "127.0.0.1:${routes[$1]}"
			routes: ["nats://127.0.0.1:${routes[0]}", "nats://127.0.0.1:${routes[1]}",
				"nats://127.0.0.1:${routes[2]}"]
		}
	END
	"$nats_server" -c "member$1.conf" >>"member$1.log" 2>&1 &
	server_pids[$1]=$!
	pids+=($!)
	until_true 20 nats_answers "${ports[$1]}"
}

kill_member() { # NUMBER
	kill -KILL "${server_pids[$1]}"
	wait "${server_pids[$1]}" 2>/dev/null
}

for i in 0 1 2; do
	start_member "$i"
done

python3 -c '
import json
for n in range(30000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 100), "n": n}))' >many.ndjson
w create sqlite:many.db
w enqueue --lines sqlite:many.db --topic orders --key /key --from many.ndjson
relay=("$wherry" relay sqlite:many.db "$nats" --until-empty --timeout 200s --set relay.lease=1s
	--set nats.stream=ORDERS --set nats.create_stream=orders --set nats.replicas=3
	--set relay.window=200 --set retry.base=100ms)

# Kill each member once while a relay works, and the relay twice.
for i in 0 1 2; do
	"${relay[@]}" 2>>relay.err &
	relay_pid=$!
	pids+=("$relay_pid")
	check "a relay has delivered $((i * 7000 + 3000))" \
		until_true 60 done_at_least sqlite:many.db $((i * 7000 + 3000))
	kill_member "$i"
	check "after a member was killed it goes on" \
		until_true 60 done_at_least sqlite:many.db $((i * 7000 + 5000))
	start_member "$i"
	[ "$i" = 2 ] || {
		kill -KILL "$relay_pid"
		wait "$relay_pid" 2>/dev/null
	}
done
wait "$relay_pid"
status=$? out='' err=$(tail -n 1 relay.err)
expect "the last relay delivers the rest" 0 "err: 0 dead in "

if python3 -m venv python >/dev/null 2>&1 && python/bin/pip install -q nats-py 2>pip.err; then
	out=$(timeout 120 python/bin/python "$source_dir/tests/system/nats_consumer.py" \
		"nats://127.0.0.1:${ports[0]}" ORDERS)
	result 0 "a consumer in Python reads the stream"
else
	out=$(read_back ORDERS | python3 -c '
import json, sys
for m in map(json.loads, sys.stdin):
    print(json.dumps({"id": m["headers"]["Nats-Msg-Id"], "key": m["headers"]["key"],
                      "n": m["body"]["n"]}))')
	result 0 "a consumer in Python reads the stream # SKIP pip does not install nats-py"
fi
json "nothing is lost" 'len({m["id"] for m in l}) == 30000'
json "nothing is there twice" 'len(l) == 30000'
json "each key is in order, taking the first of each" '[
	all(a < b for a, b in zip(ns, ns[1:])) for ns in [
		list(dict.fromkeys(m["n"] for m in l if m["key"] == "k%d" % k))
		for k in range(100)]] == [True] * 100'

finish
