#!/usr/bin/env bash
# The program and receivers of webhooks, in processes of their own.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"
# shellcheck source=tests/system/webhook.bash
. "$source_dir/tests/system/webhook.bash"

start_receiver log

# ---- nothing is lost, whatever is killed ----

w create sqlite:a.db
deliver_with_kills sqlite:a.db "$hook"

# ---- what cannot work is the destination's fault: nothing is lost, nothing dead ----

secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
kill_receiver
receive --log log2 --answer 401 --secret "$secret"
w create sqlite:b.db
printf '{"n":%d}\n' 1 2 3 4 5 6 7 8 >few.ndjson
w enqueue --lines sqlite:b.db --topic t --from few.ndjson
HOOK_SECRET=$secret "$wherry" relay sqlite:b.db "http://u:hunter2@127.0.0.1:$port/{topic}" \
	--until-empty --set webhook.secret=env:HOOK_SECRET 2>relay2.log &
relay_pid=$!
pids+=("$relay_pid")
check "wrong credentials are told" until_true 20 grep -q 'destination-down why="HTTP 401' relay2.log
check "and cost no message an attempt" is \
	"$("$wherry" list sqlite:b.db --state pending,failed --json | grep -c '"attempts":0,')" 8
kill_receiver
receive --log log2 --port "$port" --secret "$secret"
wait "$relay_pid"
check "once they are right all is delivered" is "$? $(state_count sqlite:b.db done)" "0 8"
check "signed, to the path of its topic" is \
	"$(grep -c '"request": "POST /t HTTP/1.1".*"signed": true' log2)" "$(grep -c . log2)"
check "no secret is told" is "$(grep -c "hunter2\|$secret\|MfKQ9r8GKY" relay2.log)" 0

make_certificate own IP:127.0.0.1 -days 2
kill_receiver
receive --log log3 --cert own.pem --key own.key
w enqueue --lines sqlite:b.db --topic t --from few.ndjson
w relay sqlite:b.db "https://127.0.0.1:$port/" --until-empty --timeout 1s
expect "a certificate that nobody vouches for is refused" 5 "err:destination-down" "err:certificate"
check "before anything is sent" test ! -s log3
w relay sqlite:b.db "https://127.0.0.1:$port/" --until-empty --set webhook.ca_file=own.pem
expect "and taken where it is trusted" 0 "err:8 delivered"

w relay sqlite:b.db "https://127.0.0.1:$port/{key}" --until-empty
expect "a URL that means nothing is refused" 2 "err:stands for nothing" "err:{topic} does"
w relay sqlite:b.db "https://127.0.0.1:$port/" --until-empty --set webhook.secret=env:NO_SUCH
expect "and a secret that is not there" 1 "err:NO_SUCH is not set"

# ---- dead letters, to another receiver ----

kill_receiver
receive --log log4 --answer '422 body=bad_shape'
dead=$port
receive --log log5
head -4 few.ndjson >four.ndjson
w enqueue --lines sqlite:b.db --topic t --key /n --from four.ndjson
w relay sqlite:b.db "http://127.0.0.1:$dead/" --dead-letters "http://127.0.0.1:$port/dead" \
	--until-empty --set retry.attempts=1
expect "what is rejected leaves letters" 3 "err:4 dead"
out=$(cat log5)
json "that say why" \
	'len(l) == 4 and all(m["headers"]["wherry-dead-error"] == "HTTP 422: bad shape" and
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
	"err:bad.yaml:11:19: dead_letters: a '{' in the URL stands for nothing" "no:hunter2"

# ---- what a daemon tells of them ----

for name in c d; do
	"$wherry" create "sqlite:$name.db" >/dev/null
	"$wherry" enqueue --lines "sqlite:$name.db" --topic t --from few.ndjson >/dev/null
done
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
relays:
  - {name: c, from: 'sqlite:c.db', to: 'http://127.0.0.1:$port/'}
  - {name: d, from: 'sqlite:d.db', to: 'http://127.0.0.1:$dead/', retry: {base: 20ms}}
END
start_daemon wherry.yaml
metrics "/metrics count a web server's answers by class" \
	'v("wherry_webhook_answers_total", relay="c", **{"class": "2xx"}) == 8
	 and v("wherry_webhook_answers_total", relay="d", **{"class": "4xx"}) >= 8
	 and v("wherry_webhook_answers_total", relay="d", **{"class": "2xx"}) == 0'
metrics "and connections, and bytes" \
	'v("wherry_webhook_connections_total", relay="c") > 0
	 and v("wherry_webhook_bytes_total", relay="c") == 8 * len("{\"n\":1}")'
stop_daemon
finish
