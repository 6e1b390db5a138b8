#!/usr/bin/env bash
# Entries of cron in wherry.yaml, on SQLite.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon_cron.bash
. "$source_dir/tests/system/daemon_cron.bash"

url=sqlite:shop.db

ask() {
	sql shop.db "$1"
}

daemon_cron_together
daemon_cron_again
daemon_cron_schedules
daemon_cron_takeover
daemon_cron_reload
daemon_cron_zone

# ---- the file is replaced ----

file replaced "name: box, at: '@every 50ms', outbox: {topic: t}"
run_daemon replaced
until_true 20 health 200
sql shop.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
sqlite3 shop.db '.backup copy.db'
before=$(sql copy.db "SELECT count(*) FROM outbox WHERE message_id LIKE 'box/%'")
mv shop.db gone.db
rm -f shop.db-wal shop.db-shm
mv copy.db shop.db
check "when the file is replaced the entry goes on in the new one" \
	until_true 30 at_least $((before + 2)) message_id outbox box
end_daemon "$daemon"
finish
