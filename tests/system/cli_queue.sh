#!/usr/bin/env bash
# Queues and inboxes from the command line: what is sent is received once, and operators see why not.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

url=sqlite:shop.db

w send $url#jobs x
expect "a database that is not there is refused" 1 "err:shop.db"
w create $url
w send $url#jobs 1
expect "a queue that is not there is refused, with the command that makes it" 1 \
	"err:there is no queue 'jobs'" "err:wherry create --kind queue $url#jobs"
w create --kind queue $url#jobs
expect "a queue is created, and how to send is said" 0 "out:queue 'jobs' is ready" \
	"out:wherry send $url#jobs '{}'"
w create --kind queue $url#jobs --json
json "twice is fine" 'd == {"url": "sqlite:shop.db", "table": "jobs", "kind": "queue"}'
w create --kind queue "$url#no such.name!"
expect "a bad name is refused" 2
w create --kind queue $url#others --print
expect "the SQL can be printed" 0 "out:CREATE TABLE IF NOT EXISTS \"others\"" "out:COMMIT;"
w status $url#others
expect "and nothing was made" 1 "err:there is no table 'others'"

# ---- send, receive ----

w receive $url#jobs
expect "an empty queue has no message, and the exit status says so" 1 "is:" "err:no message"
w send $url#jobs '{"job":1}' --header 'kind=first' --correlation-id c7 --reply-to answers --id m1
expect "a message is sent" 0 "out:message 1 is in queue 'jobs'"
w_in '{"job":2}' send $url#jobs --json
json "the body may come from standard input" 'd["id"] == 2'
printf '{"job":3}' >job.json
w send $url#jobs --from job.json
expect "or from a file" 0 "out:message 3"
w send $url#jobs '{"job":4}' --from job.json
expect "but not from two places" 2 "err:only one of them"
w send $url#jobs --from missing.json
expect "a file that is missing is named" 1 "err:missing.json: No such file"
w send $url#jobs 'not json' --header 'broken'
expect "a header without a value is refused" 2 "err:NAME=VALUE"
w send $url#jobs '{"job":5}' --in 1h --expires 2h
expect "a delayed message is sent" 0 "out:message 4"
w send $url#jobs '{}' --in 5
expect "a delay needs a unit" 2 "err:--in"
w status $url#jobs
expect "the length counts by state" 0 "out:ready       3, the oldest for" "out:waiting     1" "out:dead        0"
w status $url#jobs --json
json "and in JSON" '(d["ready"], d["leased"], d["waiting"], d["dead"]) == (3, 0, 1, 0)'
w send $url#jobs '{"job":6}'
w queue cancel $url#jobs 5
expect "a message that nobody has received is cancelled" 0 "out:message 5 is cancelled"
w queue cancel $url#jobs 5
expect "once" 1 "err:no message 5"
w queue cancel $url#jobs five
expect "by its id" 2 "err:'five' is not an id"
head -c 20000000 /dev/zero | tr '\0' 1 >big.json
w send $url#jobs --from big.json
expect "a body that is too long is refused, with its size and the limit" 1 \
	"err:the body is 20000000 bytes, the limit is 16777216"
rm big.json
w list $url#jobs --bodies --json
json "list shows every field" '[m["id"] for m in l] == [1, 2, 3, 4]
	and l[0]["headers"] == {"kind": "first"} and l[0]["correlation_id"] == "c7"
	and l[0]["reply_to"] == "answers" and l[0]["body"] == {"job": 1}
	and l[0]["message_id"] == "m1" and l[3]["state"] == "waiting" and l[3]["expires_at"]'
w list $url#jobs --limit 1 --after 1 --bodies
expect "and pages, as a table" 0 "out:MESSAGE_ID" 'out:{"job":2}' 'no:{"job":1}' 'no:{"job":3}'
w create --kind queue sqlite:notes.db#notes
w send sqlite:notes.db#notes $'first\tline\nC:\\new \033[31m'
w send sqlite:notes.db#notes "$(printf 'é%.0s' {1..150})"
w list sqlite:notes.db#notes --bodies
expect "control characters of a body are shown as in JSON, and a cut is marked" 0 \
	'out:first\tline\nC:\new \u001b[31m' "out:$(printf 'é%.0s' {1..100})…" "no:$(printf 'é%.0s' {1..101})"
w list sqlite:notes.db#notes --bodies --json
json "--json has the body itself" 'l[0]["body"] == "first\tline\nC:\\new \u001b[31m" and len(l[1]["body"]) == 150'

w receive $url#jobs
expect "receive prints the body of the oldest" 0 'is:{"job":1}'
w receive $url#jobs --json
json "or all of the message" 'd["id"] == 2 and d["attempts"] == 1'
json "which has no lease and no state, since it is acknowledged" \
	'(d["state"], d.get("token"), d["available_at"]) == (None, None, None)'
w status $url#jobs --json
json "what was received is gone" 'd["ready"] == 1 and d["leased"] == 0'

# ---- a relay on a queue ----

w create --kind queue $url#letters
w send $url#letters '{"letter":1}' --id l1
w send $url#letters '{"letter":2}' --expires 1ms
w relay "$url#letters" stdout: --until-empty
expect "a relay delivers the messages of a queue" 0 'out:"message_id":"l1"' 'no:"letter":2' \
	'err:table=letters' 'err:1 delivered'
w send $url#letters '{"letter":3}'
w relay "$url#letters" 'exec:exit 65' --until-empty
expect "and says how to look at those that died" 3 "err:\`wherry list $url#letters --state dead\`"
w relay "$url#" stdout: --until-empty
expect "the URL must name the queue" 2 "err:names no table: write #NAME"
w relay "$url#none" stdout: --until-empty
expect "a queue that is missing is named, with the command that makes it" 1 \
	"err:no outbox or queue 'none'" "err:\`wherry create --kind queue $url#none\`"
w relay "$url#letters" stdout: --ordering key
expect "what a queue cannot do is refused" 2 "err:leave --ordering out"
w seek "$url#letters" start
expect "a command for outboxes says so" 2 "err:'letters' is a queue, and" "err:is for outboxes"

# ---- lease, ack, nack ----

w receive $url#jobs --lease 1m --json
token=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
ack=$(sed -nE 's/.*`(wherry ack [^`]*)`.*/\1/p' <<<"$err")
expect "with --lease the message stays, and how to acknowledge it is said" 0 "err:is leased: \`wherry ack"
w receive $url#jobs
expect "meanwhile nobody else receives it" 1 "err:no message"
w receive $url#jobs --lease 0s
expect "a lease needs a time" 2 "err:above 0"
w nack $url#jobs '' 3
expect "and a token" 1 "err:the token is empty"
w nack $url#jobs "$token" 3 --dead --in 5s
expect "a message that is given up does not come back later" 2 "err:leave --in"
w nack $url#jobs wrong 3
expect "a wrong token changes nothing" 1 "err:not leased under this token"
w nack $url#jobs "$token" 3 --not-counted
expect "it can be given back" 0 "out:1 message returned"
w receive $url#jobs --lease 1m --json
ack=$(sed -nE 's/.*`wherry (ack [^`]*)`.*/\1/p' <<<"$err")
json "its attempt did not count" 'd["id"] == 3 and d["attempts"] == 1'
# shellcheck disable=SC2086
w $ack
expect "the command that was printed acknowledges it" 0 "out:1 message acknowledged"
# shellcheck disable=SC2086
w $ack
expect "once" 1 "err:not leased under this token"

# ---- waiting ----

(sleep 0.3; exec "$wherry" send $url#jobs '{"late":1}' >/dev/null) &
pids+=($!)
w receive $url#jobs --wait 30s
expect "receive waits for a message" 0 'is:{"late":1}'
w receive $url#jobs --wait 50ms
expect "and no longer than it is told to" 1 "err:no message"
sql shop.db "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
	INSERT INTO jobs(body, headers) SELECT '0', '[]' FROM n"
w send $url#jobs '{"good":1}'
w receive $url#jobs
expect "a receive makes at most 1,000 messages dead that nobody can read" 1 "is:" "err:no message"
w receive $url#jobs
expect "and prints the one behind them" 0 'is:{"good":1}'
sql shop.db "UPDATE jobs SET state = 0 WHERE state = 4"
w send $url#jobs '{"good":2}'
w receive $url#jobs --wait 30s
expect "one that waits goes on until it has a message" 0 'is:{"good":2}'
w discard $url#jobs --state dead --yes

# ---- errors ----

w send $url#jobs '{"bad":1}'
w receive $url#jobs --lease 1m --json
token=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
id=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
w nack $url#jobs "$token" "$id" --dead --error 'no such order'
expect "a message is given up" 0 "out:1 message dead"
w list $url#jobs --state dead
expect "list shows it, with its error" 0 "out:dead" "out:no such order" 'no:{"job":5}'
w retry $url#jobs "$id"
w receive $url#jobs --lease 1m --json
token=$(printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')
w nack $url#jobs "$token" "$id" --dead
w list $url#jobs --state dead --bodies
expect "without a reason list shows the body" 0 'out:{"bad":1}'
w retry $url#jobs
expect "retry wants an id or --all" 2 "err:--all"
w retry $url#jobs 4
expect "a message that is not dead is not retried" 1
w retry $url#jobs "$id" --json
json "a dead one is" 'd["retried"] == 1'
w receive $url#jobs --json
json "and is received again, from its first attempt" 'd["body"] == {"bad": 1} and d["attempts"] == 1'

# ---- topics ----

w create --kind queue $url#mail
w queue subscribe $url#jobs orders.placed
expect "a queue subscribes" 0 "out:queue 'jobs' gets what is published to 'orders.placed'"
w queue subscribe $url#mail orders.placed
w queue subscribe $url#nobody orders.placed
expect "a queue that is not there cannot" 1 "err:nobody"
w queue subscriptions $url --json
json "subscriptions lists them" '[(s["topic"], s["queue"]) for s in l] ==
	[("orders.placed", "jobs"), ("orders.placed", "mail")]'
w queue publish $url orders.placed '{"order":7}' --json
json "a message is published to both" 'd["queues"] == 2'
w queue subscribe $url#jobs ''
expect "a topic has a name" 1 "err:the topic is empty"
w queue publish $url orders.lost '{}' --schema sales
expect "SQLite has no schemas" 2 "err:no schemas"
w queue publish $url orders.lost '{}'
expect "where nobody has subscribed, to none" 0 "out:published to 0 queues"
w receive $url#mail --json
json "each queue got it, under its topic" 'd["body"] == {"order": 7} and d["topic"] == "orders.placed"'
w queue unsubscribe $url#mail orders.placed
expect "a subscription is taken back" 0
w queue unsubscribe $url#mail orders.placed
expect "once" 1
w queue publish $url orders.placed '{"order":8}' --json
json "then the queue gets nothing more" 'd["queues"] == 1'

# ---- list, inspect ----

w tables $url --json
json "tables shows the queues" '[(q["table"], q["kind"], q["layout"], q["ready"]) for q in l if q["kind"] == "queue"] ==
	[("jobs", "queue", "native", 2), ("letters", "queue", "native", 0), ("mail", "queue", "native", 0)]'
w tables $url
expect "as a table, too" 0 "out:TABLE" "out:jobs" "out:outbox"
w doctor $url#jobs --verbose
expect "a queue that is whole lacks nothing" 0 "out:the tables, indexes and triggers of the queue are there"
sql shop.db 'DROP INDEX jobs_ready'
w doctor $url#jobs
expect "a missing index is found, with the SQL that makes it" 1 "out:the index jobs_ready is missing" \
	'out:CREATE INDEX IF NOT EXISTS "jobs_ready"'
w doctor $url#jobs --repairs
expect "which can be printed alone" 0 "out:-- the index jobs_ready is missing"
sqlite3 shop.db <<<"$out"
w doctor $url --repairs
expect "for a queue" 2 "err:--repairs: it is for queues"
w doctor $url#jobs --json
json "which repairs the queue" 'd["bad"] == 0'
w create --kind queue $url#jobs --grant web=sender
expect "SQLite has no roles" 2 "err:no roles"

# ---- purge, drop ----

w discard $url#jobs --all
expect "discard asks" 2 "err:--yes"
w discard $url#jobs --all --yes --json
json "and deletes" 'd["discarded"] == 3'
w drop $url#mail
expect "drop says what would be lost" 2 "err:delete queue 'mail' with 0 messages"
w drop $url#mail --yes
expect "and drops" 0 "out:queue 'mail' is gone"
expect "an operator's change is logged" 0 "err:event=operator" "err:mail"
w status $url#mail
expect "it is gone" 1 "err:there is no table 'mail'"

w send $url#jobs 1
w discard $url#jobs --state '' --yes
expect "an empty state deletes nothing" 2 "err:--state is empty"
w ack $url#jobs token
expect "a token without ids is refused" 2 "err:which messages?"
w drop $url#jobs --force --yes
expect "force is for outboxes" 2 "err:--force"
w discard $url#jobs --all --yes
w create $url#billing
w_in $'{"n":1}\n{"n":2}\n{"n":3}' enqueue --lines $url#billing --topic t --id /n
sql shop.db "INSERT INTO billing_exception(subscription, id, state) VALUES ('relay', 3, 4)"
sql shop.db "UPDATE billing SET message_id = 'last' WHERE id = 3; UPDATE billing SET message_id = '3' WHERE id = 1"
w discard $url#billing --state dead --yes --json
json "a dead message is discarded by state" 'd["discarded"] == 1'
w list $url#billing --all --json
json "and not the one whose message id is its number" '[(m["id"], m["message_id"]) for m in l] == [(2, "2"), (1, "3")]'
w discard $url#billing --all --yes
expect "all are, if that is asked for" 0 "out:2 messages discarded"
w doctor $url#nowhere
expect "doctor says that a table is missing" 1 "err:'nowhere'"

# ---- words ----

w queue
expect "queue alone lists its commands" 2 "out:create --kind queue" "out:queue publish"
w queue --help
expect "and so does --help" 0 "out:queue publish"
w queue pubilsh $url jobs
expect "a slip is corrected" 2 "err:did you mean 'queue publish'"
w recieve $url#jobs
expect "also of a verb" 2 "err:did you mean 'receive'"
w help send
expect "help explains a command of it" 0 "out:usage: wherry send URL#NAME" "out:--reply-to ADDRESS"
export WHERRY_URL=$url
w status @jobs --json
json "WHERRY_URL names the database" 'd["ready"] == 0'
unset WHERRY_URL

# ---- inbox ----

w status $url#inbox
expect "an inbox that is not there is refused, with the command that makes it" 1 \
	"err:wherry create --kind inbox $url"
w create --kind inbox $url
expect "an inbox is created" 0 "out:inbox 'inbox' is ready"
sql shop.db "INSERT INTO inbox(message_id) VALUES ('m1') ON CONFLICT DO NOTHING;
	INSERT INTO inbox(message_id, consumer) VALUES ('m1', 'billing') ON CONFLICT DO NOTHING"
w status $url#inbox --json
json "its ids are counted" 'd["ids"] == 2'
w inbox forget $url --message m2 --yes
expect "an id that it has not is named" 1 "err:has not accepted message 'm2'"
w inbox forget $url --message m1 --consumer billing --yes
expect "a message can be made new again" 0 "out:message 'm1' is new again"
w purge $url#inbox --older-than 1h --json --yes
json "young ids stay" 'd["purged"] == 0'
w purge $url#inbox --older-than 0s
expect "to delete all of them is asked for" 2 "err:delete all ids of inbox 'inbox'" "err:--yes"
w purge $url#inbox --older-than 0s --yes
expect "old ones go" 0 "out:1 id purged"
w drop $url#inbox --yes
expect "an inbox is dropped" 0 "out:inbox 'inbox' is gone"

# ---- bodies that other programs wrote: none of them stops the receivers ----

w create --kind queue $url#odd
sql shop.db "INSERT INTO odd(body) VALUES ('one'), (zeroblob(67108865)), (CAST(x'ff41' AS TEXT)), (5), ('five')"
got=
for i in 1 2 3 4; do
	w receive $url#odd
	got+=$(base64 <<<"$out")" "
done
w status $url#odd --json
json "a body that is too long dies alone" '(d["ready"], d["leased"], d["dead"]) == (0, 0, 1)'
check "those beside it are received as they are" is "$got" "b25lCg== /0EK NQo= Zml2ZQo= "
w list $url#odd
expect "and its reason names the limit" 0 "out:the body is over its limit of 67108864 bytes"
finish
