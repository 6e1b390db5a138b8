#!/usr/bin/env bash
# `wherry reconcile` with Redis: entries that a failover lost, that a person deleted or that were trimmed.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

server=$(PATH=$PATH:/usr/sbin command -v redis-server)
if [ -z "$server" ] || ! command -v redis-cli >/dev/null; then
	printf '1..1\nok 1 - Redis # SKIP redis-server is not installed\n'
	exit 0
fi
w relay sqlite:none.db redis://h --until-empty
if [[ $err == *unknown\ destination* ]]; then
	printf '1..1\nok 1 - Redis # SKIP built without hiredis\n'
	exit 0
fi

# start NAME [OPTION...]: a server; sets port.
start() {
	# The bus of a cluster is 10000 above.
	until port=$(free_port) && [ "$port" -lt 55000 ]; do :; done
	mkdir -p "$tmp/$1"
	"$server" --port "$port" --bind 127.0.0.1 --dir "$tmp/$1" --save '' "${@:2}" >"$1.log" 2>&1 &
	pids+=("$!")
	disown $!
	until_true 20 answers "$port"
}

answers() { [ "$(redis-cli -p "$1" PING 2>/dev/null)" = PONG ]; }

start one
to="redis://127.0.0.1:$port/0?stream=shop.{topic}"

# fill TOPIC N: messages of three keys, made an hour ago.
fill() {
	python3 -c '
import json, sys
for i in range(int(sys.argv[1])):
    print(json.dumps({"n": i, "key": "abc"[i % 3]}))' "$2" >lines
	w enqueue --lines sqlite:shop.db --topic "$1" --key /key --from lines
	sql shop.db 'UPDATE outbox SET created_at = created_at - 3600000 WHERE created_at > 1000 * unixepoch() - 1800000'
}

deliver() {
	w relay sqlite:shop.db "$to" --until-empty --timeout 60s --set outbox.retention=30d
}

compare() { # [OPTION...]
	w reconcile sqlite:shop.db "$to" --since 1d --json "$@"
}

# entries STREAM ID...: the entries of the messages with these numbers.
entries() {
	local stream=$1
	shift
	redis-cli -p "$port" --json XRANGE "$stream" - + | python3 -c '
import json, sys
wanted = sys.argv[1:]
for entry in json.load(sys.stdin):
    fields = dict(zip(entry[1][::2], entry[1][1::2]))
    if str(json.loads(fields["body"])["n"] + 1) in wanted:
        print(entry[0])' "$@"
}

w create sqlite:shop.db
fill orders 500
deliver
compare
json "what is there is not missing" "d['compared'] == 500 and d['there'] == 500 and d['missing'] == 0 and
	d['expired'] == 0 and d['unknown'] == 0 and d['notes'] == []"
# shellcheck disable=SC2046
redis-cli -p "$port" XDEL shop.orders $(entries shop.orders 100 200 201 500) >/dev/null
compare
json "what the stream lost is named" "[m['id'] for m in d['messages']] == [100, 200, 201, 500]"
compare --yes
deliver
expect "the relay delivers it" 0 "err:4 delivered"
compare
json "then nothing is missing" "d['missing'] == 0 and d['there'] == 500"
redis-cli -p "$port" XTRIM shop.orders MAXLEN = 450 >/dev/null
compare
json "what was trimmed has expired" "d['missing'] == 0 and d['expired'] == 50 and d['there'] == 450"
redis-cli -p "$port" XADD shop.orders '*' message_id stranger >/dev/null
compare --until 5s
json "messages of others are counted if they are of that time" "d['missing'] == 0 and d['unknown'] == 0"
redis-cli -p "$port" DEL shop.orders >/dev/null
w reconcile sqlite:shop.db "$to" --since 1d
expect "a stream that is gone has lost all" 6 "out:missing    500" "err:stream 'shop.orders' does not exist"

# ---- a stream for each key ----

to="redis://127.0.0.1:$port/3?stream={topic}.[{key}]"
compare --yes
deliver
redis-cli -p "$port" -n 3 XADD 'orders.x' '*' a b >/dev/null
compare
json "streams of all keys are found" "d['missing'] == 0 and d['there'] == 500"
redis-cli -p "$port" -n 3 DEL 'orders.[b]' >/dev/null
compare
json "and one that is gone is missed" "d['missing'] == 167 and {m['key'] for m in d['messages']} == {'b'}"

# ---- rights, replicas and clusters ----

redis-cli -p "$port" ACL SETUSER shop on '>sesame' '~*' +xadd +multi +exec +select >/dev/null
compare --set redis.user=shop --set redis.password=env:PASSWORD
PASSWORD=sesame compare --set redis.user=shop --set redis.password=env:PASSWORD
expect "the rights that it needs are named" 1 "err:no right to read the streams back" "err:+xrange +xinfo|stream"
master=$port
start replica --replicaof "127.0.0.1 $master"
is_replica() { redis-cli -p "$port" INFO replication | grep -q '^role:slave'; }
until_true 20 is_replica
to="redis://127.0.0.1:$port/3?stream={topic}.[{key}]"
compare
expect "a replica is not asked" 1 "err:it is a replica, and the master counts"
to="redis://127.0.0.1:$port,127.0.0.1:$master/3?stream={topic}.[{key}]"
compare
json "but the master beside it" "d['missing'] == 167"

# Two nodes, each with one of the topics: their slots are 105 and 13262.
start node --cluster-enabled yes
first=$port
start other --cluster-enabled yes
redis-cli -p "$first" CLUSTER ADDSLOTSRANGE 0 8191 >/dev/null
redis-cli -p "$port" CLUSTER ADDSLOTSRANGE 8192 16383 >/dev/null
redis-cli -p "$first" CLUSTER MEET 127.0.0.1 "$port" >/dev/null
has_slots() { redis-cli -p "$1" CLUSTER INFO | grep -q cluster_state:ok; }
until_true 30 has_slots "$first"
until_true 30 has_slots "$port"
to="redis://127.0.0.1:$port?stream={topic}"
sql shop.db "UPDATE outbox_progress SET high = 0; UPDATE outbox SET topic = 'invoices' WHERE id > 400"
deliver
is "$(redis-cli -p "$first" XLEN orders 2>&1; redis-cli -p "$port" XLEN invoices 2>&1)" $'400\n100'
result $? "each topic is on one node" "$(redis-cli -p "$first" KEYS '*')"
redis-cli -c -p "$port" XTRIM orders MAXLEN = 399 >/dev/null
compare
json "a cluster can be read back" "d['there'] == 499 and d['expired'] == 1"
to="redis://127.0.0.1:$port?stream={topic}.{key}"
compare
expect "but not with a stream for each key" 1 "err:a cluster with a stream for each key cannot be read back"

finish
