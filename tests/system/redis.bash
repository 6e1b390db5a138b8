# What the scripts with Redis share: private servers, and a consumer in Python.  Sets redis, the URL
# of the first server.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/kills.bash
. "$(dirname "${BASH_SOURCE[0]}")/kills.bash"

redis_python=/usr/bin/python3 # Debian's python3-redis
redis_port= redis_pid=

find_redis() { # or say that it is not there, and end
	if ! command -v redis-server >/dev/null || ! "$redis_python" -c 'import redis' 2>/dev/null; then
		printf '1..1\nok 1 - Redis # SKIP redis-server or python3-redis is not installed\n'
		exit 0
	fi
}

redis_answers() { # PORT
	redis-cli -p "$1" PING 2>&1 | grep -qE '^(PONG|NOAUTH|NOPERM|MASTERDOWN)'
}

# serve_redis PORT [LINE...]: a server with these lines of configuration and the files that it had
# before.  Sets redis_pid.
serve_redis() {
	mkdir -p "$tmp/redis-$1"
	printf '%s\n' 'bind 127.0.0.1' "port $1" "dir $tmp/redis-$1" 'save ""' 'appendonly yes' \
		'appendfsync always' "${@:2}" >"$tmp/redis-$1.conf"
	redis-server "$tmp/redis-$1.conf" >>"$tmp/redis-$1.log" 2>&1 &
	redis_pid=$!
	pids+=("$redis_pid")
	disown "$redis_pid"
	until_true 20 redis_answers "$1"
}

run_redis() { # [LINE...]
	serve_redis "$redis_port" "$@"
}

start_redis() { # [LINE...]
	find_redis
	redis_port=$(free_port)
	redis=redis://127.0.0.1:$redis_port
	run_redis "$@"
}

kill_redis() { # [PID]
	kill -KILL "${1:-$redis_pid}"
	while kill -0 "${1:-$redis_pid}" 2>/dev/null; do command sleep 0.01; done
}

ask() { # COMMAND...
	redis-cli -p "$redis_port" "$@" 2>&1
}

# read_back URL STREAM...: each entry as a line of JSON.
read_back() {
	timeout 60 "$redis_python" "$source_dir/tests/system/redis_consumer.py" "$@"
}

# all_in_order SENTENCE URL STREAM...: 12,000 messages of 100 keys are there.
all_in_order() {
	local sentence=$1
	shift
	out=$(read_back "$@" | python3 -c '
import json, sys
for m in map(json.loads, sys.stdin):
    print(json.dumps({"id": m["message_id"], "key": m["key"], "n": m["body"]["n"]}))')
	json "$sentence" 'len({m["id"] for m in l}) == 12000'
	json "each key is in order, taking the first of each" '[
		all(a < b for a, b in zip(ns, ns[1:])) for ns in [
			list(dict.fromkeys(m["n"] for m in l if m["key"] == "k%d" % k))
			for k in range(100)]] == [True] * 100'
	json "entries that are there twice were in flight when somebody was killed" \
		'print("#", len(l) - 12000, "twice") or len(l) - 12000 <= 4 * 3 * 200'
}
