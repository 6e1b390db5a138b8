#!/usr/bin/env bash
# Makes messages stand still in each way that docs/internals/standing-still.md lists in its first
# table, and compares status, doctor, /readyz and /metrics with the table.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/standing.bash
. "$source_dir/tests/system/standing.bash"

db=sqlite:a.db

relay() { # DESTINATION: $relay is its process, and it leads
	"$wherry" relay sqlite:a.db "$1" --lease 1h 2>relay.log &
	relay=$!
	pids+=("$relay")
	until_true 20 grep -q event=leading relay.log
}

# ---- those that show after 15 s ----

db=sqlite:locked.db
w create "$db"
run_to null:
python3 -c '
import sqlite3, time
c = sqlite3.connect("locked.db", isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(600)' >locked &
locker=$!
pids+=("$locker")
until_true 20 test -s locked
locked_daemon=$daemon locked_port=$port

db=sqlite:a.db
if [ -n "$has_http" ]; then
	silent_server
	db=sqlite:silent.db
	w create "$db"
	run_to "$silent" 'webhook: {timeout: 5m}' 'claim_timeout: 10m'
	one
	silent_daemon=$daemon silent_port=$port
	db=sqlite:a.db
fi

"$wherry" create sqlite:a.db 2>/dev/null >&2

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
w create sqlite:a.db
expect "create does not say that such a table is up to date" 1 "err:no such column: "
w relay sqlite:a.db null: --until-empty --timeout 60s
expect "a relay names the column" 1 "err:no such column: " "no:run \`wherry create"
sql a.db 'ALTER TABLE outbox RENAME COLUMN other TO headers'
quit_daemon

# ---- a relay that ends with an error is replaced at once, also if a message is in flight ----

w create sqlite:ended.db
cat >wherry.yaml <<-END
	relays:
	  - {name: r, from: 'sqlite:ended.db', to: 'exec:touch in_flight; test -e go || sleep 100', idle_interval: 200ms, lease: 10m}
END
"$wherry" run wherry.yaml 2>log &
daemon=$!
pids+=("$daemon")
w_in '{}' enqueue --lines sqlite:ended.db --topic t
until_true 20 test -e in_flight
sql ended.db 'ALTER TABLE outbox RENAME COLUMN headers TO other'
sql ended.db "INSERT INTO outbox (topic, payload) VALUES ('t', '{}')"
ended() {
	[ "$(sql ended.db 'SELECT state FROM wherry_lease')" = stopped ]
}
check "the lease says that the relay ended" until_true 20 ended
touch go
sql ended.db 'ALTER TABLE outbox RENAME COLUMN other TO headers'
leads_again() {
	[ "$(grep -c event=leading log)" -ge 2 ]
}
check "the relay leads again before its lease would have ended" until_true 20 leads_again
quit_daemon

one
sql a.db "UPDATE wherry_lease SET owner = 'nobody', process = '', state = 'leading',
	expires_at = expires_at + 100 * 365 * 86400000"
stands "the lease ends in the far future"
w doctor sqlite:a.db
advice=$(grep -o 'UPDATE wherry_lease [^`]*' <<<"$out")
run_to null:
check "a relay lets the lease last for its time alone" until_true 20 grep -q event=lease-cut log
sql a.db "$advice"
check "the statement that doctor shows ends the lease" until_true 20 grep -q event=leading log

leading_daemon=$daemon leading_port=$port
db=sqlite:locked.db daemon=$locked_daemon port=$locked_port
stands "another program keeps the file locked" daemon
kill "$locker"
wait "$locker" 2>/dev/null
ready_again() {
	get /readyz
	[ "$status" = 200 ]
}
check "and it is ready when the file is free again" until_true 20 ready_again
quit_daemon
if [ -n "$has_http" ]; then
	db=sqlite:silent.db daemon=$silent_daemon port=$silent_port patient=(--older-than 2s)
	stands "the destination gives no answer" daemon
	quit_daemon
	patient=()
fi
db=sqlite:a.db daemon=$leading_daemon port=$leading_port

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

db=sqlite:bus.db
w create "$db" --layout event-bus
stands "the layout names no relay"
db=sqlite:a.db

# ---- a destination that is down ----

"$wherry" status sqlite:a.db >/dev/null
if [ -n "$has_http" ]; then
	free=$(free_port)
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
	w doctor sqlite:a.db
	expect "no finding counts attempts that were not made" "$status" "no:0 times" "no: 0 attempts"
	kill "$receiver"
	wait "$receiver" 2>/dev/null

	# The relay would try the destination again after an hour.
	"$wherry" relay sqlite:a.db "http://127.0.0.1:$free/hook" --until-empty --set retry.base=1h \
		--set retry.cap=1h --set retry.jitter=off 2>relay.log &
	relay=$!
	pids+=("$relay")
	until_true 20 grep -q event=destination-down relay.log
	python3 - "$free" <<-'END' &
		import sys
		from http.server import BaseHTTPRequestHandler, HTTPServer
		class Taken(BaseHTTPRequestHandler):
		    def do_POST(self):
		        self.rfile.read(int(self.headers.get("Content-Length", 0)))
		        self.send_response(200)
		        self.send_header("Content-Length", "0")
		        self.end_headers()
		    def log_message(self, *args):
		        pass
		HTTPServer(("127.0.0.1", int(sys.argv[1])), Taken).serve_forever()
	END
	receiver=$!
	pids+=("$receiver")
	until_true 20 curl -s -o /dev/null -X POST "http://127.0.0.1:$free/"
	w resume sqlite:a.db
	check "resume makes a relay try a destination that is down at once" until_true 20 \
		grep -q '^1 delivered' relay.log
	kill -KILL "$relay" "$receiver" 2>/dev/null
	wait "$relay" "$receiver" 2>/dev/null
else
	skip "a web server that is down" "built without WHERRY_HTTP"
fi

# ---- outside texts ----

# Whether the output has no control character but line feeds, and nothing that changes the
# direction of a terminal.
is_safe() {
	printf '%s' "$1" | python3 -c '
import sys
text = sys.stdin.buffer.read().decode("utf-8")
bad = [hex(ord(c)) for c in text if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or
       ord(c) in (0x61c, 0xfeff) or 0x200b <= ord(c) <= 0x200f or 0x2028 <= ord(c) <= 0x202e or
       0x2060 <= ord(c) <= 0x206f)]
sys.exit(bool(bad) or "FORGED" in [line.strip() for line in text.splitlines()])'
}

evil="char(27) || '[2J' || char(10) || 'FORGED' || char(10) || char(0x202e) || 'x' || char(0x9b, 0x200b, 0x2066)"
sql a.db "INSERT INTO outbox (topic, partition_key, aggregate_type, aggregate_id, message_id, trace_id, payload)
	VALUES ($evil, $evil, $evil, $evil, $evil, $evil, replace($evil, char(10), ''));
	INSERT INTO outbox_exception(subscription, id, state, last_error, attempts, next_retry_at)
		SELECT 'relay', id, 3, $evil, 1, 9999999999999 FROM outbox WHERE id > (SELECT high FROM outbox_progress) ON CONFLICT DO NOTHING;
	UPDATE wherry_lease SET owner = $evil, process = '', state = $evil, destination = $evil, error = $evil,
		error_at = 0, expires_at = (SELECT ms FROM wherry_clock) + 60000"
id=$(sql a.db 'SELECT max(id) FROM outbox')
w create --kind queue sqlite:a.db#jobs
w_in '{}' send sqlite:a.db#jobs -
sql a.db "INSERT INTO wherry_lease (outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, suspects,
	state, state_since, destination, delivered, error, error_at)
	SELECT 'jobs', 1, 'competing', $evil, 1, (SELECT ms FROM wherry_clock) + 60000, 1, 0, 1, 0, $evil, 0, $evil, 0, $evil, 0"
unsafe=
for command in 'status sqlite:a.db' 'doctor sqlite:a.db' "doctor sqlite:a.db $id" 'list sqlite:a.db --all' \
	"show sqlite:a.db $id" 'tables sqlite:a.db' 'tables sqlite:a.db' \
	'status sqlite:a.db#jobs' 'doctor sqlite:a.db#jobs' 'list sqlite:a.db#jobs'; do
	# shellcheck disable=SC2086
	out=$("$wherry" $command 2>&1)
	is_safe "$out" || unsafe+=" '$command'"
done
check "no command prints a text of the database that moves a cursor:$unsafe" test -z "$unsafe"

finish
