#!/usr/bin/env bash
# `wherry cron`: the ticks of schedules on a delayed queue.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

db=sqlite:shop.db
hour=3600000

w cron create "$db"
expect "create makes the table" 0 "is:cron 'cron' is ready"
w cron create "$db" --json
expect "creating it again is fine" 0 'is:{"cron":"ready"}'
w cron create "$db" --print
expect "create prints its SQL" 0 'out:CREATE TABLE IF NOT EXISTS "cron"'
w cron install "$db" report '@hourly' --queue jobs
expect "install needs the queue's table" 1 "err:there is no delayed queue 'delayed'"
check "the table of delayed queues is made" "$build_dir/tests/system_delayed_main" "$db"

w cron install "$db" report '@every 1h' --queue jobs --body hello --ahead 90m
expect "install makes the next ticks" 0 'out: installed'
installed=${out%% *}
check "one or two of them" test "$installed" -ge 1 -a "$installed" -le 2
keys() {
	sql shop.db "SELECT count(*) FROM delayed WHERE pKey LIKE 'report/4916474562628112070d240d515ba44d/%'
		AND scheduledAt % $hour = 0 AND payload = CAST('hello' AS BLOB)"
}
check "their keys have prefix, hash and time" is "$(keys)" "$installed"
w cron install "$db" report '@every 1h' --queue jobs --body hello
expect "a tick that was made is not made again" 0 'is:0 installed'
w cron install "$db" report '06:00' --zone Europe/Berlin --queue jobs --json
expect "another schedule takes its place" 0 'is:{"installed":1}' 'err:event=operator'
check "the old ticks are gone" is "$(keys)" 0
w cron list "$db"
expect "list shows what is remembered" 0 'out:4916474562628112070d240d515ba44d' 'out:delayed delayed'
w cron list "$db" --json
json "list writes JSON" 'sorted((e["name"], e["active"]) for e in l) == [("report", False), ("report", True)]'
"$wherry" init "$db" >/dev/null 2>&1
w status "$db"
expect "status lists the active schedule" 0 'out:schedule    report: delayed delayed' 'out:ticks made until 20'
w status "$db" --json
json "also as JSON" '[(e["name"], e["until"][:2]) for e in d["schedules"]] == [("report", "20")]'
w cron uninstall "$db" report '@every 1h' --queue jobs
expect "uninstall leaves the ticks of others alone" 0 'is:0 uninstalled'
w cron uninstall "$db" report '06:00' --zone Europe/Berlin --queue jobs
expect "uninstall removes its own" 0 'is:1 uninstalled'
check "nothing is left" is "$(sql shop.db 'SELECT count(*) FROM delayed')" 0

# A week without a call: six ticks were missed.
missed() {
	w cron install "$db" "$1" '12:00' --queue jobs --catch-up "$1"
	sql shop.db "UPDATE cron SET until_ms = until_ms - 7 * 24 * $hour WHERE name = '$1'"
	sql shop.db "DELETE FROM delayed"
	w cron install "$db" "$1" '12:00' --queue jobs --catch-up "$1"
}
missed last
expect "the last of the missed ticks is made up for" 0 'is:2 installed'
missed all
expect "or all of them are" 0
check "those are six of a week, and the next one" is "$out" "7 installed"
# What the doctor says of the table "cron".
w init "$db"
now_ms='(SELECT ms FROM wherry_clock)'
remember() { # TARGET SECONDS: a schedule whose ticks were made up to so long ago
	sql shop.db "DELETE FROM cron; INSERT INTO cron VALUES ('$1', 'report', 'h', $now_ms - $2 * 1000, 1)"
	w doctor "$db" --verbose
}
remember 'wherry run' 20
expect "a schedule whose ticks are made is well" 0 'out:cron                the ticks of every active'
remember 'wherry run' 600
expect "the doctor finds a schedule without a daemon" 1 \
	'out:schedule report: no `wherry run` has made its ticks for 10m'
remember 'wherry run' -600
expect "and a clock that was set back" 1 'out: ahead of the database' 'out:set back'
remember 'delayed delayed x' 600
expect "and ticks that are used up" 0 'out:its last tick was due 10m'
remember 'delayed delayed x' -600
expect "ticks that wait are well" 0 'out:cron                the ticks of every active'
remember 'my program' 600
expect "what a program of its own does is not judged" 0 'out:cron                the ticks of every active'

w cron install "$db" report '12:00' --queue jobs --catch-up some
expect "another way to catch up is refused" 2 'err:write none, last or all'
w cron install "$db" a/b '12:00' --queue jobs
expect "a prefix with a slash is refused" 2 "err:without '/'"
w cron install "$db" report '12:00'
expect "a queue is required" 2 'err:needs --queue'
finish
