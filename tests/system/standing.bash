# What the scripts share that make messages stand still: they compare status, doctor, /readyz and
# /metrics with the tables of docs/internals/standing-still.md.  They set db, the URL of the
# outbox, and start daemons whose relay is called r.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/daemon.bash
. "$(dirname "${BASH_SOURCE[0]}")/daemon.bash"

page=$source_dir/docs/internals/standing-still.md
table= # that they look at: "", or #NAME
patient=() # more options of doctor

# A cell of the tables, without the rest of its row.
cell() { # CASE COLUMN
	awk -F ' *[|] *' -v case="$1" -v n="$2" '$2 == case { print $(n + 1) }' "$page"
}

# Does the output of a command have every text in backquotes of a cell?  None: it has nothing to
# find.
has_texts() { # CASE COLUMN OUTPUT
	local text
	while IFS= read -r text; do
		[[ $3 == *"$text"* ]] || { echo "lacks: $text"; return 1; }
	done < <(cell "$1" "$2" | grep -o '`[^`]*`' | tr -d '`')
}

status_is() { # CASE
	out=$("$wherry" status "$db$table" 2>&1)
	has_texts "$1" 2 "$(head -n 1 <<<"$out")"
}

doctor_is() { # CASE
	local wanted=0
	out=$("$wherry" doctor "$db$table" "${patient[@]}" 2>&1)
	status=$?
	[[ $(cell "$1" 3) != *'`bad '* && $(cell "$1" 3) != error* ]] || wanted=1
	[ "$status" = "$wanted" ] && has_texts "$1" 3 "$out"
}

readyz_is() { # CASE
	get /readyz
	has_texts "$1" 4 "$status $(grep '^r ' <<<"$out")"
}

# A cell such as `wherry_up` 0, or `wherry_state_seconds` over 2.
metrics_are() { # CASE
	local text name value
	text=$(cell "$1" 5)
	name=$(grep -o '`[^`]*`' <<<"$text" | tr -d '`')
	value=${text##*\` }
	case $value in
	over*) metric "v('$name', relay='r') > ${value#over }" ;;
	*) metric "v('$name', relay='r') == $value" ;;
	esac
}

# stands CASE [daemon]: it is as the table says before long.
stands() {
	check "$1: the table has it" test -n "$(cell "$1" 2)"
	check "$1: status" until_true 30 status_is "$1"
	check "$1: doctor" until_true 30 doctor_is "$1"
	[ "${2-}" = daemon ] || return 0
	check "$1: /readyz" until_true 30 readyz_is "$1"
	check "$1: /metrics" until_true 30 metrics_are "$1"
}

# run_to DESTINATION [KEY: VALUE...]: a daemon with one relay, which has these settings.
run_to() {
	local to=$1 line
	shift
	cat >wherry.yaml <<-END
		http: {listen: 127.0.0.1:0}
		relays:
		  - name: r
		    from: '$db$table'
		    to: '$to'
		    idle_interval: 200ms
		    lease: 2s
	END
	for line in "$@"; do
		echo "    $line" >>wherry.yaml
	done
	: >log
	"$wherry" run wherry.yaml 2>log &
	daemon=$!
	pids+=("$daemon")
	until_true 20 grep -q 'leading\|standby\|event=failed\|bad-file' log
	port=$(sed -n 's/.*event=http.* port=\([0-9]*\).*/\1/p' log)
}

quit_daemon() {
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null
}

one() { # [TOPIC]: a message
	w_in '{}' enqueue --lines "$db" --topic "${1-t}"
}

has_http= # Does this program deliver to webhooks?
[[ $("$wherry" relay x: y: 2>&1) != *https:* ]] || has_http=1

# Start a server that takes connections and never answers; its URL is in `silent`.
silent_server() {
	python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
kept = []
while True:
    kept.append(s.accept())' >silent.port &
	pids+=($!)
	until_true 20 test -s silent.port
	silent=http://127.0.0.1:$(cat silent.port)/
}
