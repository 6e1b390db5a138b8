# What the scripts with a web server share: a receiver in a process of its own.  Sets hook, its
# URL; port and receiver_pid are server.bash's.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/kills.bash
. "$(dirname "${BASH_SOURCE[0]}")/kills.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"

export NO_PROXY='*'
receiver_log=
receiver_args=()

# start_receiver LOG [ARGUMENT...]: or say that the program knows no web servers, and end.
start_receiver() {
	if [[ $("$wherry" relay x: y: 2>&1) != *https:* ]]; then
		printf '1..1\nok 1 - webhooks # SKIP built without WHERRY_HTTP\n'
		exit 0
	fi
	receiver_log=$1
	receiver_args=("${@:2}")
	receive --log "$receiver_log" "${receiver_args[@]}"
	hook=http://127.0.0.1:$port/hook
	[[ " ${receiver_args[*]} " != *" --cert "* ]] || hook=https${hook#http}
}

# ---- for kills.bash ----

pace() { # it takes its time, but messages must be left when it goes away; it comes back fast
	[ "$1" != slower ] || echo slow >&8
}

gone() {
	kill_receiver
	check "it sees that the receiver is gone" until_true 20 grep -q destination-down last.err
}

back() {
	receive --log "$receiver_log" --port "$port" "${receiver_args[@]}"
}

arrived() {
	python3 - "$receiver_log" <<'END'
import json, sys
# The last line may be half written, or the receiver was killed.
for line in open(sys.argv[1], encoding="utf-8").read().split("\n")[:-1]:
    m = json.loads(line)
    body = json.loads(m["body"])
    print(json.dumps({"id": m["headers"]["idempotency-key"], "key": body["key"],
                      "n": body["n"]}))
END
}
