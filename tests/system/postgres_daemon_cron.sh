#!/usr/bin/env bash
# Entries of cron in wherry.yaml, on PostgreSQL.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon_cron.bash
. "$source_dir/tests/system/daemon_cron.bash"

start_server

ask() {
	sql "$1"
}

daemon_cron_together
daemon_cron_again
daemon_cron_schedules
daemon_cron_takeover
daemon_cron_reload

# ---- a server that goes away ----

file away "name: away, at: '@every 50ms', outbox: {topic: t}"
run_daemon away
until_true 20 health 200
kill_server
check "an entry whose server goes away says so" until_true 30 logged away.log event=failed cron=away
check "and goes on when it is back" until_true 60 health 200
before=$(ids message_id outbox away | wc -l)
until_true 60 at_least $((before + 10)) message_id outbox away
end_daemon "$daemon"
gapless 50 message_id outbox away
result $? "with every tick of the time between" "a tick is missing, or there twice"

# ---- a body that the column refuses ----

file bad "name: box, at: '@daily', outbox: {topic: t, body: 'not json'}"
run_daemon bad
until_true 20 logged bad.log event=failed cron=box
get /readyz
expect "a body that the column refuses is an error before its time" 503 "out:JSON"
check "and no message is written" is \
	"$(sql "SELECT count(*) FROM outbox WHERE message_id LIKE 'box/%/1970%'")" 0
end_daemon "$daemon"
stop_server
finish
