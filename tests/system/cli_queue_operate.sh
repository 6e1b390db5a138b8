#!/usr/bin/env bash
# An operator works on a queue in SQLite as on an outbox.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/queue_operate.bash
. "$source_dir/tests/system/queue_operate.bash"

db=sqlite:shop.db
statement() {
	sql shop.db "$1"
}
url="$db#jobs"
doctor_status=0

end_leases() {
	sql shop.db 'UPDATE jobs SET available_at = 1000 WHERE state = 1'
}

break_index() {
	sql shop.db 'DROP INDEX jobs_dead'
}

operate

# ---- messages stand still ----

w create --kind queue "$db#still"
w send "$db#still" 1
sql shop.db 'UPDATE still SET created_at = created_at - 20000'
w status "$db#still"
expect "a message that nobody takes for 15 s is a warning" 0 "out:warning     the oldest message has been ready for " \
	"out:no worker or relay receives" "no:all is well"
w send "$db#still" 2
w receive "$db#still" --lease 1h
w status "$db#still"
expect "while a worker has some, it may take longer" 0 "out:all is well"
finish
