# Whether status, list, discard and purge count the same messages: for each state of each model, on SQLite and
# on PostgreSQL.
#
# The caller sets db, past and future, two times as SQL of its database, and defines put(), which runs SQL.
# shellcheck shell=bash disable=SC2154

# counted URL STATE: what status, list and discard say of a state.
counted() {
	"$wherry" status "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$2"
	"$wherry" list "$1" --state "$2" --json | wc -l
	"$wherry" discard "$1" --state "$2" --dry-run --json 2>/dev/null | grep -o '[0-9]\+'
}

# agree WHAT URL STATE N [keeps]: they all say N; keeps: discard takes no messages by this state.
agree() {
	local what=$1 url=$2 state=$3 number=$4 wanted="$4 $4 $4"
	[ "${5-}" != keeps ] || wanted="$4 $4"
	check "$what: status, list and discard count $number $state" is "$(counted "$url" "$state" | xargs)" "$wanted"
}

# same WHAT TEXT COMMAND...: the command does what its dry run said, which is TEXT.
same() {
	local what=$1 text=$2 planned
	shift 2
	w "$@" --dry-run --json
	planned=$out
	check "$what: the dry run of $1 counts" is "$planned" "${text%\}},\"dry_run\":true}"
	w "$@" --yes --json
	expect "$what: and $1 does that" 0 "is:$text"
}

# both_refuse WHY COMMAND...: the command fails, and its dry run fails the same way.
both_refuse() {
	local why=$1 failed first
	shift
	w "$@" --yes
	failed=$status
	first=$(grep -m 1 '^wherry: ' <<<"$err")
	check "$why: $* fails" test "$failed" != 0
	w "$@" --dry-run
	expect "$why: and so does its dry run" "$failed" "err:$first" "no:event="
}

# Every command that deletes a part of the tables of furnish_all().
deletions() { # URL
	cat <<-END
		discard $1 2
		discard $1 --state dead
		discard $1 --all
		purge $1 --older-than 1h
		discard $1#jobs 1
		discard $1#jobs --state dead
		discard $1#jobs --all
		discard $1#delayed/mail b
		discard $1#delayed/mail --state dead
		discard $1#delayed/mail --all
		inbox forget $1 --message m1
		purge $1#inbox --older-than 1h
		cron uninstall $1#delayed/mail report @daily
		cron forget $1 report
	END
}

drops() { # URL
	printf 'drop %s\n' "$1" "$1#jobs" "$1#delayed" "$1#inbox"
}

# Make something for each of these; $past is a time of long ago, and put() runs SQL.
furnish_all() {
	local mail="$1#delayed/mail" i token
	"$wherry" create "$1"
	printf '{"n":1}\n{"n":2}\n' | "$wherry" enqueue --lines "$1" --topic t --key /n
	"$wherry" relay "$1" 'exec:test $WHERRY_ID = 1 || exit 65' --until-empty
	"$wherry" enqueue "$1" '{}' --topic t
	put "UPDATE outbox SET created_at = $past WHERE id = 1"
	"$wherry" create --kind queue "$1#jobs"
	for i in 1 2; do "$wherry" send "$1#jobs" "{\"n\":$i}"; done
	put "UPDATE jobs SET state = 4 WHERE id = 1"
	"$wherry" create --kind delayed "$1"
	for key in a b; do "$wherry" offer "$mail" hi --key $key; done
	token=$("$wherry" poll "$mail" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
	"$wherry" nack "$mail" "$token" --dead
	"$wherry" create --kind inbox "$1"
	put "INSERT INTO inbox(consumer, message_id, accepted_at) VALUES ('', 'm1', $past)"
	"$wherry" create --kind cron "$1"
	"$wherry" cron install "$mail" report @daily
} >/dev/null 2>&1

# refused_alike WHY LIST...: every command of the list.
refused_alike() {
	local why=$1 command words
	shift
	while read -r command; do
		read -ra words <<<"$command"
		both_refuse "$why" "${words[@]}"
	done < <("$@")
}

discards() { # WHAT URL STATE N
	same "$1: $3" "{\"discarded\":$4}" discard "$2" --state "$3"
}

count_outbox() {
	w create "$db#events"
	seq 9 | "$wherry" enqueue "$db#events" --lines --topic t >/dev/null
	w relay "$db#events" 'exec:test $WHERRY_ID -le 3 || exit 65' --until-empty
	seq 2 | "$wherry" enqueue "$db#events" --lines --topic t >/dev/null
	put "UPDATE events_exception SET state = 3, next_retry_at = $future WHERE id IN (4, 5);
		UPDATE events SET created_at = $past WHERE id <= 5"
	agree outbox "$db#events" pending 2
	agree outbox "$db#events" processing 0
	agree outbox "$db#events" done 3 keeps
	agree outbox "$db#events" failed 2
	agree outbox "$db#events" dead 4
	same outbox '{"purged":3}' purge "$db#events" --older-than 1h
	discards outbox "$db#events" pending 2
	discards outbox "$db#events" failed 2
	discards outbox "$db#events" dead 4
	check "outbox: nothing is left" is "$(put 'SELECT count(*) FROM events')" 0
}

fill_queue() { # Of each state one is expired.
	put "INSERT INTO jobs(body, state, expires_at) VALUES ('1', 0, NULL), ('2', 0, $future), ('3', 0, $past);
		INSERT INTO jobs(body, state, available_at, expires_at, lease_token) VALUES
			('4', 1, $future, NULL, 'x'), ('5', 1, $future, $past, 'x'), ('6', 1, $past, $past, 'x'),
			('7', 3, $future, NULL, NULL), ('8', 3, $future, $past, NULL);
		INSERT INTO jobs(body, state, expires_at) VALUES ('9', 4, NULL), ('10', 4, $past)"
}

count_queue() {
	w create "$db#jobs" --kind queue
	fill_queue
	agree queue "$db#jobs" ready 3
	agree queue "$db#jobs" leased 3 keeps
	agree queue "$db#jobs" waiting 2
	agree queue "$db#jobs" dead 2
	w status "$db#jobs" --json
	json "queue: status counts the expired ones that nobody holds" 'd["expired"] == 3'
	w status "$db#jobs"
	expect "queue: and says what becomes of them" 0 "out:expired     3 of these, which receivers delete"
	for i in 1 2 3; do
		w receive "$db#jobs" --lease 1h
	done
	w status "$db#jobs" --json
	json "queue: and receivers delete them" 'd["expired"] == 0 and d["ready"] == 0 and d["leased"] == 4'
	put 'DELETE FROM jobs'
	fill_queue
	same "queue" '{"discarded":7}' discard "$db#jobs" --all
	put 'DELETE FROM jobs'
	fill_queue
	discards queue "$db#jobs" ready 3
	discards queue "$db#jobs" waiting 2
	discards queue "$db#jobs" dead 2
	same queue '{"messages":3}' drop "$db#jobs"
}

count_delayed() {
	local mail="$db#delayed/mail" token
	w create "$db" --kind delayed
	for key in 1 2 3 4 5; do
		w offer "$mail" hi --key "$key"
	done
	token=$("$wherry" poll "$mail" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
	w nack "$mail" "$token" --dead
	w poll "$mail" --lease 1h
	for key in 6 7; do
		w offer "$mail" hi --key "$key" --in 1h
	done
	agree "delayed queue" "$mail" ready 3 keeps
	agree "delayed queue" "$mail" leased 1 keeps
	agree "delayed queue" "$mail" waiting 2 keeps
	agree "delayed queue" "$mail" dead 1
	discards "delayed queue" "$mail" dead 1
	same "delayed queue" '{"discarded":6}' discard "$mail" --all
}

count_inbox() {
	w create "$db" --kind inbox
	put "INSERT INTO inbox(consumer, message_id, accepted_at) VALUES ('a', '1', $past), ('b', '1', $past),
		('a', '2', $future)"
	w status "$db#inbox" --json
	json "inbox: status counts the ids" 'd["ids"] == 3'
	same inbox '{"purged":2}' purge "$db#inbox" --older-than 1h
}

count_models() {
	count_outbox
	count_queue
	count_delayed
	count_inbox
}
