# What the scripts with a daemon share: it is started, asked over HTTP, and stopped.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/cli.bash
declare -F result >/dev/null || . "$(dirname "${BASH_SOURCE[0]}")/cli.bash"

# start_daemon FILE: its log is $tmp/log, its process $daemon, its port $port.
start_daemon() {
	: >"$tmp/log"
	"$wherry" run "$1" 2>"$tmp/log" &
	daemon=$!
	pids+=("$daemon")
	until_true 20 grep -q 'leading\|event=matched\|cannot-start\|bad-file' "$tmp/log"
	port=$(sed -n 's/.*event=http.* port=\([0-9]*\).*/\1/p' "$tmp/log")
}

get() { # PATH [CURL OPTION...]; the body is the output, the HTTP status the status
	local path=$1
	shift
	out=$(curl -s -m 20 -w '\n%{http_code}' "$@" "http://127.0.0.1:$port$path" 2>"$tmp/.err")
	err=
	status=${out##*$'\n'}
	out=${out%$'\n'*}
	out=${out%$'\n'}
}

# metric PYTHON: does it hold?  See metrics.py.
metric() {
	curl -s -m 20 "http://127.0.0.1:$port/metrics" | tee "$tmp/.metrics" |
		python3 "$source_dir/tests/system/metrics.py" "$@" 2>"$tmp/.err"
}

# metrics SENTENCE [PYTHON]: what is there is well formed, and before long PYTHON holds.
metrics() {
	local sentence=$1
	shift
	until_true 20 metric "$@"
	status=$? out=$(tail -n 5 "$tmp/log") err=$(cat "$tmp/.err")
	result "$status" "$sentence" "$(tail -n 1 "$tmp/.err")"
}

readyz() { # STATUS
	[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/readyz")" = "$1" ]
}

stop_daemon() {
	kill -TERM "$daemon"
	wait "$daemon"
	status=$?
	out='' err=$(cat "$tmp/log")
}
