# What the scripts that drive the program share: a folder of their own, and TAP.
#
# WHERRY_BUILD is the folder with the program, WHERRY_SOURCE the one with the sources.
# Needs sqlite3 and python3.
# shellcheck shell=bash disable=SC2034

set -u

source_dir=$(cd "${WHERRY_SOURCE:-$(dirname "$0")/../..}" && pwd)
build_dir=$(cd "${WHERRY_BUILD:-$source_dir/build}" && pwd)
wherry=$build_dir/wherry
export -n WHERRY_BUILD WHERRY_SOURCE # or commands would see them
quakes=$source_dir/examples/data/earthquakes.ndjson

# Looking for leaks takes as long as all else that most commands do.  cli.sh looks for them, and each
# script does in `./dev test deep`.
[ "${WHERRY_TEST_DEEP-}" = 1 ] || [ -n "${leaks-}" ] ||
	export ASAN_OPTIONS=${ASAN_OPTIONS+$ASAN_OPTIONS:}detect_leaks=0

tmp=$(mktemp -d "${TMPDIR:-/tmp}/wherry-cli.XXXXXX")
mounted=
pids=()

clean() {
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	[ -n "$mounted" ] && umount "$mounted"
	rm -rf "$tmp"
}
trap clean EXIT
cd "$tmp" || exit 1
export TMPDIR=$tmp

# ---- the harness ----

n=0
failed=0
out='' err='' status=''

# Run wherry; its output, messages and exit status are what the checks look at.
w() {
	out=$("$wherry" "$@" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(cat "$tmp/.err")
}

# The same with standard input.
w_in() {
	local input=$1
	shift
	out=$(printf '%s' "$input" | "$wherry" "$@" 2>"$tmp/.err")
	status=$?
	err=$(cat "$tmp/.err")
}

result() {
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $n - $2"
	printf '# %s\n' "$3" "exit status $status" \
		"out: ${out:0:600}" "err: ${err:0:600}" | sed '2,$s/^\([^#]\)/# \1/'
}

skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# expect SENTENCE STATUS [out:TEXT] [err:TEXT] [no:TEXT] [is:TEXT]...
# The exit status, and texts that stand in the output, in the messages, in neither;
# is: all of the output.
expect() {
	local sentence=$1 wanted=$2 why=
	shift 2
	[ "$status" = "$wanted" ] || why="exit status $status, not $wanted"
	for rule in "$@"; do
		local text=${rule#*:}
		case $rule in
		out:*) [[ $out == *"$text"* ]] || why="not in the output: $text" ;;
		err:*) [[ $err == *"$text"* ]] || why="not in the messages: $text" ;;
		no:*) [[ $out$err != *"$text"* ]] || why="should not be there: $text" ;;
		is:*) [[ $out == "$text" ]] || why="the output is not: $text" ;;
		esac
	done
	[ -z "$why" ]
	result $? "$sentence" "$why"
}

# check SENTENCE COMMAND...: the command succeeds.
check() {
	local sentence=$1
	shift
	"$@" >/dev/null 2>&1
	result $? "$sentence" "failed: $*"
}

# json SENTENCE PYTHON: the output parses, as d or as the list of lines l, and PYTHON
# holds.
json() {
	printf '%s\n' "$out" | python3 -c '
import json, sys
text = sys.stdin.read()
l = [json.loads(line) for line in text.splitlines() if line]
d = l[0] if l else None
sys.exit(0 if eval("(" + sys.argv[1] + ")") else 1)' "$2" 2>>"$tmp/.err"
	result $? "$1" "does not hold: $2"
}

# in_file_order KEY: for json, each key has the messages of $quakes in their order.  KEY is that of a
# message m.
in_file_order() {
	echo "all([m['body']['id'] for m in l if $1 == k] ==
	     [b['id'] for b in map(json.loads, open('$quakes')) if b['net'] == k]
	     for k in {$1 for m in l})"
}

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

sql() {
	sqlite3 -cmd '.timeout 30000' "$@"
}

is() {
	[ "$1" = "$2" ]
}

# start_piped NAME: the server of tests/NAME, until descriptor 5 is closed; where it listens is in `piped`.
start_piped() {
	mkfifo "$1.in"
	exec 5<>"$1.in"
	bash "$source_dir/tests/$1/server.sh" <"$1.in" >"$1.out" 9>&- 5>&- &
	pids+=($!)
	disown $!
	until_true 20 test -s "$1.out"
	piped=$(cat "$1.out")
}

# until_true SECONDS COMMAND...: wait for it to succeed; five times as long, as the machine may be
# busy with other tests.
until_true() {
	local deadline=$((SECONDS + 5 * $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -ge $deadline ] && return 1
		command sleep 0.05
	done
}

lines() {
	[ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}

# state_count URL STATE: the number of messages that status counts.
state_count() {
	"$build_dir/wherry" status "$1" --json |
		python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$2"
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

# The plan, and the exit status of the script.
finish() {
	echo "1..$n"
	[ "$failed" = 0 ]
	exit
}
