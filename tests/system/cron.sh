#!/usr/bin/env bash
# `wherry cron`: the ticks of schedules on a delayed queue.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

db=sqlite:shop.db
hour=3600000

w create --kind cron "$db"
expect "create makes the table" 0 "is:the table 'cron' of schedules is ready"
w create --kind cron "$db" --json
expect "creating it again is fine" 0 'is:{"url":"sqlite:shop.db","table":"cron","kind":"cron"}'
w create --kind cron "$db" --print
expect "create prints its SQL" 0 'out:CREATE TABLE IF NOT EXISTS "cron"'
w cron install "$db#delayed/jobs" report '@hourly'
expect "install needs the queue's table" 1 "err:there is no delayed queue 'delayed'"
check "the table of delayed queues is made" "$build_dir/tests/system_delayed_main" "$db"

w cron install "$db#delayed/jobs" report '@every 1h' --body hello --ahead 90m
expect "install makes the next ticks" 0 'out: installed'
installed=${out%% *}
check "one or two of them" test "$installed" -ge 1 -a "$installed" -le 2
keys() {
	sql shop.db "SELECT count(*) FROM delayed WHERE pKey LIKE 'report/4916474562628112070d240d515ba44d/%'
		AND scheduledAt % $hour = 0 AND payload = CAST('hello' AS BLOB)"
}
check "their keys have prefix, hash and time" is "$(keys)" "$installed"
w tables "$db" --json
json "tables lists the table of schedules, and counts them" \
	'[(t["kind"], t["layout"], t["messages"]) for t in l if t["table"] == "cron"] == [("cron", "native", 1)]'
w cron install "$db#delayed/jobs" report '@every 1h' --body hello
expect "a tick that was made is not made again" 0 'is:0 ticks installed'
w cron install "$db#delayed/jobs" report '06:00' --zone Europe/Berlin --json
expect "another schedule takes its place" 0 'is:{"installed":1}' 'err:event=operator'
check "the old ticks are gone" is "$(keys)" 0
w cron list "$db"
expect "list shows each schedule as it was written, its queue and its next tick" 0 \
	'out:4916474562628112070d240d515ba44d' 'out:@every 1h' 'out:delayed queue jobs' 'out:T06:00:00+0'
check "of the active one" is "$(grep -c 'T06:00:00+0[12]:00  yes' <<<"$out")" 1
w cron list "$db" --json
json "list writes JSON" 'sorted((e["name"], e["active"]) for e in l) == [("report", False), ("report", True)]
	and [(e["schedule"], e["zone"], e["sends_to"], e["next"][13:16]) for e in l if e["active"]] ==
	[("06:00", "Europe/Berlin", "delayed queue jobs", ":00")] and [e["next"] for e in l if not e["active"]] == [None]'
"$wherry" create "$db" >/dev/null 2>&1
w status "$db"
expect "status lists the active schedule" 0 'out:schedule    report: 06:00 Europe/Berlin, to delayed queue jobs, ticks' 'out:ticks made until 20'
w status "$db" --json
json "also as JSON" '[(e["name"], e["until"][:2]) for e in d["schedules"]] == [("report", "20")]'
w cron uninstall "$db#delayed/jobs" report '@every 1h' --yes
expect "uninstall leaves the ticks of others alone" 0 'is:0 ticks uninstalled'
w cron uninstall "$db#delayed/jobs" report '06:00' --zone Europe/Berlin --yes
expect "uninstall removes its own" 0 'is:1 tick uninstalled'
check "nothing is left" is "$(sql shop.db 'SELECT count(*) FROM delayed')" 0

# A week without a call: six ticks were missed.
missed() {
	w cron install "$db#delayed/jobs" "$1" '12:00' --catch-up "$1"
	sql shop.db "UPDATE cron SET until_ms = until_ms - 7 * 24 * $hour WHERE name = '$1'"
	sql shop.db "DELETE FROM delayed"
	w cron install "$db#delayed/jobs" "$1" '12:00' --catch-up "$1"
}
missed last
expect "the last of the missed ticks is made up for" 0 'is:2 ticks installed'
missed all
expect "or all of them are" 0
check "those are six of a week, and the next one" is "$out" "7 ticks installed"
w cron install "$db#delayed/jobs" often '* * * * *' --ahead 3650d
expect "install says that it stopped early" 0 'out:10000 ticks installed, up to 20' 'out:run it again for more'
w cron install "$db#delayed/jobs" often '* * * * *' --ahead 3650d --json
expect "and goes on from there" 0 'out:{"installed":10000,"up_to":"20'
w cron install "$db#delayed/jobs" later '@daily' --ahead 1000000000d
expect "a duration out of range is called that" 2 "err:'1000000000d' is out of range"
# A table of the first version has no columns for what a person wants to know.
w create --kind cron sqlite:old.db
w create --kind delayed sqlite:old.db
sql old.db "ALTER TABLE cron DROP COLUMN schedule; ALTER TABLE cron DROP COLUMN zone; ALTER TABLE cron DROP COLUMN sends_to;
	UPDATE wherry_schema SET version = 1 WHERE model = 'cron';
	INSERT INTO cron VALUES ('my program', 'report', 'h', 1000, 1)"
w cron list sqlite:old.db
expect "a table of an older version names the command that brings it up to date" 2 \
	'err:an older version of Wherry made the cron' 'err:`wherry create --kind cron sqlite:old.db#cron`'
w create --kind cron sqlite:old.db#cron
w cron list sqlite:old.db
expect "which keeps what it remembers" 0 'out:report  -' 'out:my program'

# What the doctor says of a database without an outbox.
w create --kind cron sqlite:alone.db
w doctor sqlite:alone.db --verbose
expect "the doctor looks at a database that has schedules alone" 0 "out:there is no outbox 'outbox', but the cron 'cron'" \
	"out:the database can be written" "no:could not be checked"
sql alone.db "INSERT INTO cron(target, name, hash, until_ms, active) VALUES ('wherry run', 'report', 'h', 1000, 1)"
w doctor sqlite:alone.db
expect "and finds a schedule without a daemon there" 1 "out:schedule report: no \`wherry run\` has made its ticks"
w doctor sqlite:alone.db 42
expect "a message of an outbox that is not there cannot be explained" 1 "err:there is no outbox 'outbox'"
w create --kind delayed sqlite:later.db#later
w doctor sqlite:later.db --verbose --json
json "the doctor looks at a database that has delayed queues alone" \
	'd["bad"] == 0 and [f["what"] for f in d["findings"] if f["check"] == "outbox"] ==
	["there is no outbox '"'outbox'"', but the table of delayed queues '"'later'"'"]'
sqlite3 empty.db 'CREATE TABLE t(a)'
w doctor sqlite:empty.db
expect "a database without any of Wherry's tables is refused" 1 "err:there is no outbox 'outbox'"

# What the doctor says of the table "cron".
w create "$db"
now_ms='(SELECT ms FROM wherry_clock)'
remember() { # TARGET SECONDS: a schedule whose ticks were made up to so long ago
	sql shop.db "DELETE FROM cron; INSERT INTO cron(target, name, hash, until_ms, active) VALUES ('$1', 'report', 'h', $now_ms - $2 * 1000, 1)"
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
"$wherry" cron install "$db#delayed/jobs" emptied '@every 1h' --ahead 3h >/dev/null 2>&1
w doctor "$db" --verbose
expect "ticks that are there are well" 0 'no:emptied'
sql shop.db "DELETE FROM delayed"
w doctor "$db"
expect "the doctor finds that their messages were removed" 1 'out:schedule emptied: ticks were installed for the next' \
	"out:wherry cron forget $db emptied --yes"
w cron install "$db#delayed/jobs" emptied '@every 1h' --ahead 3h
expect "the next install makes them again" 0 'no:0 ticks'
w doctor "$db"
expect "and all is well" 0 'no:emptied'
remember 'wherry run' -600
next_ms=$(("$(sql shop.db "UPDATE cron SET schedule = '@every 1h'; SELECT until_ms FROM cron")" / 3600000 * 3600000 + 3600000))
w cron list "$db" --json
json "list names no tick that will not be made" "[e['unix'] if 'unix' in e else e['next'][:16] for e in l] ==
	['$(date -u -d "@$((next_ms / 1000))" +%FT%R)']"
w cron forget "$db" report </dev/null
expect "forgetting asks first" 2 'err:--yes'
w cron forget "$db" report --yes
expect "a schedule is forgotten" 0 'is:1 schedule forgotten' 'err:event=operator'
w cron forget "$db" report --yes
expect "and unknown then" 1 "err:has no schedule 'report'"
w doctor "$db"
expect "and the doctor does not ask for it" 0 'no:report'
remember 'my program' 600
expect "what a program of its own does is not judged" 0 'out:cron                the ticks of every active'

w cron install "$db#delayed/jobs" report '12:00' --catch-up some
expect "another way to catch up is refused" 2 'err:write none, last or all'
w cron install "$db#delayed/jobs" a/b '12:00'
expect "a prefix with a slash is refused" 2 "err:without '/'"
w cron install "$db" report '12:00'
expect "a queue is required" 2 'err:needs URL#TABLE/QUEUE'
finish
