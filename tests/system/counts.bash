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

discards() { # WHAT URL STATE N
	same "$1: $3" "{\"discarded\":$4}" discard "$2" --state "$3"
}

count_outbox() {
	w create "$db"
	seq 15 | "$wherry" enqueue "$db" --lines --topic t >/dev/null
	put "UPDATE outbox SET status = 1, claimed_at = $past, claim_token = 'x' WHERE id IN (4, 5, 6, 7);
		UPDATE outbox SET status = 2, processed_at = $past WHERE id IN (8, 9);
		UPDATE outbox SET status = 2, processed_at = $future WHERE id = 10;
		UPDATE outbox SET status = 3, next_retry_at = $past WHERE id = 11;
		UPDATE outbox SET status = 3, next_retry_at = $future WHERE id IN (12, 13);
		UPDATE outbox SET status = 4 WHERE id IN (14, 15)"
	agree outbox "$db" pending 3
	agree outbox "$db" processing 4
	agree outbox "$db" done 3 keeps
	agree outbox "$db" failed 3
	agree outbox "$db" dead 2
	same outbox '{"archived":2}' purge "$db" --older-than 1h --to-archive
	put "UPDATE outbox SET processed_at = $past WHERE id = 10"
	same outbox '{"purged":1}' purge "$db" --older-than 1h
	same outbox '{"purged":2}' purge "$db" --older-than 1h --archived
	discards outbox "$db" pending 3
	discards outbox "$db" processing 4
	discards outbox "$db" failed 3
	discards outbox "$db" dead 2
	check "outbox: nothing is left" is "$(put 'SELECT count(*) FROM outbox')" 0
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
