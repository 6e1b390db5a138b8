# What the scripts with NATS share: a private nats-server with JetStream, and a program that
# adds and reads streams.  Sets nats, its URL.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/kills.bash
. "$(dirname "${BASH_SOURCE[0]}")/kills.bash"

nats_tool=$build_dir/tests/publish_nats_tool_linked_main
nats_port= nats_pid=

find_nats() { # or say that it is not there, and end
	nats_server=$(PATH=$PATH:/usr/sbin:/usr/local/bin command -v nats-server)
	if [ ! -x "$nats_tool" ]; then
		printf '1..1\nok 1 - NATS # SKIP built without libnats\n'
		exit 0
	fi
	if [ -z "$nats_server" ]; then
		printf '1..1\nok 1 - NATS # SKIP nats-server is not installed\n'
		exit 0
	fi
}

nats_answers() { # PORT
	local line=
	exec 6<>"/dev/tcp/127.0.0.1/$1" || return
	read -r -t 2 line <&6
	exec 6>&-
	[[ $line == INFO* ]]
} 2>/dev/null

# run_nats [LINE...]: with these lines of configuration, at the port and with the files that it
# had before.
run_nats() {
	printf '%s\n' "listen: \"127.0.0.1:$nats_port\"" "jetstream { store_dir: \"$tmp/js\" }" \
		"$@" >"$tmp/nats.conf"
	"$nats_server" -c "$tmp/nats.conf" >>"$tmp/nats.log" 2>&1 &
	nats_pid=$!
	pids+=("$nats_pid")
	until_true 20 nats_answers "$nats_port"
}

start_nats() { # [LINE...]
	find_nats
	nats_port=$(free_port)
	nats=nats://127.0.0.1:$nats_port
	run_nats "$@"
}

kill_nats() {
	kill -KILL "$nats_pid"
	wait "$nats_pid" 2>/dev/null
}

stream() { # WORD NAME [ARGUMENT...], as nats_tool_linked_main.c says
	timeout 60 "$nats_tool" "$1" "$nats" "${@:2}"
}

# read_back STREAM: each message as a line of JSON: subject, headers, body.
read_back() {
	stream read "$1" | python3 -c '
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    try:
        m["body"] = json.loads(m["body"])
    except ValueError:
        pass
    print(json.dumps(m))'
}
