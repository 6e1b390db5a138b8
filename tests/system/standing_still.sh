#!/usr/bin/env bash
# Makes messages stand still in each way that docs/internals/standing-still.md lists in its first
# table, and compares status, doctor, /readyz and /metrics with the table.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

page=$source_dir/docs/internals/standing-still.md

# The texts in backquotes of a cell of the table, one a line.
cell() { # CASE COLUMN
	awk -F ' *[|] *' -v case="$1" -v n="$2" '$2 == case { print $(n + 1) }' "$page" |
		grep -o '`[^`]*`' | tr -d '`'
}

# Does the output of a command have every text of a cell?  None: it has nothing to find.
has_texts() { # CASE COLUMN OUTPUT
	local text
	while IFS= read -r text; do
		[[ $3 == *"$text"* ]] || { echo "lacks: $text"; return 1; }
	done < <(cell "$1" "$2")
}

status_is() { # CASE
	out=$("$wherry" status sqlite:a.db 2>&1)
	has_texts "$1" 2 "$(head -n 1 <<<"$out")"
}

doctor_is() { # CASE
	local rc
	out=$("$wherry" doctor sqlite:a.db 2>&1)
	rc=$?
	[ -n "$(cell "$1" 3)" ] || { [ "$rc" = 0 ]; return; }
	[ "$rc" = 1 ] && has_texts "$1" 3 "$out"
}

readyz_is() { # CASE
	get /readyz
	has_texts "$1" 4 "$status $(grep '^r ' <<<"$out")"
}

metrics_are() { # CASE
	metric "v('$(cell "$1" 5)', relay='r') == $(awk -F ' *[|] *' -v case="$1" \
		'$2 == case { sub(/.*` /, "", $6); print $6 }' "$page")"
}

# stands CASE [daemon]: it is as the table says before long.
stands() {
	check "$1: the table has it" test -n "$(cell "$1" 2)"
	check "$1: status" until_true 20 status_is "$1"
	check "$1: doctor" until_true 20 doctor_is "$1"
	[ "${2-}" = daemon ] || return 0
	check "$1: /readyz" until_true 20 readyz_is "$1"
	check "$1: /metrics" until_true 20 metrics_are "$1"
}

one() { # a message
	w_in '{}' enqueue sqlite:a.db --topic t
}

run_to() { # DESTINATION: a daemon with one relay
	cat >wherry.yaml <<-END
		http: {listen: 127.0.0.1:0}
		relays:
		  - {name: r, from: 'sqlite:a.db', to: '$1', poll: 200ms, lease: 2s}
	END
	: >log
	"$wherry" run wherry.yaml 2>log &
	daemon=$!
	pids+=("$daemon")
	until_true 20 grep -q 'leading\|standby\|event=failed' log
	port=$(sed -n 's/.*event=http.* port=\([0-9]*\).*/\1/p' log)
}

quit_daemon() {
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null
}

relay() { # DESTINATION: $relay is its process, and it leads
	"$wherry" relay sqlite:a.db "$1" --lease 1h 2>relay.log &
	relay=$!
	pids+=("$relay")
	until_true 20 grep -q event=leading relay.log
}

"$wherry" init sqlite:a.db 2>/dev/null >&2

# ---- nobody relays ----

relay null:
kill -KILL "$relay"
wait "$relay" 2>/dev/null
one
stands "the relay was killed"

relay null:
sql a.db 'ALTER TABLE outbox RENAME COLUMN headers TO other'
sql a.db "INSERT INTO outbox (topic, payload) VALUES ('t', '{}')"
wait "$relay" 2>/dev/null
sql a.db 'ALTER TABLE outbox RENAME COLUMN other TO headers'
stands "the relay ended with an error"

run_to null:
sql a.db 'ALTER TABLE outbox RENAME COLUMN headers TO other'
sql a.db "INSERT INTO outbox (topic, payload) VALUES ('t', '{}')"
stands "a column of the table is missing" daemon
w init sqlite:a.db
expect "init does not say that such a table is up to date" 1 "err:no such column: headers"
w relay sqlite:a.db null: --until-empty --timeout 5s
expect "a relay names the column" 1 "err:no such column: headers" "no:run \`wherry init"
sql a.db 'ALTER TABLE outbox RENAME COLUMN other TO headers'
quit_daemon

one
sql a.db "UPDATE wherry_lease SET owner = 'nobody', process = '', state = 'leading',
	expires_at = expires_at + 100 * 365 * 86400000"
run_to null:
stands "the lease ends in the far future" daemon
w doctor sqlite:a.db
advice=$(grep -o 'UPDATE wherry_lease [^`]*' <<<"$out")
sql a.db "$advice"
check "the statement that doctor shows ends the lease" until_true 20 grep -q event=leading log

# ---- a relay leads ----

w pause sqlite:a.db
one
stands "the outbox is paused" daemon
w resume sqlite:a.db
check "and when it is resumed, the message is delivered" until_true 20 \
	metric 'v("wherry_outbox_pending", relay="r") == 0'
quit_daemon

relay null:
run_to file:b.out
stands "a standby has another destination" daemon
check "the log of the standby warns" grep -q 'level=warn .*event=other-destination.*leader_to=null:' log
kill -KILL "$relay"
wait "$relay" 2>/dev/null
quit_daemon

# ---- a destination that is down ----

"$wherry" status sqlite:a.db >/dev/null
if [[ $("$wherry" relay x: y: 2>&1) == *https:* ]]; then
	free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	run_to "http://127.0.0.1:$free/hook"
	one
	stands "the destination cannot be reached" daemon
	quit_daemon

	python3 - "$free" <<-'END' &
		import sys
		from http.server import BaseHTTPRequestHandler, HTTPServer
		class Moved(BaseHTTPRequestHandler):
		    def do_POST(self):
		        self.rfile.read(int(self.headers.get("Content-Length", 0)))
		        self.send_response(301)
		        self.send_header("Location", "https://example.org/")
		        self.send_header("Content-Length", "0")
		        self.end_headers()
		    def log_message(self, *args):
		        pass
		HTTPServer(("127.0.0.1", int(sys.argv[1])), Moved).serve_forever()
	END
	receiver=$!
	pids+=("$receiver")
	run_to "http://127.0.0.1:$free/hook"
	stands "the destination answers with a redirect" daemon
	quit_daemon
	kill "$receiver"
	wait "$receiver" 2>/dev/null
else
	skip "a web server that is down" "built without WHERRY_HTTP"
fi

finish
