#!/usr/bin/env bash
# Commands for queues on PostgreSQL: schemas, roles, and queues of NServiceBus.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

# ---- topics of a schema ----

sql 'CREATE SCHEMA sales'
w create --kind queue "$url#jobs"
w create --kind queue "$url#sales.tasks"
w queue subscribe "$url#jobs" placed
w queue subscribe "$url#sales.tasks" placed
expect "a queue in another schema subscribes to the topics of its schema" 0 \
	"out:queue 'sales.tasks' gets what is published to 'placed'"
w queue publish "$url" placed '{"order":1}' --json
json "what is published reaches the queues of the first schema" 'd["queues"] == 1'
w queue publish "$url" placed '{"order":2}' --schema sales
expect "or of the schema that is named" 0 "out:published to 1 queue"
w receive "$url#sales.tasks"
expect "it arrives" 0 'is:{"order":2}'
w queue subscriptions "$url" --schema sales --json
json "subscriptions lists those of a schema" '(d["topic"], d["queue"]) == ("placed", "tasks")'
w queue publish "$url" paid '{}' --schema sales
expect "nobody has subscribed: the command to paste names the schema" 0 \
	"err:wherry queue subscribe '$url#sales.NAME' paid"
w queue subscribe "$url#sales.none" placed
expect "a queue that is missing is named, with the command that makes it" 1 "err:there is no queue 'none'" \
	"err:create --kind queue '$url#sales.none"
w queue publish "$url" placed '{}' --schema nowhere
expect "a schema without queues is refused" 1 "err:there are no queues in this schema"
w queue publish "$url" '' '{}'
expect "and so is an empty topic" 1 "err:the topic is empty"
w queue unsubscribe "$url#sales.tasks" placed
expect "a subscription in a schema is taken back" 0

# ---- waiting ----

# Milliseconds that a command took.
took() {
	local began=${EPOCHREALTIME//[.,]/}
	w "$@"
	ms=$(((${EPOCHREALTIME//[.,]/} - began) / 1000))
}

w create --kind queue "$url#locked"
w create --kind delayed "$url"
w send "$url#locked" '{"mine":1}'
w offer "$url#delayed/mail" mine --key k
coproc psql -qXAt "$url"
echo 'BEGIN; SELECT 1 FROM locked, delayed FOR UPDATE;' >&"${COPROC[1]}"
read -r _ <&"${COPROC[0]}"
took receive "$url#locked" --wait 400ms
expect "another session has the only message" 1 "err:no message"
check "receive waits for another one all its time" [ "$ms" -ge 400 ]
took poll "$url#delayed/mail" --wait 400ms
expect "and so of a delayed queue" 1 "err:no message is due"
check "poll waits as well" [ "$ms" -ge 400 ]
echo 'ROLLBACK; SELECT 2;' >&"${COPROC[1]}"
read -r _ <&"${COPROC[0]}"
w receive "$url#locked" --wait 30s
expect "a message that is free again is received" 0 'is:{"mine":1}'
w poll "$url#delayed/mail" --wait 30s
expect "or polled" 0 "is:mine"
kill "$COPROC_PID"
w drop "$url#locked" --yes

# ---- queues of NServiceBus ----

w create --kind queue "$url#letters" --layout nservicebus
psql -q "$url" -c 'ALTER TABLE letters_received RENAME TO aside'
w tables "$url"
expect "a queue of NServiceBus without Wherry's table beside it hides no other and is no error" 0 \
	"out:letters" "out:jobs" "err:letters is not counted"
psql -q "$url" -c 'ALTER TABLE aside RENAME TO letters_received'
w queue subscribe "$url#letters" placed
w queue subscriptions "$url" --json
json "their names are those of the commands" '[s["queue"] for s in l] == ["jobs", "letters"]'
w queue publish "$url" placed '{"order":3}'
expect "both kinds get what is published" 0 "out:published to 2 queues"
w relay "$url#letters" stdout:
expect "a relay on such a queue is refused, with what to use" 2 \
	"err:no relay reads queues of the layout nservicebus" "err:use receivers" "no:engine"
w send "$url#letters" '{}' --in 1h --json
id=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
w queue cancel "$url#letters" "$id"
expect "a delayed message is cancelled" 0 "out:message $id is cancelled"

# ---- roles that are missing ----

nothing() { # TABLE
	answers "SELECT to_regclass('$1') IS NULL" t
}

for command in 'create URL#g1' 'create --kind queue URL#g2' 'create --kind delayed URL#g3' \
	'create --kind cron URL#g4'; do
	kind=operator
	# shellcheck disable=SC2086
	w ${command//URL/$url} --grant "nobody=$kind"
	expect "$command refuses a role that is missing" 1 "err:there is no role 'nobody'"
	check "and makes nothing" nothing "${command##*#}"
done
w create --kind queue "$url#g5" --layout nservicebus --grant wherry=sender
expect "a layout that takes no grants is refused" 2 "err:--grant is for tables of Wherry's own layout"
check "and nothing is made" nothing g5
# ---- a queue whose table was renamed ----

w create --kind queue "$url#before"
sql "ALTER TABLE before RENAME TO after"
w receive "$url#after"
expect "a queue that was renamed is not its own suggestion" 1 "err:if it was renamed" \
	"no:did you mean"
w create --kind queue "$url#after"
w receive "$url#after"
expect "and the command that the message names makes it a queue again" 1 "err:no message"

# ---- topics of two schemas of the search path ----

sql "CREATE SCHEMA east; CREATE SCHEMA west"
both="$url&options=-csearch_path%3Deast,west"
w create --kind queue "$url#east.bills"
w create --kind queue "$url#west.mails"
w queue subscribe "$both#mails" paid
expect "a queue that is named without its schema subscribes beside its table" 0 "out:queue 'mails' gets"
check "and not in the first schema of the path" is \
	"$(sql "SELECT (SELECT count(*) FROM east.wherry_subscription), (SELECT count(*) FROM west.wherry_subscription)")" "0|1"
w queue publish "$both" paid 1
expect "topics that two schemas have must be named" 2 "err:2 schemas of the search path" "err:name the schema"
w queue subscriptions "$both"
expect "also where they are listed" 2 "err:2 schemas of the search path"
w queue publish "$both" paid 1 --schema west
expect "and then it reaches the queue" 0 "out:published to 1 queue"

# ---- a row of NServiceBus that was received before ----

w create --kind queue "$url#twice" --layout nservicebus
sql "INSERT INTO twice_received(id, row_id, state, attempts, headers, body) VALUES
	(7, '0c5e9d4a-0000-4000-8000-000000000001', 4, 1, '{}', 'old');
	INSERT INTO twice(id, seq, headers, body) VALUES ('0c5e9d4a-0000-4000-8000-000000000001', 7, '{}', 'new'),
	('0c5e9d4a-0000-4000-8000-000000000002', 8, '{}', 'next')"
w receive "$url#twice" --lease 1h --json
expect "a message whose number and uuid a received one has is received" 0 "out:\"body\":\"new\""
w receive "$url#twice" --lease 1h --json
expect "and so is the next one" 0 "out:\"body\":\"next\""
check "and the one that was received before stays" is \
	"$(sql "SELECT string_agg(convert_from(body, 'UTF8'), ' ' ORDER BY state, id, body) FROM twice_received")" "new next old"

finish
