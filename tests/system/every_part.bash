# Each part of Wherry once, on any server that speaks PostgreSQL's protocol.  The script that includes this
# defines:
#
#     url         of the database
#     ask SQL     prints the answer, one row a line
# shellcheck shell=bash disable=SC2034,SC2154

every_part() {
	part_of_outbox
	part_of_queue
	part_of_delayed
	part_of_cron
	part_of_inbox
}

part_of_outbox() {
	w create "$url"
	expect "an outbox is made" 0 "out:outbox 'outbox' is ready"
	w create "$url"
	expect "and made again" 0
	check "rows are written with SQL" ask "INSERT INTO outbox(topic, partition_key, payload)
		SELECT 't', 'k', json_build_object('n', i) FROM generate_series(1, 5) AS i"
	w relay "$url" stdout: --until-empty --timeout 60s
	json "a relay delivers them in order" '[m["body"]["n"] for m in l] == [1, 2, 3, 4, 5]'
	w relay "$url" 'exec:exit 65' --until-empty --timeout 60s
	ask "INSERT INTO outbox(topic, payload) VALUES ('t', '{\"dead\": 1}')"
	w relay "$url" 'exec:exit 65' --until-empty --timeout 60s
	w list "$url" --state dead --json
	json "a message dies" 'd["state"] == "dead"'
	w retry "$url" --all
	expect "and is retried" 0
	w seek "$url" 1
	expect "a subscription is moved" 0
	w relay "$url" stdout: --until-empty --timeout 60s
	json "all are delivered again" 'len(l) == 6'

	"$wherry" relay "$url" file:live.ndjson --lease 9s 2>live.log </dev/null 9>&- &
	relay=$!
	pids+=("$relay")
	check "a relay that stays leads" until_true 20 grep -q event=leading live.log
	check "and says that it polls" grep -q event=polls live.log
	"$wherry" relay "$url" file:live.ndjson --lease 9s 2>standby.log </dev/null 9>&- &
	standby=$!
	pids+=("$standby")
	for i in 1 2; do
		ask "INSERT INTO outbox(topic, payload) VALUES ('live', '{}')"
		check "message $i is found" until_true 20 lines live.ndjson "$i"
	done
	w pause "$url"
	expect "it is paused" 0
	w resume "$url"
	expect "and resumed" 0
	kill -KILL "$relay"
	ask "INSERT INTO outbox(topic, payload) VALUES ('live', '{}')"
	check "another relay follows when it is killed" until_true 20 lines live.ndjson 3
	kill "$standby"
	wait "$standby"
	check "and ends as it should" test $? -eq 0
	w status "$url" --json
	json "status counts" '(d["pending"], d["done"], d["dead"]) == (0, 9, 0)'
	w purge "$url" --older-than 0s --yes
	expect "delivered messages are purged" 0 "out:9"
	w doctor "$url"
	check "the doctor comes to its end" test "$status" -le 1
}

part_of_queue() {
	w create --kind queue "$url#jobs"
	expect "a queue is made" 0
	check "SQL sends" ask "SELECT wherry_send('jobs', '{\"n\": 1}'::text), wherry_send('jobs', '{\"n\": 2}'::text)"
	w send "$url#jobs" '{"n": 3}'
	expect "so does the command" 0
	w receive "$url#jobs"
	expect "a worker gets the first" 0 'out:{"n": 1}'
	check "SQL receives and acknowledges" is "$(ask "SELECT concat(body, wherry_ack('jobs', id, token))
		FROM wherry_receive('jobs')")" '{"n": 2}t'
	w relay "$url#jobs" stdout: --until-empty --timeout 60s
	json "a relay moves the rest of a queue" '[m["body"]["n"] for m in l] == [3]'
	w receive "$url#jobs" --wait 100ms
	expect "then it is empty" 1
}

part_of_delayed() {
	w create --kind delayed "$url"
	expect "delayed queues are made" 0
	w offer "$url#delayed/mail" now --key a
	expect "a message is offered" 0
	check "and one with SQL" is "$(ask "SELECT wherry_offer('mail', 'b', 'later'::text, delay => '1 hour')")" created
	w relay "$url#delayed/mail" stdout: --until-empty --timeout 60s
	json "a relay delivers the one that is due" '[m["key"] for m in l] == ["a"]'
	w offer "$url#delayed/mail" again --key a
	w poll "$url#delayed/mail" --limit 9 --json
	json "a consumer polls it" '[m["key"] for m in l] == ["a"]'
}

part_of_cron() {
	w create --kind cron "$url"
	expect "schedules are made" 0
	cat >cron.yaml <<-END
		cron:
		  - {database: '$url', name: tick, at: '@every 100ms', catch_up: all, outbox: {topic: tick}}
		  - {database: '$url', name: job, at: '@every 100ms', catch_up: all, queue: {name: jobs}}
	END
	"$wherry" run cron.yaml 2>cron.log </dev/null 9>&- &
	daemon=$!
	pids+=("$daemon")
	check "cron writes to the outbox" until_true 20 there 3 "SELECT count(*) FROM outbox WHERE topic = 'tick'"
	check "and to the queue" until_true 20 there 3 "SELECT count(*) FROM jobs"
	kill "$daemon"
	wait "$daemon"
	check "and ends as it should" test $? -eq 0
}

there() { # N SQL: does it answer that many or more?
	[ "$(ask "$2")" -ge "$1" ]
}

part_of_inbox() {
	w create --kind inbox "$url"
	expect "an inbox is made" 0
	check "it takes a message once" is "$(ask "SELECT wherry_accept('m1'), wherry_accept('m1')")" "t|f"
	w purge "$url#inbox" --older-than 0s --yes
	expect "ids are purged" 0
}
