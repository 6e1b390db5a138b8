#!/usr/bin/env bash
# The program and receivers of webhooks, in processes of their own.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"

export NO_PROXY='*'

if [[ $("$wherry" relay x: y: 2>&1) != *https:* ]]; then
	skip "webhooks" "this program is built without WHERRY_HTTP"
	finish
fi

# judge MESSAGES KEYS: all arrived, each key in order once duplicates are dropped, and there
# are not too many of these.
judge() {
	python3 - log "$1" "$2" <<'PYTHON'
import json, sys

first, lines = {}, 0
for line in open(sys.argv[1], encoding="utf-8"):
    if not line.endswith("\n"):
        continue  # the receiver was killed
    entry = json.loads(line)
    lines += 1
    first.setdefault(entry["headers"]["idempotency-key"], json.loads(entry["body"]))
keys = {}
for body in first.values():
    keys.setdefault(body["k"], []).append(body["n"])
assert len(first) == int(sys.argv[2]), f"{len(first)} messages arrived"
assert len(keys) == int(sys.argv[3]), f"{len(keys)} keys"
for key, numbers in keys.items():
    assert numbers == sorted(numbers), f"key {key} is out of order: {numbers}"
assert lines <= int(sys.argv[2]) + 4 * 1000, f"{lines} requests"
PYTHON
}

# ---- nothing is lost, whatever is killed ----

messages=10000 keys=100
w init sqlite:a.db
python3 -c "
for i in range($messages):
    print('{\"k\": \"%d\", \"n\": %d}' % (i % $keys, i))" >messages.ndjson
w enqueue sqlite:a.db --topic t --key /k --from messages.ndjson
expect "messages are enqueued" 0 "out:$messages enqueued"

relay() {
	"$wherry" relay sqlite:a.db "http://127.0.0.1:$port/hook" --until-empty --lease 1s \
		--set retry.base=100ms --set retry.attempts=100 "$@" 2>>relay.log &
	relay_pid=$!
	pids+=("$relay_pid")
}

receive --log log
for at in 1500 4000 7500; do
	relay
	check "a relay delivers $at messages" until_true 60 lines log "$at"
	kill -KILL "$relay_pid"
	wait "$relay_pid" 2>/dev/null
done
relay
check "another takes over" until_true 60 lines log 8500
kill_receiver
check "it sees that the receiver is gone" until_true 20 grep -q destination-down relay.log
receive --log log --port "$port"
wait "$relay_pid"
check "and delivers the rest once that is back" is $? 0
check "all have arrived, in order per key" judge $messages $keys
check "and nothing is open" is "$(sql a.db "SELECT count(*) FROM outbox WHERE status <> 2")" 0

# ---- what cannot work is the destination's fault: nothing is lost, nobody buried ----

states() { # STATUS: how many messages have it
	sql b.db "SELECT count(*) FROM outbox WHERE status = $1"
}

secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
kill_receiver
receive --log log2 --answer 401 --secret "$secret"
w init sqlite:b.db
printf '{"n":%d}\n' 1 2 3 4 5 6 7 8 >few.ndjson
w enqueue sqlite:b.db --topic t --from few.ndjson
HOOK_SECRET=$secret "$wherry" relay sqlite:b.db "http://u:hunter2@127.0.0.1:$port/{topic}" \
	--until-empty --set webhook.secret=env:HOOK_SECRET 2>relay2.log &
relay_pid=$!
pids+=("$relay_pid")
check "wrong credentials are told" until_true 20 grep -q 'destination-down why="HTTP 401' relay2.log
check "and cost no message an attempt" is \
	"$(sql b.db "SELECT max(attempts), min(status), max(status) FROM outbox")" "0|0|0"
kill_receiver
receive --log log2 --port "$port" --secret "$secret"
wait "$relay_pid"
check "once they are right all is delivered" is "$? $(states 2)" "0 8"
check "signed, to the path of its topic" is \
	"$(grep -c '"request": "POST /t HTTP/1.1".*"signed": true' log2)" "$(grep -c . log2)"
check "no secret is told" is "$(grep -c "hunter2\|$secret\|MfKQ9r8GKY" relay2.log)" 0

make_certificate own IP:127.0.0.1 -days 2
kill_receiver
receive --log log3 --cert own.pem --key own.key
w enqueue sqlite:b.db --topic t --from few.ndjson
w relay sqlite:b.db "https://127.0.0.1:$port/" --until-empty --timeout 1s
expect "a certificate that nobody vouches for is refused" 5 "err:destination-down" "err:certificate"
check "before anything is sent" test ! -s log3
w relay sqlite:b.db "https://127.0.0.1:$port/" --until-empty --set webhook.ca_file=own.pem
expect "and taken where it is trusted" 0 "err:8 delivered"

w relay sqlite:b.db "https://127.0.0.1:$port/{key}" --until-empty
expect "a URL that means nothing is refused" 2 "err:{key}" "err:{topic} does"
w relay sqlite:b.db "https://127.0.0.1:$port/" --until-empty --set webhook.secret=env:NO_SUCH
expect "and a secret that is not there" 1 "err:NO_SUCH is not set"

# ---- dead letters, to another receiver ----

kill_receiver
receive --log log4 --answer '422 body=bad_shape'
dead=$port
receive --log log5
w enqueue sqlite:b.db --topic t --key /n --from few.ndjson
w relay sqlite:b.db "http://127.0.0.1:$dead/" --dead-letters "http://127.0.0.1:$port/dead" \
	--until-empty
expect "what is rejected leaves letters" 3 "err:8 dead"
out=$(cat log5)
json "that say why" \
	'len(l) == 8 and all(m["headers"]["wherry-dead-error"] == "HTTP 422: bad shape" and
	 m["headers"]["wherry-dead-attempts"] == "1" and
	 m["headers"]["wherry-dead-id"] == m["headers"]["idempotency-key"] for m in l)'
w list sqlite:b.db --state dead
expect "and can be retried" 0 "out:HTTP 422: bad shape"

# ---- what is known before ----

cat >bad.yaml <<'END'
defaults:
  webhook:
    secret: file:/no/such
relays:
  - name: c
    from: sqlite:c.db
    to: https://u:hunter2@example.com/
  - name: d
    from: sqlite:d.db
    to: 'null:'
    dead_letters: https://u:hunter2@example.com/{key}
    webhook: {secret: env:HOOK_SECRET}
END
HOOK_SECRET=$secret w check bad.yaml
expect "check says of a secret that it is not there, and of dead letters that they cannot go" 1 \
	"err:bad.yaml:3:13: to: webhook.secret: cannot read the file '/no/such'" \
	"err:bad.yaml:11:19: dead_letters: '{key}'" "no:hunter2"

# ---- what a daemon tells of them ----

for name in c d; do
	"$wherry" init "sqlite:$name.db" >/dev/null
	"$wherry" enqueue "sqlite:$name.db" --topic t --from few.ndjson >/dev/null
done
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
relays:
  - {name: c, from: 'sqlite:c.db', to: 'http://127.0.0.1:$port/'}
  - {name: d, from: 'sqlite:d.db', to: 'http://127.0.0.1:$dead/'}
END
start_daemon wherry.yaml
metrics "/metrics count a web server's answers by class" \
	'v("wherry_webhook_answers_total", relay="c", **{"class": "2xx"}) == 8
	 and v("wherry_webhook_answers_total", relay="d", **{"class": "4xx"}) == 8
	 and v("wherry_webhook_answers_total", relay="d", **{"class": "2xx"}) == 0'
metrics "and connections, and bytes" \
	'v("wherry_webhook_connections_total", relay="c") > 0
	 and v("wherry_webhook_bytes_total", relay="c") == 8 * len("{\"n\":1}")'
stop_daemon
finish
