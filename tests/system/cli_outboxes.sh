#!/usr/bin/env bash
# The life of an outbox: create says what it did, tables lists, drop removes.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

objects() { # FILE
	sql "$1" "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
}

sql shop.db 'CREATE TABLE orders(id INTEGER PRIMARY KEY, payload TEXT)'
w tables sqlite:shop.db
expect "a database without outboxes says how to make one" 0 "is:" "err:wherry create sqlite:shop.db"
w create sqlite:shop.db
expect "create says that it made the outbox" 0 "out:it was made"
w create sqlite:shop.db
expect "a second time it says that there was nothing to do" 0 "out:is up to date"
w create sqlite:shop.db --json
json "and in JSON" 'd["did"] == "unchanged" and d["from"] == d["to"] > 0'
sql shop.db 'DROP TRIGGER outbox_by_hand'
w create sqlite:shop.db
expect "a missing trigger is added, and create says so" 0 "out:what was missing was added"

w create sqlite:shop.db#billing
w_in $'{"n":1}\n{"n":2}\n{"n":3}' enqueue --lines sqlite:shop.db#billing --topic t
w relay sqlite:shop.db#billing 'exec:test $WHERRY_ID = 1 || exit 65' --until-empty --quiet
w_in $'{"n":4}' enqueue --lines sqlite:shop.db#billing --topic t
w tables sqlite:shop.db
expect "tables lists each with its kind, layout and counts" 0 "out:TABLE" \
	"out:billing  outbox  log            1      1     2" "no:orders" "no:archive"
w tables sqlite:shop.db --json
json "and in JSON, one object a line" \
	'[(o["table"], o["dead"]) for o in l] == [("billing", 2), ("outbox", 0)]'

w drop sqlite:shop.db#billing
expect "drop counts what would be lost and asks" 2 \
	"err:1 message to be delivered, 2 dead and 1 delivered" "err:--yes"
w tables sqlite:shop.db --json
json "without an answer nothing is removed" 'len(l) == 2'
"$wherry" relay sqlite:shop.db#billing null: --quiet &
pids+=($!)
has_relay() {
	"$wherry" status sqlite:shop.db#billing --json | grep -q '"relays":\[{'
}
check "a relay takes the lease" until_true 20 has_relay
w drop sqlite:shop.db#billing --yes
expect "while a relay holds the lease drop refuses" 1 "err:holds the lease" "err:--force"
w drop sqlite:shop.db#billing --yes --force --json
json "unless it is forced" 'd["dead"] == 2'
expect "and leaves a record" 0 "err:action=drop"
kill "${pids[0]}"
wait "${pids[0]}" 2>/dev/null
w status sqlite:shop.db#billing
expect "the outbox is gone" 1 "err:there is no table 'billing'"
w status sqlite:shop.db
expect "the other one is not" 0
w drop sqlite:shop.db --yes
expect "the last one goes" 0 "out:outbox 'outbox' is gone"
check "with all that create made, and nothing else" is "$(objects shop.db)" 1
w create sqlite:shop.db
expect "it can be made again" 0 "out:it was made"

# ---- a file of another program ----

while read -r command; do
	rm -f foreign.db*
	sqlite3 foreign.db 'CREATE TABLE t(x)'
	# shellcheck disable=SC2086
	w $command
	check "$command leaves a file of another program as it is" is "$(sqlite3 foreign.db 'PRAGMA journal_mode')" delete
done <<'END'
status sqlite:foreign.db
list sqlite:foreign.db
show sqlite:foreign.db 1
doctor sqlite:foreign.db
tables sqlite:foreign.db
status sqlite:foreign.db#jobs
status sqlite:foreign.db#inbox
status sqlite:foreign.db#delayed/q
cron list sqlite:foreign.db
END

finish
