# What the scripts share that deliver 10,000 messages of 100 keys, while relays are killed on
# the way and what they deliver to is gone once for a while.
#
# A script says by functions of its own what is special to its destination: pace, before and
# after the kills ("slow", so that there is time for them, "slower" for the last relay, then
# "fast"); gone and back; and arrived, which prints each delivery as a line of JSON, in order: id, key and n.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/cli.bash
declare -F result >/dev/null || . "$(dirname "${BASH_SOURCE[0]}")/cli.bash"

window=60 # of the relays: as many may come twice when one is killed

# pauses PACE PID REST: a server that is faster than kills stands still for most of the time, and works
# for REST seconds between; at the pace "fast" it works on.
pauses() {
	[ -z "${faltering-}" ] || {
		kill "$faltering"
		wait "$faltering" 2>/dev/null
		kill -CONT "$2" 2>/dev/null
		faltering=
	}
	[ "$1" = fast ] || {
		while kill -STOP "$2" && command sleep 0.03 && kill -CONT "$2"; do
			command sleep "$3"
		done 2>/dev/null &
		faltering=$!
		pids+=("$faltering")
	}
}

done_at_least() { # URL N
	[ "$("$wherry" status "$1" --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["done"])')" -ge "$2" ]
}

# deliver_with_kills URL TO [OPTION...]: with these options of the relay.
deliver_with_kills() {
	local url=$1 to=$2 pid at
	local -a relay=("$wherry" relay "$url" "$to" --set relay.lease=1s
		--set "relay.window=$window" --set retry.base=100ms "${@:3}")

	python3 -c '
import json
for n in range(10000):
    print(json.dumps({"key": "k%d" % (n * 7919 % 100), "n": n}))' >many.ndjson
	w enqueue --lines "$url" --topic orders --key /key --from many.ndjson
	expect "10,000 messages of 100 keys are enqueued" 0 "is:10000 enqueued, 0 duplicates"
	pace slow
	for at in 1500 3500 5500; do
		"${relay[@]}" 2>>relay.err &
		pid=$!
		pids+=("$pid")
		check "a relay has delivered $at" until_true 60 done_at_least "$url" "$at"
		kill -KILL "$pid"
		wait "$pid" 2>/dev/null
	done
	pace slower
	"${relay[@]}" --until-empty --timeout 90s 2>last.err &
	pid=$!
	pids+=("$pid")
	check "a relay has delivered 6000" until_true 60 done_at_least "$url" 6000
	gone
	back
	pace fast
	wait "$pid"
	status=$? out='' err=$(cat last.err)
	expect "the last relay delivers the rest" 0 "err: 0 dead in "
	out=$(arrived)
	json "all are there" 'len({m["id"] for m in l}) == 10000'
	json "in order per key, taking the first of each" '[
		all(a < b for a, b in zip(ns, ns[1:])) for ns in [
			list(dict.fromkeys(m["n"] for m in l if m["key"] == "k%d" % k))
			for k in range(100)]] == [True] * 100'
	json "what is there twice was in flight when somebody was killed" \
		"len(l) - 10000 <= 4 * 3 * $window"
	w status "$url" --json
	json "and nothing is open" 'd["done"] == 10000 and d["ready"] == d["failed"] == d["dead"] == 0'
}
