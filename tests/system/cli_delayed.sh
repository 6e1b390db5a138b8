#!/usr/bin/env bash
# Delayed queues from the command line: what is offered is polled in time, and settled once.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

url=sqlite:shop.db

# Of the message that was polled with --json.
token_of() {
	printf '%s' "$out" | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])'
}

w offer $url#delayed/mail x --key k
expect "a database that is not there is refused" 1 "err:shop.db"
w create --kind delayed $url
expect "a table is created" 0 "out:the table 'delayed' of delayed queues is ready"
w create --kind delayed $url --json
json "twice is fine" 'd == {"url": "sqlite:shop.db", "table": "delayed", "kind": "delayed"}'
w create --kind delayed $url#others --print
expect "the SQL can be printed" 0 "out:CREATE TABLE IF NOT EXISTS \"others\"" "out:COMMIT;"
w status $url#others/mail
expect "and nothing was made; the command that makes it is said" 1 \
	"err:there is no delayed queue 'others'" "err:wherry create --kind delayed $url#others"
w create --kind delayed postgres://db/shop --grant web=sender --grant mailer=receiver --print
expect "and with it the rights of roles" 0 'out:TO "web";' 'out:GRANT SELECT, INSERT, UPDATE ON "delayed_dead" TO "mailer"'
w create --kind delayed $url --grant web=sender
expect "but a file has no roles" 2 "err:leave --grant out"
w status $url#delayed
expect "the queue must be named" 2 "err:name a queue in it, as in \`wherry status $url#delayed/mail\`"
w offer $url x --key k
expect "in the form that the message shows" 2 "err:needs URL#TABLE/QUEUE"

# ---- offer ----

w offer $url#delayed/mail 'first one' --key order-7 --in 1h
expect "an offer creates a message" 0 "out:created"
w offer $url#delayed/mail second --key order-7 --in 0
expect "another replaces it" 0 "out:updated"
w offer $url#delayed/notes $'two\nlines' --key n --in 1h
w list $url#delayed/notes --bodies
expect "a newline in a body is shown as in JSON" 0 'out:two\nlines'
w offer $url#delayed/mail third --key order-7 --if-absent --json
json "unless it must not" 'd["outcome"] == "ignored"'
w_in 'from a pipe' offer $url#delayed/mail - --key order-8 --at 2999-12-24T18:00:00Z
expect "a body may come from standard input, and a time may be given" 0 "out:created"
w_in 'from a pipe' offer $url#delayed/mail - --key order-8 --at 2999-12-24T18:00:00Z
expect "the same message is ignored" 0 "out:ignored"
w offer $url#delayed/mail x --key k --in 5
expect "a delay needs a unit" 2 "err:--in"
w offer $url#delayed/mail x --key k --in 999999999d
expect "and is in range" 2 "err:'999999999d' is out of range"
w offer $url#delayed/mail x --key k --at 10000-01-01T00:00:00Z
expect "as is a time" 2 "err:not in the years 1 to 9999"
w offer $url#delayed/ x --key k
expect "a queue has a name" 2 "err:names no table: write #NAME, or #TABLE/QUEUE"
err=$(head -c 16777217 /dev/zero | "$wherry" offer $url#delayed/mail - --key k 2>&1) && status=0 || status=$?
expect "a body that is too long is refused with its size" 1 "err:the body is 16777217 bytes, the limit is 16777216"
w offer $url#delayed/mail x --key k --in 5s --at 2999-12-24T18:00:00Z
expect "there is one time" 2 "err:only one of them"
w offer $url#delayed/mail x --key k --at tomorrow
expect "which is a time" 2 "err:--at"
w offer $url#delayed/mail x --key "$(printf 'k%.0s' {1..201})"
expect "a key that is too long is refused" 1 "err:201 characters"
w offer $url#delayed/mail x --key ''
expect "and one that is empty" 2 "err:needs a key"

# ---- read, list, count ----

w show $url#delayed/mail order-8
expect "a message is read before it is due" 0 "out:from a pipe"
w show $url#delayed/mail nobody
expect "a key without a message fails" 1 "err:no message of key 'nobody'"
w list $url#delayed/mail --bodies --json
json "messages are listed by their keys" '[m["key"] for m in l] == ["order-7", "order-8"]
	and l[1]["body"] == "from a pipe" and l[1]["at"].startswith("2999-12-24T18:00:00")
	and l[0]["attempts"] == 0 and l[0]["state"] == "ready"'
w list $url#delayed/mail --key 'order-8*'
expect "by a prefix, as a table" 0 "out:AVAILABLE" "out:order-8" "no:order-7"
w status $url#delayed/mail
expect "they are counted" 0 "out:ready       1, the oldest for" "out:waiting     1" "out:dead        0"
w status $url#delayed/mail --json
json "and in JSON" '(d["ready"], d["leased"], d["waiting"], d["dead"], d["next_us"]) == (1, 0, 1, 0, 0)'
w status $url#delayed/mail/java.lang.String --json
json "another type has its own messages" 'd["ready"] == 0 and d["next_us"] is None'

# ---- poll, ack, nack ----

w poll $url#delayed/mail
expect "a due message is polled, and how to acknowledge it is said" 0 "is:second" \
	"err:message 'order-7' is leased: \`wherry ack $url#delayed/mail "
w poll $url#delayed/mail
expect "nobody else gets it" 1 "is:" "err:no message is due"
w list $url#delayed/mail --key 'order-7*' --json
json "it is leased, for the first time" 'l[0]["state"] == "leased" and l[0]["attempts"] == 1
	and l[0]["redelivery"] is False'
w discard $url#delayed/mail order-7 --yes
expect "a leased message can be discarded" 0 "out:1 message discarded"
w offer $url#delayed/mail nine --key order-9
w poll $url#delayed/mail --lease 1m --wait 10s --json
json "JSON has the token" 'd["key"] == "order-9" and d["token"] and d["redelivery"] is False'
token=$(token_of)
w nack $url#delayed/mail "$token" --error 'no route'
expect "a message is given back" 0 "is:1 message returned"
w ack $url#delayed/mail "$token"
expect "then its lease is lost" 1 "is:0 messages acknowledged, 1 lease lost"
w poll $url#delayed/mail --json
json "it comes again, with the reason" 'd["attempts"] == 2 and d["redelivery"] and d["last_error"] == "no route"'
token=$(token_of)
w offer $url#delayed/mail new --key order-9
w ack $url#delayed/mail "$token" --json
expect "an offer supersedes it" 1 'is:{"acknowledged":0,"superseded":1,"lease_lost":0}'
w poll $url#delayed/mail --json
token=$(token_of)
w ack $url#delayed/mail "$token"
expect "a message is acknowledged" 0 "is:1 message acknowledged"
w ack $url#delayed/mail nonsense
expect "what is not a token is refused" 2 "err:'nonsense' is not a token"

# ---- dead messages ----

w offer $url#delayed/mail poison --key bad
w poll $url#delayed/mail --json
token=$(token_of)
w nack $url#delayed/mail "$token" --dead --error 'no address'
expect "a message is given up" 0 "out:dead"
w offer $url#delayed/mail better --key bad
w retry $url#delayed/mail 1000000
w list $url#delayed/mail --state dead --json
dead=$(python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["id"])' <<<"$out")
w tables "$url" --json
json "tables counts what is ready and what is dead" '[(t["messages"], t["ready"], t["dead"]) for t in l
	if t["table"] == "delayed"] == [(3, 1, 1)]'
w retry $url#delayed/mail "$dead"
expect "a dead message whose key was offered again stays, and a command says what to do" 1 "err:discard one of them"
PATH=$build_dir:$PATH bash -c "$(grep -o 'wherry discard [^\`]*' <<<"$err") --dry-run" >"$tmp/.ran" 2>&1
status=$?
out=$(cat "$tmp/.ran")
expect "which is not refused" 0
w discard $url#delayed/mail bad --yes
w nack $url#delayed/mail "$token" --dead --in 1h
expect "and then is not due again" 2 "err:--in and --dead"
w poll $url#delayed/mail --lease 0
expect "a lease lasts" 2 "err:--lease 0: a lease is longer than 0"
w list $url#delayed/mail --limit 0
expect "a list has a message or more" 2 "err:--limit 0: write a number from 1 to"
w list $url#delayed/mail --state dead
expect "dead messages are listed with their errors" 0 "out:bad" "out:no address"
w retry $url#delayed/mail --all
expect "they are retried" 0 "out:1 message is ready again"
w retry $url#delayed/mail 999
expect "one that is not dead is named" 1 "err:no dead message 999"
w poll $url#delayed/mail --json
token=$(token_of)
w nack $url#delayed/mail "$token" --dead
w discard $url#delayed/mail --state dead --json --yes
json "or deleted" 'd["discarded"] == 1'
w discard $url#delayed/mail k --all --yes
expect "a key or all of them, but not both" 2 "err:only one of them"

for key in d1 d2 d3; do
	w offer $url#delayed/dying x --key $key
	w poll $url#delayed/dying --json
	w nack $url#delayed/dying "$(token_of)" --dead
done
w list $url#delayed/dying --state dead --json
first=$(python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["id"])' <<<"$out")
w list $url#delayed/dying --state dead --after "$first" --json
json "dead messages are paged by their ids" '[m["key"] for m in l] == ["d2", "d3"]'
json "a list gives no token away" 'not any("token" in m for m in l)'
w discard $url#delayed/dying nobody "$first" --state dead --yes
expect "an id that is none is refused before anything goes" 2 "err:'nobody' is not an id"
w discard $url#delayed/dying 999 "$first" --state dead --yes
expect "one that is missing stops no other" 1 "out:1 message discarded" "err:no dead message 999"
w discard $url#delayed/dying --all --dry-run
expect "how many would go is said" 0 "is:dry run: 2 messages discarded"
w discard $url#delayed/dying --state '' --yes
expect "an empty state chooses nothing" 2 "err:--state"
w discard $url#delayed/dying --all --yes
expect "all go, dead ones too" 0 "out:2 messages discarded"

# ---- a relay ----

from="$url#delayed/letters"
w offer $url#delayed/letters '{"letter":1}' --key a
w offer $url#delayed/letters '{"letter":2}' --key b --in 1h
w relay "$from" stdout: --until-empty
expect "a relay delivers what is due, and ends" 0 'out:"key":"a"' 'out:"topic":"letters"' 'out:"letter":1' \
	'no:"letter":2' 'err:table=delayed/letters' 'err:1 delivered'
w offer $url#delayed/letters plain --key c
w relay "$from" file:letters.txt --until-empty
check "into a file, whatever the body is" grep -q '"key":"c"' "$tmp/letters.txt"
w offer $url#delayed/letters 'for a command' --key d
w relay "$from" "exec:cat >'$tmp/got'" --until-empty
check "to a command" grep -q 'for a command' "$tmp/got"
w offer $url#delayed/letters 'refused' --key e
w relay "$from" 'exec:exit 65' --until-empty --set relay.dead_letters=file:dead.txt
check "a header of the dead letter names the queue" grep -q '"wherry-dead-delayed":"delayed/letters' "$tmp/dead.txt"
expect "those that died are dead messages of the queue" 3 "err:\`wherry list $url#delayed/letters --state dead\`"
w list $url#delayed/letters --state dead
expect "with the reason" 0 "out:65"
w create --kind delayed $url#others
w offer $url#others/letters/t other --key f
w relay "$url#others/letters/t" stdout: --until-empty
expect "of any table and type" 0 'out:"key":"f"'
w relay "$url#delayed" stdout: --until-empty
expect "the URL must name the queue" 2 "err:'delayed' has delayed queues: write delayed/QUEUE"
w nack $url#delayed/mail token --not-counted
expect "an option that is not for the kind says why" 2 "err:--not-counted: a poll of a delayed queue always counts"
w relay "$url#none/letters" stdout: --until-empty
expect "a table that is missing is named, with the command that makes it" 1 \
	"err:no delayed queue 'none'" "err:wherry create --kind delayed"
w relay "$from" stdout: --ordering key
expect "what a delayed queue cannot do is refused" 2 "err:leave --ordering out"
w seek "$url#others/letters" start
expect "a command for outboxes says so" 2 "err:'others/letters' is a delayed queue" "err:is for outboxes"
jvm=sqlite:jvm.db#reminders/mail/java.lang.String
w create --kind delayed sqlite:jvm.db#reminders --layout funfix
w offer "$jvm" '{"jvm":1}' --key a
w relay "$jvm" stdout: --ordering key
expect "also on the table of the JVM library" 2 "err:leave --ordering out"
w relay "$jvm" stdout: --until-empty
expect "from which a relay delivers, too" 0 'out:"key":"a"' 'out:{"jvm":1}'
w pause "$jvm"
expect "it cannot be paused" 1 "err:stop its relays instead"
w status "$jvm"
expect "and does not know its relays" 0 "out:layout      funfix" "out:relay       not known"
cat >"$tmp/delayed.yaml" <<-END
	relays:
	- {name: letters, from: '$from', to: 'stdout:'}
END
w check "$tmp/delayed.yaml"
expect "wherry.yaml takes the same URL" 0

# ---- drop ----

w discard $url#delayed/mail --yes
expect "what to drop must be said" 2 "err:none is named"
w discard $url#delayed/mail --all
expect "all are dropped only if it is confirmed" 2 "err:--yes"
w discard $url#delayed/mail --all --yes
expect "and then they are" 0 "out:1 message discarded"
w discard $url#delayed/mail order-8 --yes
expect "a key without a message is named" 1 "err:no message of key 'order-8'"
w drop $url#others
expect "a table is removed only if it is confirmed" 2 "err:--yes"
w offer $url#others/letters x --key g
w offer $url#others/mail x --key h
w drop $url#others --yes
expect "with the messages of all its queues" 0 "out:'others' of delayed queues is gone, with 2 messages"
w drop $url#others --yes
expect "and then it is missing" 1 "err:there is no table 'others'"
w drop $url#delayed --yes --json
json "the standard one too" 'd["messages"] > 0'
finish
