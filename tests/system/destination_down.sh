#!/usr/bin/env bash
# A receiver is down for a while: status, show, doctor, /readyz and /metrics say so alike, and
# why, where to, and since when; and that it is over.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"
# shellcheck source=tests/system/webhook.bash
. "$source_dir/tests/system/webhook.bash"

start_receiver log.receiver

cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
relays:
  - name: hook
    from: sqlite:a.db
    to: http://u:hunter2@127.0.0.1:$port/hook?token=hunter2
    retry: {base: 100ms, cap: 500ms}
END
to=http://127.0.0.1:$port
receiver_port=$port

# The first line of status, which PATTERN is to match.
status_begins() { # PATTERN
	"$wherry" status sqlite:a.db | head -1 | grep -Eq "^$1"
}

w create sqlite:a.db
start_daemon wherry.yaml
daemon_port=$port
printf '{"n":%d}\n' 1 2 3 >three.ndjson
w enqueue --lines sqlite:a.db --topic t --from three.ndjson
until_true 20 metric 'v("wherry_delivered_total", relay="hook") == 3'
check "status says that all is well" until_true 20 status_begins 'all is well'
w status sqlite:a.db
expect "and in which state the relay is, and where it delivers to" 0 \
	"out:state       leading for " "out:destination $to"

# ---- down ----

kill_receiver
w enqueue --lines sqlite:a.db --topic t --from three.ndjson
check "status begins with what is wrong, where, since when and what waits" until_true 20 \
	status_begins "warning +destination refuses: .*onnect.*, to $to for [0-9a-z. ]+; 3 messages wait"
w status sqlite:a.db
expect "it shows the state, the last delivery and the last error" 0 "out:state       retrying for " \
	"out:delivered   3 by this relay, the last " "out:last error  " "no:hunter2"
w status sqlite:a.db --json
json "and so does its JSON" \
	"[(r['state'], r['destination'], r['delivered'], 'onnect' in r['last_error'],
	 0 <= r['last_error_us'] < 20000000, r['state_us'] >= 0, r['last_delivery_us'] > 0) for r in d['relays']]
	 == [('retrying', '$to', 3, True, True, True, True)] and 'destination refuses' in d['warnings'][0]"
w show sqlite:a.db 6
expect "show says why a message has not left" 0 "out:destination refuses: " "out:, to $to for " \
	"no:hunter2"
w doctor sqlite:a.db 6
expect "so does doctor, of a message" 1 "out:destination refuses: " "out:, to $to for "
w doctor sqlite:a.db
expect "and of the outbox" 1 "out:destination refuses: " "out:, to $to for " \
	"out:repair the destination"
get /readyz
expect "and /readyz" 503 "out:hook not ready: destination refuses: " "out:, to $to for " "no:hunter2"
metrics "and /metrics" 'v("wherry_state", relay="hook", state="retrying") == 1 and
	v("wherry_state", relay="hook", state="leading") == 0 and
	v("wherry_destination_up", relay="hook") == 0 and
	v("wherry_state_seconds", relay="hook") >= 0 and
	v("wherry_last_error_seconds", relay="hook") >= 0 and
	v("wherry_last_delivery_seconds", relay="hook") > 0'
until_true 20 grep -q 'event=destination-refuses' "$tmp/log"
out=$(cat "$tmp/log") err='' status=0
expect "the log says why, without a secret" 0 'out:event=destination-down why=' \
	'out:event=destination-refuses probes=' "no:hunter2"
check "and says it again only now and then" \
	test "$(grep -c 'event=destination-refuses\|event=delivery-failed' "$tmp/log")" -le 3

# ---- an endpoint that answers, with nothing but errors ----

receive --log log.receiver --port "$receiver_port" --answer '404 body=no_such_path'
port=$daemon_port
check "a reason that changes is the one that is shown" until_true 20 \
	status_begins 'warning +destination refuses: HTTP 404: no such path, to '
w list sqlite:a.db --state dead
expect "no message is dead" 0 "no:404"

# ---- up again ----

kill_receiver
receive --log log.receiver --port "$receiver_port"
port=$daemon_port
check "status says that all is well again" until_true 30 \
	status_begins 'all is well: every message is delivered'
until_true 20 metric 'v("wherry_state", relay="hook", state="leading") == 1'
w status sqlite:a.db --json
json "with the last error still there" \
	"d['relays'][0]['state'] == 'leading' and d['warnings'] == [] and
	 ('404' in d['relays'][0]['last_error'] or 'onnect' in d['relays'][0]['last_error'])"
get /readyz
expect "/readyz agrees" 200 "is:hook ready: leading"
w pause sqlite:a.db
metrics "a paused relay says so" 'v("wherry_state", relay="hook", state="paused") == 1'
stop_daemon
w status sqlite:a.db --json
json "a relay that is stopped has said so" "d['relays'] == [] and d['last_relay']['state'] == 'stopped'"

finish
