#!/usr/bin/env bash
# Relays to a master that three sentinels watch.  It is killed with kill -9 and frozen, a replica takes
# over, and relays are killed.
#
# Writes TAP.

# shellcheck source=tests/system/redis.bash
. "$(dirname "$0")/redis.bash"

find_redis
declare -a ports sentinels server_pids
start_member() { # NUMBER [LINE...]
	serve_redis "${ports[$1]}" 'repl-diskless-sync-delay 0' 'requirepass sesame' \
		'masterauth sesame' "${@:2}"
	server_pids[$1]=$redis_pid
}
of() { # NUMBER COMMAND...
	REDISCLI_AUTH=sesame redis-cli -p "${ports[$1]}" "${@:2}" 2>/dev/null
}

for i in 0 1 2; do
	ports[i]=$(free_port)
done
start_member 0
start_member 1 "replicaof 127.0.0.1 ${ports[0]}"
start_member 2 "replicaof 127.0.0.1 ${ports[0]}"
follow() { # NUMBER: it has two replicas
	[ "$(of "$1" INFO replication | grep -c state=online)" = 2 ]
}
check "two replicas follow the master" until_true 30 follow 0
for i in 0 1 2; do
	sentinels[i]=$(free_port)
	mkdir "sentinel$i"
	printf '%s\n' 'bind 127.0.0.1' "port ${sentinels[$i]}" "dir $tmp/sentinel$i" \
		'requirepass watch' 'sentinel sentinel-pass watch' \
		"sentinel monitor shop 127.0.0.1 ${ports[0]} 2" 'sentinel auth-pass shop sesame' \
		'sentinel down-after-milliseconds shop 1000' 'sentinel failover-timeout shop 3000' \
		>"sentinel$i.conf"
	redis-sentinel "sentinel$i.conf" >>"sentinel$i.log" 2>&1 &
	pids+=($!)
	disown $!
done
agree() {
	[ "$(REDISCLI_AUTH=watch redis-cli -p "${sentinels[0]}" SENTINEL ckquorum shop 2>/dev/null |
		grep -c 'OK 3 usable')" = 1 ]
}
check "the sentinels know each other" until_true 30 agree
master() { # prints the number of the master that sentinels name
	local port i
	port=$(REDISCLI_AUTH=watch redis-cli -p "${sentinels[0]}" SENTINEL get-master-addr-by-name shop |
		tail -n 1)
	for i in 0 1 2; do
		[ "${ports[$i]}" != "$port" ] || echo "$i"
	done
}

url=redis+sentinel://127.0.0.1:${sentinels[0]},127.0.0.1:${sentinels[1]},127.0.0.1:${sentinels[2]}
export REDIS_PASSWORD=sesame SENTINEL_PASSWORD=watch
users=(--set redis.password=env:REDIS_PASSWORD --set redis.sentinel_password=env:SENTINEL_PASSWORD)
python3 -c '
import json
for n in range(12000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 100), "n": n}))' >many.ndjson
w create sqlite:many.db
w enqueue --lines sqlite:many.db --topic orders --key /key --from many.ndjson
relay=("$wherry" relay sqlite:many.db "$url/shop" --until-empty --timeout 200s "${users[@]}"
	--set relay.lease=1s --set relay.window=200 --set retry.base=100ms --set redis.replicas=2)

another_leads() { # NUMBER: not this one
	local now
	now=$(master)
	[ -n "$now" ] && [ "$now" != "$1" ] && [ "$(of "$now" ROLE | head -n 1)" = master ]
}
for round in 0 1; do
	"${relay[@]}" 2>>relay.err &
	relay_pid=$!
	pids+=("$relay_pid")
	check "a relay has delivered $((round * 4000 + 1500))" \
		until_true 60 done_at_least sqlite:many.db $((round * 4000 + 1500))
	old=$(master)
	if [ "$round" = 0 ]; then
		kill_redis "${server_pids[$old]}"
	else
		kill -STOP "${server_pids[$old]}"
	fi
	check "another server becomes the master" until_true 60 another_leads "$old"
	new=$(master)
	if [ "$round" = 0 ]; then
		start_member "$old" "replicaof 127.0.0.1 ${ports[$new]}"
	else
		kill -CONT "${server_pids[$old]}"
	fi
	check "both others follow it" until_true 60 follow "$new"
	check "the relay goes on" \
		until_true 60 done_at_least sqlite:many.db $((round * 4000 + 3500))
	kill -KILL "$relay_pid" 2>/dev/null # It may have delivered all.
	wait "$relay_pid" 2>/dev/null
done
"${relay[@]}" 2>>relay.err
status=$? out='' err=$(tail -n 1 relay.err)
expect "the last relay delivers the rest" 0 "err: 0 dead in "
all_in_order "nothing is lost, since two replicas had each message" "redis://:sesame@127.0.0.1:${ports[$(master)]}" orders

# ---- names and passwords ----

w enqueue sqlite:many.db '{}' --topic orders
w relay sqlite:many.db "$url/shop" --until-empty --timeout 500ms --set redis.password=env:REDIS_PASSWORD
expect "sentinels that want a password are named" 5 "err:set redis.sentinel_password=env:NAME"
w relay sqlite:many.db "$url/other" --until-empty --timeout 500ms "${users[@]}"
expect "a master that no sentinel knows is named" 5 "err:knows no master 'other'"
w relay sqlite:many.db "$url/shop" --until-empty --timeout 10s "${users[@]}" --set redis.replicas=3 \
	--set relay.delivery_timeout=1s
expect "too few replicas are named" 5 "err:redis.replicas"
w relay sqlite:many.db "$url" --until-empty
expect "a URL without the master is refused" 2 "err:redis+sentinel://host1:26379,host2:26379/master"

finish
