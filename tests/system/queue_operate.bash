# The commands of an operator on a queue, for cli_queue_operate.sh (SQLite) and
# postgres_queue_operate.sh: they set db, the URL of the database, url, that of its queue "jobs", and
# doctor_status, the exit status of doctor where the queue is well.
# shellcheck shell=bash disable=SC2154

# Have every message of the queue refused until it is dead.
refuse_all() {
	w relay "$url" 'exec:echo no route >&2; exit 65' --until-empty --timeout 60s
}

operate() {
	local quoted=$url

	[[ $url != *[?\&]* ]] || quoted="'$url'"
	w create --kind queue "$db#jobs"
	w status "$url"
	expect "an empty queue is well" 0 "out:all is well: no message waits" "out:table       jobs in " \
		"out:ready       0" "out:leased      0" "out:waiting     0" "out:dead        0" \
		"out:relay       none so far; workers that receive are not listed"
	w send "$db#jobs" '{"job":1}' --id m1
	w send "$db#jobs" '{"job":2}' --id m2
	refuse_all
	expect "a relay gives two messages up" 3
	w status "$url"
	expect "status names the last relay" 0 "out:relay       none; the last was " ", stopped "
	w send "$db#jobs" '{"job":3}' --id m3 --reply-to answers
	w receive "$db#jobs" --lease 1h
	w send "$db#jobs" '{"job":4}' --id m4 --in 1h
	w send "$db#jobs" '{"word":"needle"}' --id m5

	w status "$url"
	expect "status warns of dead messages, with commands to paste" 0 \
		"out:2 messages are dead: \`wherry list $quoted --state dead\` shows why; remove the cause, then \`wherry retry $quoted --all\`" \
		"out:ready       1, the oldest for" "out:leased      1" "out:waiting     1" "out:dead        2" "no:all is well"
	w status "$url" --json
	json "and in JSON" '(d["table"], d["layout"], d["ready"], d["leased"], d["waiting"], d["dead"]) ==
		("jobs", "native", 1, 1, 1, 2) and d["oldest_ready_us"] >= 0 and len(d["warnings"]) == 1'

	w list "$url" --json
	json "list shows dead messages first, then the others in their order" \
		'[(m["message_id"], m["state"]) for m in l] ==
		[("m1", "dead"), ("m2", "dead"), ("m3", "leased"), ("m4", "waiting"), ("m5", "ready")]
		and l[0]["last_error"] and l[0]["attempts"] == 1 and l[2]["reply_to"] == "answers"
		and l[3]["available_at"] and l[0]["topic"] == "jobs" and "body" not in l[0]'
	w list "$url"
	expect "as a table" 0 "out:ID  STATE" "out:TOPIC" "out:m1" "no:KEY"
	w list "$url" --state waiting,ready --json
	json "states choose" '[m["message_id"] for m in l] == ["m4", "m5"]'
	w list "$url" --state failed
	expect "by the names that a queue has" 2 "err:ready, leased, waiting or dead"
	w list "$url" --state raedy
	expect "a slip is corrected" 2 "err:did you mean 'ready'"
	w list "$url" --text needle --json
	json "texts choose, also of the body" '[m["message_id"] for m in l] == ["m5"]'
	w list "$url" --text 'no route' --json
	json "and of the last error" '[m["message_id"] for m in l] == ["m1", "m2"]'
	w list "$url" --topic 'job*' --since 1h --json
	json "topic and age choose" 'len(l) == 5'
	w list "$url" --topic other
	expect "or choose none" 0 "is:" "err:no messages"
	w list "$url" --limit 2
	expect "a cut list says how to go on" 0 "err:there are more: \`wherry list $quoted --limit 2 --after 2\`"
	w list "$url" --limit 2 --after 2 --json
	json "and the next page goes on in the same order" '[m["message_id"] for m in l] == ["m3", "m4"]'
	w list "$url" --topic 'job*' --state ready,dead --limit 1
	expect "with the conditions that were given" 0 \
		"err: --topic 'job*' --state ready,dead --limit 1 --after 1\`"
	w list "$url" --all --limit 2 --json
	expect "by id, the next page" 0 "err: --after 2\`"
	w list "$url" --after 2 --json
	json "the next page" '[m["message_id"] for m in l] == ["m3", "m4", "m5"]'
	w list "$url" --key k
	expect "a queue has no keys" 2 "err:--key: a queue has no keys"
	w list "$url" --before 3
	expect "nor pages downwards" 2 "err:--before" "err:--after ID"

	w show "$url" m1
	expect "show says why a message is dead, and how to retry it" 0 "out:state:          dead" \
		"out:given up after 1 attempt: " "out:\`wherry retry $quoted 1\`" 'out:"job": 1'
	w show "$url" 4
	expect "when a delayed one is due" 0 "out:it is delayed, and due in 59m" "out:due: "
	w show "$url" 3
	expect "that one is leased" 0 "out:a receiver has leased it" "out:leased until:" "out:reply_to:       answers"
	w show "$url" m5 --json
	json "in JSON with the body" 'd["body"] == {"word": "needle"} and d["state"] == "ready"
		and "it is ready" in d["why"] and d["message_id"] == "m5"'
	w show "$url" m77
	expect "a message that is not there is named" 1 "err:there is no message 'm77' in queue 'jobs'"

	w doctor "$url"
	expect "doctor names dead messages, and what to do" "$doctor_status" "out:message 1 is dead after 1 attempt: " \
		"out:remove the cause, then \`wherry retry $quoted 1\`" "out:checks found nothing"
	w doctor "$url" --verbose --older-than 0s
	expect "and what is ready for long" "$doctor_status" "out:1 message is ready, the oldest for" \
		"out:a worker, or a relay: \`wherry help relay\` shows how to start one" \
		"out:the tables, indexes and triggers of the queue are there" "out:no lease is over"
	w doctor "$url" m1 --json
	json "a message that is asked for is explained" '(d["table"], d["kind"]) == ("jobs", "queue") and d["bad"] >= 1 and
		[f["what"] for f in d["findings"] if f["check"] == "message"][0].startswith(
		"message 1 (m1) is dead: given up after 1 attempt")'
	[ "$status" = 1 ]
	result $? "a dead one is bad" ""
	w doctor "$url" m77
	expect "a message that is not there, too" 1 "out:there is no message 'm77' in queue 'jobs'"
	end_leases
	w doctor "$url"
	expect "a lease that is over is found" "$doctor_status" "out:the lease of 1 message is over, of message 3 for"
	w show "$url" 3
	expect "and shown" 0 "out:nobody acknowledged it"

	w retry "$url" m3
	expect "only a dead message is retried" 1 "err:message m3 is leased, not dead"
	w retry "$url"
	expect "which one must be said" 2 "err:none is named"
	w retry "$url" m1 --state failed
	expect "another state is refused" 2 "err:--state failed: in a queue only dead messages"
	w retry "$url" --key k
	expect "and a key" 2 "err:--key: a queue has no keys"
	statement "UPDATE jobs SET body = '{\"n\":\"corrected\"}' WHERE message_id = 'm1' AND state = 4"
	w retry "$url" m1
	expect "a dead one is ready again" 0 "out:1 message is ready again" "err:action=retry" "err:table=jobs"
	w show "$url" m1 --json
	json "with the body that was corrected" 'd["body"] == {"n": "corrected"}'
	w retry "$url" --topic other --json
	json "a topic chooses none" 'd["retried"] == 0'
	w retry "$url" --topic jobs --json
	json "or those that are dead" 'd["retried"] == 1'
	refuse_all
	w retry "$url" --all --json
	json "or all" 'd["retried"] >= 3'

	w discard "$url" m2
	expect "discard asks" 2 "err:--yes"
	w discard "$url" m2 4 m77 --yes
	expect "and deletes, with a line for each" 1 "out:2 messages discarded" "err:event=operator action=discard " \
		"err:table=jobs id=4 state=waiting" "err:there is no message 'm77'"
	w list "$url" --json
	json "they are gone" '[m["message_id"] for m in l] == ["m1", "m3", "m5"]'
	break_index
	w doctor "$url"
	expect "a missing index is bad, with the SQL that repairs it" 1 "out:the index " "out:is missing" \
		"out:CREATE INDEX IF NOT EXISTS"
	w create --kind queue "$db#jobs"

	w pause "$url"
	expect "a queue is paused" 0 "out:queue 'jobs' is paused" "err:action=pause" "err:table=jobs"
	w status "$url"
	expect "which status says" 0 "out:the queue is paused: relays deliver nothing until \`wherry resume $quoted\`" \
		"out:table       jobs in " "(paused)"
	w doctor "$url"
	expect "and doctor" 1 "out:the queue is paused: relays deliver nothing"
	w relay "$url" stdout: --until-empty --timeout 2s
	expect "a relay delivers nothing" 5 "no:\"job\""
	w resume "$url" --json
	json "a queue is resumed" 'd == {"paused": False}'
	w status "$url" --json
	json "and status says that, too" 'd["paused"] is False and d["relays"] == []'
	w purge "$url" --older-than 1h --yes
	expect "for purge the command for queues is named" 2 "err:messages that were handled are deleted at once"
	w create --kind outbox "$url"
	expect "create refuses a table with another purpose" 2 "err:with another purpose"
	w_in '{}' enqueue --lines "$url" --topic t
	expect "and for enqueue" 2 "err:use \`wherry send "

	printf 'relays:\n  - name: errands\n    from: %s\n    to: "stdout:"\n' "'$url'" >wherry.yaml
	w list errands --json
	json "the name of a relay in wherry.yaml stands for its queue" '[m["message_id"] for m in l] == ["m1", "m3", "m5"]'
	w show errands m1
	expect "and commands to paste name it so" 0 "out:\`wherry help relay\` shows how to start one"
	w status errands --json
	json "also for status" 'd["ready"] == 3'
	rm wherry.yaml
}
