#!/usr/bin/env bash
# What a command deletes or leases was printed whole; a command that could not print all of its result fails.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

url=sqlite:shop.db

# To a full disk; the output is lost, the exit status is not.
full() {
	out=
	"$wherry" "$@" >/dev/full 2>"$tmp/.err" </dev/null
	status=$?
	err=$(cat "$tmp/.err")
}

# large COMMAND...: the body that a command prints has 12 MB of control characters.
large() {
	"$wherry" "$@" --json 2>"$tmp/.err" </dev/null | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
bodies = [row.get("body") for row in rows]
sys.exit(0 if any(b and b.count("\x01") == 12000000 for b in bodies) else 1)'
	result $? "${*:1:2} prints 12 MB of control characters whole" "it does not"
}

w create $url
w create --kind queue $url#jobs
w create --kind delayed $url
head -c 12000000 /dev/zero | tr '\0' '\001' >body
w send $url#jobs small
expect "a message is sent" 0
w offer $url#delayed/mail one --key a
w offer $url#delayed/mail two --key b
w offer $url#delayed/mail three --key c
w_in '{"a":1}' enqueue --lines $url --topic t
w create --kind cron $url
w cron install $url#delayed/ticks tick '@hourly'

# ---- what could not be written counts no attempt ----

# counted TABLE: the attempts of each message, and its state.
counted() {
	"$wherry" list "$url#$1" --json | python3 -c '
import json, sys
for m in map(json.loads, sys.stdin):
    print(m.get("attempts"), m["state"])'
}
w create --kind delayed $url#library --layout funfix
for key in a b; do
	w offer $url#library/mail $key --key $key
done
for table in jobs delayed/mail library/mail; do
	take=poll
	[ "$table" != jobs ] || take=receive
	before=$(counted $table)
	for way in '>/dev/full' '>&-' '| :'; do
		for option in '' --json; do
			bash -c "set -o pipefail; trap '' PIPE; \"\$0\" $take $url#$table $option $way" "$wherry" >/dev/null 2>&1
			[ "$(counted $table)" = "$before" ]
			result $? "$take $option $way of $table counts no attempt" "$before, then $(counted $table)"
		done
	done
done

# ---- nothing is written, nothing is gone ----

full receive $url#jobs
expect "a body that could not be written is given back" 1 "err:was given back"
full receive $url#jobs --json
expect "in JSON, too" 1 "err:was given back"
w status $url#jobs --json
json "and the message is ready again" '(d["ready"], d["leased"]) == (1, 0)'
for form in '' --json; do
	full poll $url#delayed/mail --limit 3 $form
	expect "polled messages that could not be written are given back $form" 1 "err:were given back"
	w list $url#delayed/mail --json
	[ "$(grep -c '"leased"' <<<"$out")" = 0 ]
	result $? "and none is leased $form" "one is"
done
for command in "receive $url#jobs" "poll $url#delayed/mail --limit 3"; do
	# shellcheck disable=SC2086
	"$wherry" $command --json >&- 2>"$tmp/.err" </dev/null
	[ $? != 0 ]
	result $? "${command%% $url*} fails if standard output is closed" "it does not"
done
w status $url#jobs --json
json "and the message is there" '(d["ready"], d["leased"]) == (1, 0)'

for command in "list $url" "status $url" "show $url 1" "doctor $url" "tables $url" \
	"list $url#jobs --bodies" "list $url#jobs" "status $url#jobs" \
	"show $url#jobs 1" "list $url#delayed/mail" "show $url#delayed/mail a" \
	"status $url#delayed/mail" "cron list $url"; do
	for form in '' --json; do
		# shellcheck disable=SC2086
		full $command $form
		[ "$status" != 0 ] && [[ $err == *"cannot write to standard output"* ]]
		result $? "\`${command/ $url/}${form:+ $form}\` to a full disk fails" "it does not"
	done
done

# ---- whole ----

w poll $url#delayed/mail --limit 5 --json
json "each polled message has its line and its token" \
	'len(l) == 3 and all(m["token"] for m in l)'
w receive $url#jobs
expect "a small message is received" 0 "is:small"
w send $url#jobs --from body
large receive $url#jobs
w status $url#jobs --json
json "and what was printed is gone" '(d["ready"], d["leased"]) == (0, 0)'
finish
