#!/usr/bin/env bash
# The plain statements for queues on SQLite in docs/guide/queues.md keep what the C library keeps, and
# work beside the commands.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

url=sqlite:shop.db

# run COMMENT...: the statements of the guide under the comments that begin so.
run() {
	out=$(for comment; do
		sed -n '/^## SQLite/,/^## Relay/p' "$source_dir/docs/guide/queues.md" | sed -n '/^```sql$/,/^```$/p' |
			awk -v begins="-- $comment" '/^--/ || /^```/ {on = index($0, begins) == 1} on' >statement.sql
		[ -s statement.sql ] || echo "the guide has no statement '$comment'"
		cat statement.sql
	done | sqlite3 -bail shop.db 2>&1)
}

# are TEXT: the messages, as ID STATE ATTEMPTS.
are() {
	out=$(sqlite3 shop.db "SELECT group_concat(id || ' ' || state || ' ' || attempts, ', ')
		FROM (SELECT * FROM jobs ORDER BY id)")
	[ "$out" = "$1" ]
}

later='UPDATE jobs SET available_at = 1 WHERE available_at IS NOT NULL'

w create --kind queue $url#jobs
run 'send'
check "three messages are sent, one of them delayed" are '1 0 0, 2 3 0, 3 0 0'
run 'count the messages'
check "two can be received" is "$out" 2
run 'cancel'
check "a message that nobody has received is cancelled" are '1 0 0, 3 0 0'
run 'receive one'
check "the first one is received" is "$out" '1|{"order": 7}'
run 'lease one'
check "the next one is leased" is "$out" '3|{"order": 9}|1'
run 'extend the lease'
run 'give it back'
check "it is given back for later" are '3 3 1'
sqlite3 shop.db "$later"
run 'before you receive' 'lease one'
check "and received again" is "$out" '3|{"order": 9}|2'
run 'give it up'
check "or is given up" are '3 4 2'
w list $url#jobs --state dead
expect "with the reason" 0 'out:there is no such order'
w retry $url#jobs 3
run 'lease one' 'acknowledge'
check "an acknowledgement deletes it" are ''

# ---- leases that end ----

w send $url#jobs '{"order": 10}'
for _ in 1 2 3 4 5; do
	run 'before you receive' 'lease one'
	sqlite3 shop.db "$later"
done
check "a worker that crashes gets the message five times" are '4 1 5'
run 'before you receive' 'lease one'
check "and not once more: it is dead" are '4 4 5'
w list $url#jobs --state dead
expect "with the reason" 0 'out:its lease expired before it was acknowledged'
w discard $url#jobs --all --yes

# ---- messages that expire ----

w send $url#jobs '"old"' --expires 1h
w send $url#jobs '"new"'
sqlite3 shop.db 'UPDATE jobs SET expires_at = 1 WHERE expires_at IS NOT NULL'
run 'lease one'
check "an expired message is not leased" is "$out" '6|"new"|1'
run 'receive one'
check "nor received" is "$out" ''
run 'count the messages'
check "nor counted" is "$out" 0
run 'before you receive: delete'
check "it is deleted" are '6 1 1'
w doctor $url#jobs
expect "the queue is whole" 0
finish
