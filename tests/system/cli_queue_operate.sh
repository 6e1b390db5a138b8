#!/usr/bin/env bash
# An operator works on a queue in SQLite as on an outbox.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/queue_operate.bash
. "$source_dir/tests/system/queue_operate.bash"

db=sqlite:shop.db
url="queue+$db?queue=jobs"
doctor_status=0

end_leases() {
	sql shop.db 'UPDATE jobs SET available_at = 1000 WHERE state = 1'
}

break_index() {
	sql shop.db 'DROP INDEX jobs_dead'
}

operate
finish
