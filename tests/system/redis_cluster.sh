#!/usr/bin/env bash
# Relays to a cluster of three masters with three replicas.  Masters are killed with kill -9, their
# replicas take over, and relays are killed.  Slots move while a relay works.
#
# Writes TAP.

# shellcheck source=tests/system/redis.bash
. "$(dirname "$0")/redis.bash"

find_redis
declare -a ports server_pids
start_member() { # NUMBER
	serve_redis "${ports[$1]}" 'cluster-enabled yes' 'cluster-node-timeout 1000' \
		'cluster-config-file nodes.conf' 'cluster-allow-replica-migration no' \
		'cluster-replica-validity-factor 0'
	server_pids[$1]=$redis_pid
}

for i in 0 1 2 3 4 5; do
	# The bus of a cluster is 10000 above.
	until ports[i]=$(free_port) && [ "${ports[i]}" -lt 55000 ]; do :; done
	start_member "$i"
done
redis_port=${ports[0]}
# shellcheck disable=SC2046
check "the cluster is made" redis-cli --cluster create $(printf '127.0.0.1:%s ' "${ports[@]}") \
	--cluster-replicas 1 --cluster-yes
all_are_ok() {
	local port
	for port in "${ports[@]}"; do
		redis-cli -p "$port" CLUSTER INFO | grep -q 'cluster_state:ok' || return
	done
}
has_replica() {
	ask INFO replication | grep -q state=online
}
check "each node knows it" until_true 30 all_are_ok
check "a replica follows" until_true 30 has_replica
redis=redis://127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}

# ---- one stream for each of 100 keys, on all nodes ----

streams=$(printf 'orders.k%s ' {0..99})
python3 -c '
import json
for n in range(12000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 100), "n": n}))' >many.ndjson
w create sqlite:many.db
w enqueue --lines sqlite:many.db --topic orders --key /key --from many.ndjson
relay=("$wherry" relay sqlite:many.db "$redis/?stream=orders.{key}" --until-empty --timeout 200s
	--set relay.lease=1s --set relay.window=200 --set retry.base=100ms --set redis.replicas=1)

role() { # NUMBER
	redis-cli -p "${ports[$1]}" ROLE 2>/dev/null | head -n 1
}
is_master() {
	[ "$(role "$1")" = master ]
}
# The replica of a master: the one whose ROLE names its port.
replica_of() { # NUMBER
	local i
	for i in 0 1 2 3 4 5; do
		[ "$(redis-cli -p "${ports[$i]}" ROLE 2>/dev/null | sed -n '1p;3p' | paste -sd' ')" = \
			"slave ${ports[$1]}" ] && echo "$i" && return
	done
}

for i in 0 1; do
	"${relay[@]}" 2>>relay.err &
	relay_pid=$!
	pids+=("$relay_pid")
	check "a relay has delivered $((i * 4000 + 1500))" \
		until_true 60 done_at_least sqlite:many.db $((i * 4000 + 1500))
	replica=$(replica_of "$i")
	kill_redis "${server_pids[$i]}"
	check "the replica of node $i takes over" until_true 60 is_master "$replica"
	check "after a master was killed it goes on" \
		until_true 60 done_at_least sqlite:many.db $((i * 4000 + 3500))
	start_member "$i"
	kill -KILL "$relay_pid" 2>/dev/null # It may have delivered all.
	wait "$relay_pid" 2>/dev/null
done

# ---- slots move: MOVED and ASK ----

"${relay[@]}" --set redis.replicas=0 2>>relay.err &
relay_pid=$!
pids+=("$relay_pid")
check "the last relay has delivered 8500" until_true 60 done_at_least sqlite:many.db 8500
check "the cluster is whole" until_true 30 all_are_ok
check "1000 slots move while it works" redis-cli --cluster rebalance "127.0.0.1:${ports[2]}" \
	--cluster-weight "$(redis-cli -p "${ports[2]}" CLUSTER MYID)=3" --cluster-pipeline 100
wait "$relay_pid"
status=$? out='' err=$(tail -n 1 relay.err)
expect "the last relay delivers the rest" 0 "err: 0 dead in "

# shellcheck disable=SC2086
all_in_order "nothing is lost" "cluster:127.0.0.1:${ports[2]}" $streams

# ---- one slot moves: ASK while it does, MOVED when it has ----

check "each node has its slots" until_true 30 all_are_ok
slot=$(ask CLUSTER KEYSLOT moved.a)
owner=$(redis-cli -p "${ports[2]}" CLUSTER NODES | awk -v slot="$slot" '
	/master/ { for (i = 9; i <= NF; i++) { n = split($i, range, "-")
		if (range[1] <= slot && slot <= range[n]) { split($2, at, /[:@]/); print at[2], $1 } } }')
other=$(redis-cli -p "${ports[2]}" CLUSTER NODES | awk -v id="${owner#* }" '
	/master/ && !/fail/ && $1 != id && NF > 8 { split($2, at, /[:@]/); print at[2], $1; exit }')
on_owner() {
	redis-cli -p "${owner% *}" "$@" >/dev/null
}
on_other() {
	redis-cli -p "${other% *}" "$@" >/dev/null
}
w create sqlite:moved.db
"$wherry" relay sqlite:moved.db "$redis/?stream=moved.{key}" 2>moved.err &
relay_pid=$!
pids+=("$relay_pid")
w enqueue sqlite:moved.db '{"n":0}' --topic moved --key other
check "a relay works" until_true 20 done_at_least sqlite:moved.db 1
on_other CLUSTER SETSLOT "$slot" IMPORTING "${owner#* }"
on_owner CLUSTER SETSLOT "$slot" MIGRATING "${other#* }"
seq 1 9 | sed 's/.*/{"key":"a","n":&}/' >moved.ndjson
w enqueue --lines sqlite:moved.db --topic moved --key /key --from moved.ndjson
check "it follows ASK" until_true 20 done_at_least sqlite:moved.db 10
on_other CLUSTER SETSLOT "$slot" NODE "${other#* }"
on_owner CLUSTER SETSLOT "$slot" NODE "${other#* }"
seq 10 19 | sed 's/.*/{"key":"a","n":&}/' >moved.ndjson
w enqueue --lines sqlite:moved.db --topic moved --key /key --from moved.ndjson
check "it follows MOVED" until_true 20 done_at_least sqlite:moved.db 20
kill "$relay_pid"
wait "$relay_pid"
out=$(redis-cli -p "${other% *}" --json XRANGE moved.a - + | /usr/bin/python3 -c '
import json, sys
for _, fields in json.load(sys.stdin):
    print(json.loads(fields[fields.index("body") + 1])["n"])' | paste -sd' ')
check "each is there once, and in order" [ "$out" = "$(seq 1 19 | paste -sd' ')" ]

# ---- a node without a successor ----

w create sqlite:few.db
seq 0 99 | sed 's/.*/{"key":"k&"}/' >few.ndjson
w enqueue --lines sqlite:few.db --topic orders --key /key --from few.ndjson
for i in 0 1 2 3 4 5; do
	redis-cli -p "${ports[$i]}" CONFIG SET cluster-require-full-coverage no >/dev/null
	redis-cli -p "${ports[$i]}" CONFIG SET cluster-replica-no-failover yes >/dev/null
done
kill_redis "${server_pids[2]}"
w relay sqlite:few.db "redis://127.0.0.1:${ports[0]},127.0.0.1:${ports[3]},127.0.0.1:${ports[1]}/?stream=orders.{key}" \
	--until-empty --timeout 4s
expect "while a node is down, its messages wait" 5 "err: 0 dead in "
w status sqlite:few.db --json
json "and others are delivered" '0 < d["done"] < 100 and d["done"] + d["pending"] + d["failed"] == 100'
start_member 2
w relay sqlite:few.db "$redis/?stream=orders.{key}" --until-empty --timeout 30s
expect "when it is back, they are delivered" 0 "err: 0 dead in "
w enqueue sqlite:few.db '{}' --topic orders
w relay sqlite:few.db "$redis/3" --until-empty --timeout 2s
expect "a cluster has no other database" 5 "err:only the database 0"

finish
