#!/usr/bin/env bash
# A destination that refuses everything, for whatever reason, kills no message.  Each kind of destination
# refuses 12 messages in each of its ways, again and again; then its cause is removed, and all are
# delivered.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

# A web server that answers /STATUS with that status, until the file "up" is there.
cat >server.py <<'END'
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200 if os.path.exists("up") else int(self.path.strip("/")))
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
END

cases=()

seq 12 | sed 's/.*/{"n":&}/' >twelve.ndjson

start() { # CASE DESTINATION: a relay to it
	cases+=("$1")
	[ -e "$1.db" ] || w create "sqlite:$1.db"
	"$wherry" relay "sqlite:$1.db" "$2" --set retry.base=20ms --set retry.cap=200ms --set retry.attempts=3 \
		--set relay.idle_interval=100ms 2>"$1.log" &
	pids+=($!)
}

refuse() { # CASE DESTINATION: it has 12 messages, and the destination refuses them by now
	w create "sqlite:$1.db"
	w enqueue --lines "sqlite:$1.db" --topic t --from twelve.ndjson
	start "$@"
}

if [[ $("$wherry" relay x: y: 2>&1) == *https:* ]]; then
	python3 server.py >port &
	pids+=($!)
	until_true 20 test -s port
	for code in 302 401 403 404 409 413 422 451 500 504; do
		refuse "http$code" "http://127.0.0.1:$(cat port)/$code"
	done
fi
printf '#!/bin/sh\ncat >/dev/null\ntest -e up || exit $1\n' >command
chmod +x command
for code in 1 2 77 126 127; do
	refuse "exec$code" "exec:./command $code"
done
refuse exec_gone "exec:./nowhere"
sqlite3 q.db 'SELECT 1'
w create --kind queue sqlite:q.db#jobs
w create --kind inbox sqlite:q.db#inbox
sqlite3 -cmd '.timeout 30000' q.db 'ALTER TABLE jobs RENAME TO elsewhere'
refuse queue_gone "sqlite:q.db#jobs"
mkdir folder
start folder_gone "file:$tmp/folder/out"
until_true 20 grep -q event=leading folder_gone.log
rm -r folder
w enqueue --lines sqlite:folder_gone.db --topic t --from twelve.ndjson

all_done() { # CASE
	[ "$(state_count "sqlite:$1.db" done)" = 12 ]
}

refused() { # CASE
	grep -q 'event=destination-down' "$1.log"
}
for case in "${cases[@]}"; do
	check "$case: the relay says that the destination refuses" until_true 30 refused "$case"
done
for case in "${cases[@]}"; do
	check "$case: no message is dead" test "$(state_count "sqlite:$case.db" dead)" = 0
done

# ---- it is repaired ----

touch up
mkdir folder
printf '#!/bin/sh\ncat >/dev/null\n' >nowhere
chmod +x nowhere
sqlite3 -cmd '.timeout 30000' q.db 'ALTER TABLE elsewhere RENAME TO jobs'
for case in "${cases[@]}"; do
	check "$case: all are delivered in the end" until_true 30 all_done "$case"
done

finish
