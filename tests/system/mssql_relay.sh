#!/usr/bin/env bash
# Relays of the program on the SQL Server that WHERRY_TEST_MSSQL names: on an outbox, where one is
# killed and another takes over, on a queue and on a delayed queue.
#
# Writes TAP.

if [ -z "${WHERRY_TEST_MSSQL:-}" ]; then
	printf '1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no server\n'
	exit 0
fi

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/takeover.bash
. "$source_dir/tests/system/takeover.bash"

db=$WHERRY_TEST_MSSQL
queue="$db#relayed"
delayed="$db#relayed_later/mail"
patience=90

# ---- an outbox ----

w create "$db"
expect "the outbox is made" 0
takes_over "$db"

# ---- a queue ----

w create --kind queue "$db#relayed"
expect "the queue is made" 0
w send "$db#relayed" '{"order":1}'
w pause "$queue"
expect "a queue is paused" 0
w relay "$queue" stdout: --until-empty --timeout 10s
expect "a relay delivers nothing of it" 5 'no:"body"' "err:0 delivered"
w resume "$queue"
w relay "$queue" stdout: --until-empty --timeout 90s
expect "once resumed it does" 0 'out:"body":{"order":1}' "err:1 delivered"
w send "$db#relayed" '{"order":2}'
w relay "$queue" 'exec:echo no route >&2; exit 65' --until-empty --timeout 90s
expect "a rejected message is dead" 3
w status "$queue"
expect "status counts it, and names the last relay" 0 "out:dead        1" "out:relay       none; the last was "
w drop "$db#relayed" --yes
expect "a queue is dropped" 0

# ---- a delayed queue ----

w create --kind delayed "$db#relayed_later"
expect "the table of delayed queues is made" 0
w offer "$db#relayed_later/mail" now --key a
w offer "$db#relayed_later/mail" later --key b --in 1h
w relay "$delayed" stdout: --until-empty --timeout 90s
expect "a message that is due is delivered" 0 'out:"body":"now"' 'no:"body":"later"' "err:1 delivered"
w status "$delayed"
expect "the other one waits" 0 "out:waiting     1"
w drop "$db#relayed_later" --yes
expect "its table is removed" 0
finish
