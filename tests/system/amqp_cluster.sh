#!/usr/bin/env bash
# Relays to a quorum queue of three members of a cluster of RabbitMQ, of which one at a time is killed
# with kill -9, and so are relays; and one stands still, so that no heartbeat comes.  pika reads
# what arrived.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/kills.bash
. "$(dirname "$0")/kills.bash"
# shellcheck source=tests/amqp/amqp.bash
. "$source_dir/tests/amqp/amqp.bash"

if ! has_rabbit || ! command -v epmd >/dev/null; then
	printf '1..1\nok 1 - RabbitMQ # SKIP %s\n' "${amqp_lacks:-epmd is not installed}"
	exit 0
fi

# ---- the cluster ----

bin=/usr/lib/rabbitmq/bin
declare -a ports dist_ports member_pids
epmd_port=$(free_port)
for i in 0 1 2; do
	ports[i]=$(free_port)
	dist_ports[i]=$(free_port)
done
export HOME=$tmp ERL_EPMD_PORT=$epmd_port ERL_EPMD_ADDRESS=127.0.0.1
epmd -port "$epmd_port" -address 127.0.0.1 >/dev/null 2>&1 </dev/null &
pids+=($!)
echo wherry-cluster-of-a-test >.erlang.cookie
chmod 400 .erlang.cookie
echo '[].' >enabled_plugins

start_member() { # NUMBER
	cat >"member$1.conf" <<-END
		listeners.tcp.1 = 127.0.0.1:${ports[$1]}
		disk_free_limit.absolute = 1MB
		log.console = false
		log.file.level = error
		cluster_formation.peer_discovery_backend = classic_config
		cluster_formation.classic_config.nodes.1 = m0@localhost
		cluster_formation.classic_config.nodes.2 = m1@localhost
		cluster_formation.classic_config.nodes.3 = m2@localhost
		net_ticktime = 5
	END
	RABBITMQ_NODENAME=m$1@localhost RABBITMQ_DIST_PORT=${dist_ports[$1]} RABBITMQ_MNESIA_BASE=$tmp/data$1 \
	RABBITMQ_LOG_BASE=$tmp/log$1 RABBITMQ_PID_FILE=$tmp/pid$1 RABBITMQ_CONFIG_FILE=$tmp/member$1.conf \
	RABBITMQ_ENABLED_PLUGINS_FILE=$tmp/enabled_plugins RABBITMQ_CONF_ENV_FILE=$tmp/none \
	RABBITMQ_GENERATED_CONFIG_DIR=$tmp/config$1 \
	RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}' \
		"$bin/rabbitmq-server" >"start$1" 2>&1 </dev/null &
	disown $!
	until_true 60 grep -q 'broker.*completed with' "start$1" || return
	member_pids[$1]=$(cat "pid$1")
	pids+=("${member_pids[$1]}")
}

kill_member() { # NUMBER
	kill -KILL "${member_pids[$1]}"
	rm -f "pid$1"
}

for i in 0 1 2; do
	check "member $i starts" start_member "$i"
done
three() {
	[ "$("$bin/rabbitmqctl" -q -n m0@localhost cluster_status --formatter json |
		python3 -c 'import json, sys; print(len(json.load(sys.stdin)["running_nodes"]))')" = 3 ]
}
check "they are a cluster" until_true 60 three
amqp=amqp://127.0.0.1:${ports[0]}
amqp_do 'c.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum",
	"x-quorum-initial-group-size": 3})'

# ---- the run ----

python3 -c '
import json
for n in range(12000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 100), "n": n}))' >many.ndjson
w create sqlite:many.db
w enqueue --lines sqlite:many.db --topic orders --key /key --from many.ndjson
hosts=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}
relay=("$wherry" relay sqlite:many.db "amqp://$hosts?heartbeat=2" --set relay.lease=1s
	--set "relay.window=$window" --set retry.base=100ms)
start_relay() {
	"${relay[@]}" "$@" 2>>relay.err &
	relay_pid=$!
	pids+=("$relay_pid")
}
stop_relay() {
	kill -KILL "$relay_pid"
	wait "$relay_pid" 2>/dev/null
}

for i in 0 1 2; do
	start_relay
	check "a relay has delivered $((i * 2000 + 500))" \
		until_true 60 done_at_least sqlite:many.db $((i * 2000 + 500))
	kill_member "$i"
	check "after member $i was killed it goes on with the next host" \
		until_true 60 done_at_least sqlite:many.db $((i * 2000 + 1500))
	check "member $i comes back" start_member "$i"
	[ "$i" = 2 ] || stop_relay
done

# The relay is at a member that the kill of the last one did not touch, or at one of its next.
for i in 0 1 2; do
	at=$(ss -Htn state established "dport = :${ports[$i]}" | wc -l)
	[ "$at" = 0 ] || connected=$i
done
kill -STOP "${member_pids[${connected:-0}]}"
check "a member that stands still is left when its heartbeats are missing" \
	until_true 60 done_at_least sqlite:many.db 7500
kill -CONT "${member_pids[${connected:-0}]}"
check "they are a cluster again" until_true 60 three

stop_relay
start_relay --until-empty --timeout 200s
wait "$relay_pid"
status=$? out='' err=$(tail -n 1 relay.err)
expect "the last relay delivers the rest" 0 "err: 0 dead in "

# ---- what arrived ----

out=$(read_queue orders)
json "nothing is lost" 'len({m["message_id"] for m in l}) == 12000'
json "each key is in order, taking the first of each" '[
	all(a < b for a, b in zip(ns, ns[1:])) for ns in [
		list(dict.fromkeys(m["body"]["n"] for m in l if m["body"]["key"] == "k%d" % k))
		for k in range(100)]] == [True] * 100'
json "what is there twice was in flight when somebody was killed or stood still" \
	"len(l) - 12000 <= 8 * $window"
echo "# $(printf '%s\n' "$out" | wc -l) arrived of 12000 messages"
w status sqlite:many.db --json
json "no attempt made a message dead, and nothing is open" \
	'd["done"] == 12000 and d["ready"] == d["failed"] == d["dead"] == 0'

finish
