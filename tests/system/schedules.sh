#!/usr/bin/env bash
# `wherry cron next`, and the times of random schedules beside those of croniter and zoneinfo.
# WHERRY_SCHEDULES says how many (default 400), WHERRY_SCHEDULES_SEED which.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

# ---- the command ----

w cron next '30 2 * * *' --zone Europe/Berlin --from 2026-03-28T00:00:00Z --count 3
expect "next shows local times" 0 'is:Sat 2026-03-28T02:30:00+01:00
Sun 2026-03-29T03:30:00+02:00
Mon 2026-03-30T02:30:00+02:00'
w cron next '@every 250ms' --from 2026-03-28T00:00:00Z --count 1 --json
expect "next writes JSON" 0 \
	'is:{"at":"2026-03-28T00:00:00.250Z","local":"2026-03-28T00:00:00.250Z","unix_ms":1774656000250}'
w cron next @daily
expect "next shows ten times from now on" 0
check "they are ten" is "$(wc -l <<<"$out")" 10
w cron next '* * * *'
expect "an expression of four fields is refused" 2 'err:has 4 fields instead of five'
w cron next @daily --zone Europe/Berln
expect "an unknown zone is refused with the nearest name" 2 "err:did you mean 'Europe/Berlin'"
w cron next @daily --from yesterday
expect "a time that is not one is refused" 2 "err:--from: 'yesterday' is not a time"
w cron next @daily --count 0
expect "a count of none is refused" 2 'err:write a number from 1 to 10000'
w cron next @yearly --from 9998-06-01T00:00:00Z --count 2
expect "times end with the year 9999" 1 'is:Fri 9999-01-01T00:00:00Z' 'err:before the year 10000'
w cron next
expect "a schedule is required" 2 'err:cron next needs SCHEDULE'
out=$(TZDIR=/nowhere "$wherry" cron next @daily --zone Europe/Berlin 2>"$tmp/.err")
status=$? err=$(cat "$tmp/.err")
expect "a database that is missing is an error" 1 'err:install the package tzdata'

# ---- beside croniter ----

cases=${WHERRY_SCHEDULES:-400}
seed=${WHERRY_SCHEDULES_SEED:-$((RANDOM * 32768 + RANDOM))}
python=/usr/bin/python3 # Debian's, which has Debian's croniter
if "$python" -c 'import croniter' 2>/dev/null; then
	out=$("$python" "$source_dir/tests/system/schedules.py" "$build_dir/tests/system_schedule_main" \
		"$cases" "$seed" 2>"$tmp/.err")
	status=$? err=$(cat "$tmp/.err")
	expect "$cases random schedules have the times of croniter and zoneinfo" 0
	sed 's/^/# /' <<<"$out"
else
	skip "random schedules have the times of croniter" "install python3-croniter"
fi
finish
