#!/usr/bin/env bash
# `wherry reconcile` with the inbox of a receiver, what it refuses, and what it says of purged messages.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

inbox=sqlite:receiver.db#inbox

# fill N: messages of three keys, made an hour ago.
fill() {
	python3 -c '
import json, sys
for i in range(int(sys.argv[1])):
    print(json.dumps({"n": i, "key": "abc"[i % 3]}))' "$1" >lines
	w enqueue --lines sqlite:shop.db --topic orders --key /key --from lines
	sql shop.db 'UPDATE outbox SET created_at = created_at - 3600000 WHERE created_at > 1000 * unixepoch() - 1800000'
}

# deliver: to a receiver that accepts each message.
deliver() {
	w relay sqlite:shop.db file:out.ndjson --until-empty --timeout 60s --set outbox.retention=30d
	python3 -c '
import json, sqlite3
db = sqlite3.connect("receiver.db")
for line in open("out.ndjson"):
    db.execute("INSERT OR IGNORE INTO inbox(consumer, message_id) VALUES (?, ?)", ("shop", json.loads(line)["message_id"]))
db.commit()'
}

w create sqlite:shop.db
w create --kind inbox "$inbox"
fill 20
w reconcile sqlite:shop.db --inbox "$inbox" --since 1d
expect "if nothing is delivered, nothing is compared" 0 "out:compared   0" "out:waiting    20"
deliver
w reconcile sqlite:shop.db --inbox "$inbox" --since 1d
expect "what the receiver has handled is there" 0 "out:there      20" "out:missing    0" "no:note"
sql receiver.db "DELETE FROM inbox WHERE message_id IN
	(SELECT value FROM json_each('$(sql shop.db 'SELECT json_group_array(message_id) FROM outbox WHERE id IN (4, 9)')'))"
w reconcile sqlite:shop.db --inbox "$inbox" --since 1d --json
json "what it has not handled is missing" "d['missing'] == 2 and [m['id'] for m in d['messages']] == [4, 9]"
w reconcile sqlite:shop.db --inbox "$inbox" --consumer shop --since 1d --yes
expect "and can be sent again" 0 "out:missing    2" "out:2 messages are pending again"
rm out.ndjson
deliver
is "$(python3 -c 'import json; print(*[json.loads(line)["id"] for line in open("out.ndjson")])')" "4 9"
result $? "the relay sends these, and no others" "$(cat out.ndjson)"
w reconcile sqlite:shop.db --inbox "$inbox" --consumer shop --since 1d
expect "then all are there" 0 "out:there      20" "out:missing    0"
w reconcile sqlite:shop.db --inbox "$inbox" --consumer other --since 1d
expect "another consumer has handled none" 6 "out:missing    20" "err:the inbox has no message"

# ---- times ----

w reconcile sqlite:shop.db --inbox "$inbox" --since 1d --until 2h
expect "a time from which nothing is kept is refused" 1 "err:nothing can be compared" "err:outbox.retention"
w reconcile sqlite:shop.db --inbox "$inbox" --since 1d --until 2h --json
expect "also with --json" 1 "is:" "err:nothing can be compared"
w reconcile sqlite:shop.db --inbox "$inbox" --since 1s
expect "the last seconds are left out" 2 "err:--since must be before --until"
w reconcile sqlite:shop.db --inbox "$inbox" --since yesterday
expect "a time that is not one" 2 "err:--since yesterday: write a time"
w reconcile sqlite:shop.db --inbox "$inbox"
expect "without --since" 2 "err:reconcile needs --since T"
sql shop.db 'DELETE FROM outbox WHERE id <= 5'
w reconcile sqlite:shop.db --inbox "$inbox" --since 1d
expect "purged messages cannot be compared" 0 "out:compared   15" "err:that were purged (outbox.retention) cannot be compared"
w reconcile sqlite:shop.db --inbox "$inbox" --since 59m
expect "messages from before the time are not compared" 1 "err:nothing can be compared"

# ---- dead and discarded messages ----

fill 3
sql shop.db "INSERT INTO outbox_exception(subscription, id, state, attempts, changed_at) VALUES ('relay', 22, 4, 3, 0)"
deliver
w reconcile sqlite:shop.db --inbox "$inbox" --since 1d --json
json "a dead message is not missing" "d['compared'] == 17 and d['there'] == 17 and d['missing'] == 0"

# ---- a table of another program ----

sqlite3 theirs.db 'CREATE TABLE msgs(id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, topic TEXT, payload TEXT,
	created_at INTEGER, published_at INTEGER)'
w adopt sqlite:theirs.db#msgs --as theirs --yes
expect "a table is adopted" 0
sqlite3 theirs.db "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 9)
	INSERT INTO msgs(message_id, topic, payload, created_at) SELECT 'theirs-' || n, 'orders', '{}', 1000 * (unixepoch() - 3600) FROM i"
w relay sqlite:theirs.db#theirs null: --until-empty --timeout 60s
w create --kind inbox sqlite:theirs.db#inbox
sql theirs.db "INSERT INTO inbox(message_id) SELECT 'theirs-' || value FROM json_each('[1,2,3,4,6,7,8,9]')"
w reconcile sqlite:theirs.db#theirs --inbox sqlite:theirs.db#inbox --since 1d --yes --json
json "and compared like an outbox" "[m['message_id'] for m in d['messages']] == ['theirs-5'] and d['compared'] == 9 and d['again'] == 1"
w relay sqlite:theirs.db#theirs file:theirs.ndjson --until-empty --timeout 60s
json_file() { python3 -c 'import json; print(*[json.loads(line)["message_id"] for line in open("theirs.ndjson")])'; }
is "$(json_file)" theirs-5
result $? "its missing row is delivered again" "$(json_file)"
w create sqlite:bus.db#outbox_events --layout event-bus
w reconcile sqlite:bus.db#outbox_events --inbox "$inbox" --since 1d
expect "tables of which rows are claimed are refused" 1 "err:has the layout event-bus, which cannot be compared"

# ---- what cannot be read back ----

for to in stdout: file:x exec:cat amqp://h/v http://h/x 'sqlite:queue.db#jobs'; do
	w reconcile sqlite:shop.db "$to" --since 1d
	expect "${to%%:*} cannot be read back" 1 "err:${to%%:*}: cannot be read back: " "err:--inbox URL#inbox"
done
w reconcile sqlite:shop.db --since 1d
expect "the destination is named" 2 "err:name the destination as the relay has it"
w reconcile sqlite:shop.db kafka://h --consumer a --since 1d
expect "a consumer is of an inbox" 2 "err:give --inbox"
w reconcile sqlite:shop.db --inbox sqlite:receiver.db#none --since 1d
expect "an inbox that is not there" 1 "err:--inbox: that database has no inbox 'none'"
w create --kind queue sqlite:shop.db#jobs
w reconcile sqlite:shop.db#jobs stdout: --since 1d
expect "a queue does not keep what was handled" 2 "err:messages that were handled are deleted at once"
printf 'relays:\n  - {name: shop, from: "sqlite:shop.db", to: "stdout:"}\n' >wherry.yaml
w reconcile shop --since 1d
expect "a relay's name stands for both URLs" 1 "err:stdout: cannot be read back"

finish
