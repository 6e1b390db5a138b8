# The commands of an operator on a delayed queue, for cli_delayed_operate.sh (SQLite) and
# postgres_delayed_operate.sh: they set db, the URL of the database, url, that of its delayed queue
# "mail", and doctor_status, the exit status of doctor where the queue is well.
# shellcheck shell=bash disable=SC2154

is_refused() {
	"$wherry" status "$url" | grep -q 'destination refuses'
}

operate() {
	local quoted=$url

	[[ $url != *[?\&]* ]] || quoted="'$url'"
	w create --kind delayed "$db"
	w status "$url"
	expect "an empty delayed queue is well" 0 "out:all is well: no message waits" \
		"out:table       delayed/mail in " "out:ready       0" "out:leased      0" \
		"out:waiting     0" "out:dead        0" \
		"out:relay       none so far; consumers that poll are not listed"
	w offer "$db#delayed/mail" '{"mail":1}' --key a
	w relay "$url" 'exec:echo no route >&2; exit 65' --until-empty --timeout 60s
	expect "a relay gives a message up" 3
	w status "$url"
	expect "status names the last relay" 0 "out:relay       none; the last was " ", stopped " \
		"out:1 message is dead: \`wherry list " "#delayed/mail" " --state dead" " shows why; remove the cause, then"
	w offer "$db#delayed/mail" '{"mail":2}' --key b
	w poll "$db#delayed/mail" --lease 1h
	w offer "$db#delayed/mail" '{"mail":3}' --key c --in 1h
	w offer "$db#delayed/mail" '{"mail":4}' --key d
	w status "$url" --json
	json "status counts the messages" '(d["table"], d["kind"], d["layout"], d["ready"], d["leased"],
		d["waiting"], d["dead"], d["next_us"], d["paused"], d["relays"]) ==
		("delayed/mail", "delayed", "native", 1, 1, 1, 1, 0, False, []) and len(d["warnings"]) == 1'

	w doctor "$url"
	expect "doctor names dead messages, with the command that retries them" "$doctor_status" \
		"out:of key 'a' is dead after 1 attempt: " "\`wherry retry "
	w doctor "$url" --older-than 1ms
	expect "and messages that nobody polls" "$doctor_status" \
		"out:1 message is due, the first for" "out:\`wherry help relay\` shows how to start one"
	w doctor "$url" a
	expect "a dead message is explained by its key" 1 "out:of key 'a' is dead after 1 attempt"
	w doctor "$url" b
	expect "and one that is leased" "$doctor_status" "out:of key 'b' is leased for" "in attempt 1"
	w doctor "$url" c
	expect "and one that waits" "$doctor_status" "out:of key 'c' is due in 59m"
	w doctor "$url" nobody
	expect "and one that is not there" 1 "out:delayed queue 'mail' has no message of key 'nobody'"
	w doctor "$url" --json
	json "doctor prints JSON" '(d["table"], d["kind"]) == ("delayed/mail", "delayed") and [f["level"] for f in d["findings"]
		if f["check"] == "destination"] == ["ok"]'

	w pause "$url"
	expect "a delayed queue is paused" 0 "out:delayed queue 'mail' is paused" "err:action=pause" \
		"err:table=delayed/mail"
	w status "$url"
	expect "which status says" 0 \
		"out:the delayed queue is paused: relays deliver nothing until \`wherry resume $quoted\`" \
		"(paused)"
	w doctor "$url"
	expect "and doctor" 1 "out:the delayed queue is paused: relays deliver nothing"
	w relay "$url" stdout: --until-empty --timeout 2s
	expect "a relay delivers nothing" 5 'no:"mail"'
	w offer "$db#delayed/post" '{"post":1}' --key a
	w relay "${url%mail}post" stdout: --until-empty --timeout 60s
	expect "but other queues of the table are relayed" 0 'out:"post"'
	printf 'relays:\n  - name: letters\n    from: %s\n    to: "stdout:"\n' "'$url'" >wherry.yaml
	w resume letters --json
	json "a queue is resumed, by the name of its relay" 'd == {"paused": False}'
	w status letters
	expect "and status takes the name, too" 0 "out:table       delayed/mail in " "no:paused"
	rm wherry.yaml
	w discard "$db#delayed/mail" b --yes
	w relay "$url" stdout: --until-empty --timeout 60s
	expect "then the relay delivers" 0 'out:"mail":4'
	statement "UPDATE delayed_dead SET payload = @BODY@ WHERE \"pKey\" = 'a'"
	w retry "$db#delayed/mail" --all
	expect "a dead message is retried" 0 "out:1 message is ready again"
	w show "$db#delayed/mail" a
	expect "with the body that was corrected" 0 "out:corrected"
	w discard "$db#delayed/mail" a --yes
	w purge "$url" --older-than 1h
	expect "a command that is not for delayed queues names another" 2 "err:messages that were handled are deleted at once"

	"$wherry" relay "$url" http://127.0.0.1:1/ >relay.log 2>&1 &
	pids+=($!)
	w offer "$db#delayed/mail" '{"mail":5}' --key e
	until_true 30 is_refused
	w status "$url"
	expect "a destination that refuses is the first line" 0 "out:destination refuses" "out:relay       "
	w doctor "$url"
	expect "also for doctor" 1 "out:destination refuses"
}
