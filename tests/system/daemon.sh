#!/usr/bin/env bash
# Drives the real daemon: several relays of one file, what it answers over HTTP, reloads,
# signals, and what it says of files that cannot be used.
#
# Writes TAP.

# shellcheck source=tests/system/daemon.bash
. "$(dirname "$0")/daemon.bash"

for name in a b c; do
	"$wherry" create "sqlite:$name.db" >/dev/null
	printf '{"n":%d}\n' 1 2 3 | "$wherry" enqueue --lines "sqlite:$name.db" --topic t --key /n >/dev/null
done

# ---- several relays, one of them broken ----

# relays FLOW...: wherry.yaml with these.
relays() {
	cat >wherry.yaml <<-END
		http: {listen: 127.0.0.1:0}
		defaults:
		  lease: 2s
		  down_after: 2
		  retry: {base: 10ms}
		relays:
	END
	printf '  - {%s}\n' "$@" >>wherry.yaml
}

"$wherry" create sqlite:d.db >/dev/null
"$wherry" relay sqlite:d.db null: --set relay.name='the "other" \one' 2>other.log &
other=$!
pids+=("$other")
until_true 20 grep -q leading other.log
relays "name: a, from: 'sqlite:a.db', to: 'file:a.out'" \
	"name: b, from: 'sqlite:b.db', to: 'exec:echo it is closed >&2; exit 1'" \
	"name: d, from: 'sqlite:d.db', to: 'file:d.out'" \
	"name: none, from: 'sqlite:not-there.db', to: 'file:none.out'" \
	"name: typo, from: 'sqlite:d.db#outbx', to: 'file:typo.out'"
w check
expect "check says that a file is fine" 0 "is:wherry.yaml: 5 relays, fine"
start_daemon wherry.yaml
until_true 20 lines a.out 3
check "a relay delivers beside one that cannot start and one whose destination fails" \
	lines a.out 3
until_true 20 metric 'v("wherry_destination_up", relay="b") == 0'
get /readyz
expect "/readyz names each relay, and why it is not ready" 503 "out:a ready: leading" \
	"out:d ready: standing by: the \"other\" \\one relays the outbox to null:" "out:b not ready: destination refuses: " "out:none not ready: " "out:not-there.db" \
	"out:typo not ready: " "out:did you mean 'outbox'?"
get /healthz
expect "/healthz is fine while the daemon lives" 200 "is:ok"
until_true 20 metric 'v("wherry_delivered_total", relay="a") == 3'
metrics "/metrics count what became of messages" \
	'[v(f"wherry_{what}_total", relay="a") for what in ("delivered", "retried", "dead")]
	 == [3, 0, 0]'
metrics "and what the relay has in memory" \
	'[v(f"wherry_{what}", relay="a") for what in ("in_flight", "held_keys", "parked_keys")]
	 == [0, 0, 0]'
metrics "and what waits in the outbox" \
	'v("wherry_outbox_pending", relay="a") == 0 and v("wherry_outbox_failed", relay="a") == 0
	 and v("wherry_outbox_pending", relay="b") + v("wherry_outbox_failed", relay="b") > 0
	 and v("wherry_outbox_oldest_ready_seconds", relay="a") == 0'
metrics "and the time from commit to delivery" 'v("wherry_latency_seconds_count", relay="a") == 3'
metrics "and who has the lease, and for how long" \
	'[l["owner"].startswith("a@") for l, epoch in all_of("wherry_lease_epoch")
	  if l["relay"] == "a" and epoch > 0] == [True]
	 and 0 < v("wherry_lease_left_seconds", relay="a") <= 2'
metrics "and that a relay failed" 'v("wherry_up", relay="none") == 0'
metrics "and why, by class, those that never were as well" \
	'v("wherry_errors_total", relay="none", **{"class": "NOTFOUND"}) > 0 and
	 v("wherry_errors_total", relay="a", **{"class": "NOTFOUND"}) == 0'
metrics "and the memory of the process" 'v("process_resident_memory_bytes") > 1e6'
metrics "whatever he is called" \
	'[l["owner"] for l, epoch in all_of("wherry_lease_epoch") if l["relay"] == "d"]
	 == ["the \"other\" \\one"] and v("wherry_leading", relay="d") == 0'
metrics "nothing of logs, where none is streamed" 'not all_of("wherry_stream_slot")'
metrics "all in the text format"
kill "$other"
get /nothing
expect "another path is 404" 404 "out:/metrics"
get /healthz -X POST
expect "another method is refused" 405

# ---- reloading ----

relays "name: a, from: 'sqlite:a.db', to: 'file:a.out'" \
	"name: b, from: 'sqlite:b.db', to: 'file:b.out'" \
	"name: c, from: 'sqlite:c.db', to: 'file:c.out'"
kill -HUP "$daemon"
until_true 20 lines b.out 3
check "SIGHUP gives a changed relay its new destination" lines b.out 3
until_true 20 lines c.out 3
check "and starts a new one" lines c.out 3
until_true 20 readyz 200
get /readyz
expect "and one that is gone is gone" 200 "no:none" "out:c ready"
check "one that did not change went on" \
	is "$(grep -c 'relay=a event=start' "$tmp/log")" 1

printf 'relays: [{name: a, from: x}]\n' >wherry.yaml
kill -HUP "$daemon"
until_true 20 grep -q event=reload-refused "$tmp/log"
check "a file that cannot be used is named with its line" \
	grep -q 'event=bad-file why="wherry.yaml:1:' "$tmp/log"
printf '{"n":4}\n' | "$wherry" enqueue --lines sqlite:a.db --topic t --key /n >/dev/null
until_true 20 lines a.out 4
check "and changes nothing" lines a.out 4
stop_daemon
expect "SIGTERM ends all relays, with 0" 0 "err:relay=a event=ended" \
	"err:relay=c event=ended" "no:Sanitizer"
w status sqlite:a.db
expect "and gives their leases back" 0 "out:relay       none; the last was a@"

# ---- signals ----

cat >slow.yaml <<'END'
http: {listen: 127.0.0.1:0}
log: {format: json}
relays:
  - {name: slow, from: 'sqlite:a.db', to: 'exec:touch began; exec sleep 5', stop_timeout: 1m,
     lease: 1s}
END
printf '{"n":5}\n' | "$wherry" enqueue --lines sqlite:a.db --topic t --key /n >/dev/null
start_daemon slow.yaml
until_true 20 test -e began
kill -TERM "$daemon"
until_true 20 grep -q stopping "$tmp/log"
command sleep 0.3
kill -TERM "$daemon"
wait "$daemon"
status=$?
out=$(cat "$tmp/log")
expect "a second SIGTERM ends it at once" 130
json "the log is JSON when asked" \
	'[m["event"] for m in l][:3] == ["reads", "http", "start"] and l[0]["file"] == "slow.yaml" and l[2]["relay"] == "slow"'

sed -i 's/began; exec sleep 5/again; exec sleep 1/' slow.yaml
start_daemon slow.yaml
until_true 20 test -e again
kill -TERM "$daemon"
kill -INT "$daemon"
wait "$daemon"
status=$? out=$(cat "$tmp/log")
expect "those that come at once, as timeout sends them, are one" 0 'out:"event":"ended"'

# ---- systemd ----

cat >one.yaml <<'END'
http: {listen: 127.0.0.1:0}
relays: [{name: c, from: 'sqlite:c.db', to: 'file:c.out'}]
END
python3 - "$tmp/notify" >"$tmp/notified" <<'END' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    text = s.recv(4096).decode()
    print(text, flush=True)
    if "STOPPING=1" in text:
        break
END
listener=$!
until_true 20 test -S "$tmp/notify"
NOTIFY_SOCKET=$tmp/notify WATCHDOG_USEC=200000 "$wherry" run one.yaml 2>"$tmp/log" &
daemon=$!
pids+=("$daemon")
until_true 20 grep -q WATCHDOG=1 "$tmp/notified"
check "systemd is told that it is ready" grep -q READY=1 "$tmp/notified"
check "and how many relays it has" grep -qx 'STATUS=1 relay' "$tmp/notified"
check "and that it lives" grep -q WATCHDOG=1 "$tmp/notified"
kill -HUP "$daemon"
until_true 20 grep -q RELOADING=1 "$tmp/notified"
check "and that it reads its file again" grep -q RELOADING=1 "$tmp/notified"
stop_daemon
wait "$listener"
check "and that it stops" grep -q STOPPING=1 "$tmp/notified"

# ---- a reload that changes how much runs at once ----

cat >job.sh <<'END'
n=$(cat)
echo "$n" >>began
until [ -e "go.$((n > 2))" ]; do sleep 0.01; done
echo "$n" >>ended
END
jobs() { # N
	printf '%s\n' 'http: {listen: 127.0.0.1:0}' 'relays:' "  - {name: jobs, from: 'sqlite:jobs.db', to: 'exec:sh job.sh'," \
		"     exec: {jobs: $1}, stop_timeout: 1m}" >jobs.yaml
}

relay_stops() { # a reload has begun
	get /readyz
	[[ $out != *jobs* ]]
}

rm -f began
"$wherry" create sqlite:jobs.db >/dev/null
seq 8 | "$wherry" enqueue --lines sqlite:jobs.db --topic t >/dev/null
jobs 2
start_daemon jobs.yaml
until_true 20 lines began 2
jobs 5
kill -HUP "$daemon"
check "a reload stops the relay that changed" until_true 20 relay_stops
check "which waits for what runs" lines began 2
touch go.0
until_true 20 lines began 7
check "and starts again with the new number of commands" lines began 7
touch go.1
until_true 20 lines ended 8
check "each command runs once" is "$(sort ended | tr '\n' ' ')" '1 2 3 4 5 6 7 8 '
stop_daemon
expect "and ends well" 0 "no:Sanitizer"

# ---- it sleeps ----

switches() { # of its first thread, so far
	sed -n 's/^voluntary_ctxt_switches:\t*//p' "/proc/$daemon/task/$daemon/status"
}

start_daemon one.yaml
until_true 20 grep -q 'relay=c event=leading' "$tmp/log"
before=$(switches)
command sleep 1
check "while nothing happens the thread that waits for signals sleeps" \
	test $(($(switches) - before)) -le 1
stop_daemon
expect "and it wakes when it is told to end" 0 "err:event=ended"

# ---- slow clients ----

cat >drip.py <<'END'
"""80 clients that send a byte of their request at a time, and begin again when they are cut off.
Meanwhile /healthz answers; and a client that is left alone is cut off, though it sends."""
import http.client, socket, sys, threading, time

port, over, cut = int(sys.argv[1]), threading.Event(), threading.Event()

def drip():
    while not over.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), 20) as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
                while not over.wait(0.2):
                    s.sendall(b"x")
        except OSError:
            cut.set()

clients = [threading.Thread(target=drip, daemon=True) for _ in range(80)]
for client in clients:
    client.start()
for _ in range(30):
    asked = time.monotonic()
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    c.request("GET", "/healthz")
    answer = c.getresponse()
    assert answer.status == 200 and answer.read() == b"ok\n", answer.status
    c.close()
    time.sleep(0.1)
assert cut.wait(20)
over.set()
for client in clients:
    client.join()
cut.clear()
over.clear()
alone = threading.Thread(target=drip, daemon=True)
alone.start()
assert cut.wait(30)
over.set()
END
cat >slow.yaml <<'END'
http: {listen: '127.0.0.1:0'}
relays: [{name: c, from: 'sqlite:c.db', to: 'file:c.out'}]
END
start_daemon slow.yaml
check "clients that drip keep nobody from /healthz, and are cut off" python3 drip.py "$port"
get /healthz
expect "when they are gone it answers as before" 200 "is:ok"
get /healthz -H 'Host: evil.example'
expect "a web page whose name resolves to this machine gets no answer" 403 "no:ok"
stop_daemon

# ---- who may ask ----

cat >token.yaml <<'END'
http: {listen: '0.0.0.0:0', token: '${file:token}', hosts: 'wherry.example, b'}
relays: [{name: c, from: 'sqlite:c.db', to: 'file:c.out'}]
END
echo s3cret-of-24-characters >token
start_daemon token.yaml
get /healthz
expect "beyond this machine a token is asked for" 401 "no:s3cret"
get /healthz -H 'Authorization: Bearer s3cret-of-24-character'
expect "a wrong one is refused" 401
get /healthz -H 'Authorization: Bearer s3cret-of-24-characters'
expect "the right one is taken" 200 "is:ok"
get /healthz -H 'Authorization: Bearer s3cret-of-24-characters' -H 'Host: evil.example'
expect "a name that is not listed is refused" 403 "out:http.hosts"
get /healthz -H 'Authorization: Bearer s3cret-of-24-characters' -H 'Host: wherry.example:80'
expect "one that is listed is taken" 200 "is:ok"
probe() { # WORD TOKEN-FILE
	out=$(WHERRY_HTTP_PORT=$port WHERRY_HTTP_TOKEN_FILE=$2 \
		sh "$source_dir/packaging/container/probe.sh" "$1" 2>.err)
	status=$? err=$(cat .err)
}
probe healthz token
expect "the image's probe gives it" 0 "is:ok" "no:s3cret"
probe readyz none
expect "and fails without it" 22 "out:give the token"
out=$(cat "$tmp/log")
status=0
expect "it is nowhere in the log" 0 "no:s3cret"
w config token.yaml
expect "nor in the configuration that is printed" 0 'out:token: "${file:token}"' "no:s3cret"

# ---- what cannot be ----

sed "s/'0.0.0.0:0', token.*/127.0.0.1:$port}/" token.yaml >taken.yaml
w run taken.yaml
expect "a port that is taken is named, with the way out" 1 "err:event=cannot-start" \
	"err:127.0.0.1:$port" "err:http.listen"
stop_daemon
w run not-there.yaml
expect "a file that is not there is named" 1 "err:not-there.yaml"
w run
expect "without a name it is wherry.yaml; each line that is wrong is an event" 1 \
	"err:why=\"wherry.yaml:1:26: from: 'x' is not a URL"
printf 'relays:\n  - nane: a\n' >bad.yaml
w check bad.yaml
expect "check names line, column and the nearest key" 1 \
	"err:bad.yaml:2:5: unknown key 'nane'; did you mean 'name'?"
printf 'relays:\n  - name: a\n    from: sqlite:shop.db\n    to: stdout:  \n' >plain.yaml
w check plain.yaml
expect "stdout: needs no quotes" 0 "out:1 relay, fine"
chmod 666 plain.yaml
w check plain.yaml
expect "a file that every user may write is warned of" 0 "err:plain.yaml: warning: every user of this machine may write it" \
	"no:password"
sed -i 's,sqlite:shop.db,postgres://shop:secret@db/shop,' plain.yaml
chmod 644 plain.yaml
w check plain.yaml
expect "and one with a password that every user may read" 0 "err:warning: it has a password" "no:secret" "no:may write"
export SHOP_PASSWORD=secret
sed -i 's,:secret@,:${env:SHOP_PASSWORD}@,' plain.yaml
w check plain.yaml
expect "but not one that names where the password is" 0 "no:warning"
sed -i 's,:${env:SHOP_PASSWORD}@,:secret@,' plain.yaml
chmod 640 plain.yaml
w check plain.yaml
expect "but not one that is kept from them" 0 "no:warning"
printf 'relays: [{name: a, from: "sqlite:a", to: "null:", retention: 7d}]\n' >bad.yaml
w check bad.yaml
expect "a setting without its group is told its place" 1 "err:it belongs under 'outbox' of a relay"
mkfifo pipe.yaml
out='' err=$(timeout 60 "$wherry" check pipe.yaml 2>&1)
status=$?
expect "a pipe is refused and not waited for" 1 "err:cannot read pipe.yaml"
head -c 200000 /dev/zero | tr '\0' '[' >deep.yaml
out='' err=$(timeout 60 "$wherry" check deep.yaml 2>&1)
status=$?
expect "many brackets are refused at once" 1 "err:brackets in each other"
w config --sample
printf '%s\n' "$out" >sample.yaml
w check sample.yaml
expect "the sample can be used" 0 "is:sample.yaml: 1 relay, fine"

finish
