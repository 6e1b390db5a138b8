#!/usr/bin/env bash
# An operator works on a delayed queue in SQLite: status, doctor, pause and resume.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/delayed_operate.bash
. "$source_dir/tests/system/delayed_operate.bash"

db=sqlite:shop.db
url="$db#delayed/mail"
doctor_status=0
statement() {
	local body="CAST('corrected' AS BLOB)"
	sql shop.db "${1/@BODY@/$body}"
}

operate

w offer "$db#delayed/still" 1 --key k
sql shop.db "UPDATE delayed SET \"scheduledAt\" = \"scheduledAt\" - 20000 WHERE \"pKey\" = 'k'"
w status "$db#delayed/still"
expect "a message that nobody polls for 15 s is a warning" 0 "out:warning     the oldest message has been due for " \
	"out:no consumer or relay polls" "no:all is well"
finish
