#!/usr/bin/env bash
# The commands that operators change data with, on a terminal and without one: what they print, and what
# those that delete ask.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

# Run wherry on a terminal, where $1 is typed.  Its output and messages are $out.
w_typed() {
	local typed=$1
	shift
	out=$(timeout 60 python3 - "$typed" "$wherry" "$@" <<'END'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(fd, sys.argv[1].encode())
out = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    out += part
sys.stdout.write(out.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
	)
	status=$? err=
}

# A database with something for each command.
{
	"$wherry" create sqlite:shop.db
	printf '{"n":1}\n{"n":2}\n{"n":3}\n' | "$wherry" enqueue --lines sqlite:shop.db --topic t --key /n
	sql shop.db "UPDATE outbox SET created_at = 1000 WHERE id = 1; UPDATE outbox_progress SET high = 2;
		INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 2, 4)"
	"$wherry" create --kind queue sqlite:shop.db#jobs
	for i in 1 2; do "$wherry" send sqlite:shop.db#jobs "{\"n\":$i}"; done
	sql shop.db "UPDATE jobs SET state = 4 WHERE id = 1"
	"$wherry" create --kind delayed sqlite:shop.db
	for key in a b; do "$wherry" offer sqlite:shop.db#delayed/mail hi --key $key; done
	token=$("$wherry" poll sqlite:shop.db#delayed/mail --json | python3 -c \
		'import json, sys; print(json.load(sys.stdin)["token"])')
	"$wherry" nack sqlite:shop.db#delayed/mail "$token" --dead
	"$wherry" create --kind inbox sqlite:shop.db
	sql shop.db "INSERT INTO inbox(consumer, message_id, accepted_at) VALUES ('', 'm1', 1000)"
	"$wherry" create --kind cron sqlite:shop.db
	"$wherry" cron install sqlite:shop.db#delayed/mail report @daily
} >/dev/null 2>&1
sql shop.db "VACUUM INTO 'furnished.db'"

furnish() {
	rm -f shop.db shop.db-*
	cp furnished.db shop.db
}

# What is in the database, but for the statistics that opening it may write.
content() {
	sqlite3 "$1" .dump | grep -v sqlite_stat | cksum
}

furnish
check "the database has what is to be deleted" is \
	"$(sql shop.db "SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM jobs), (SELECT count(*) FROM delayed),
		(SELECT count(*) FROM inbox), (SELECT count(*) FROM cron)")" "3|2|2|1|1"

# ---- every command that deletes ----

while read -r command; do
	read -ra words <<<"$command"
	furnish
	before=$(content shop.db)

	w "${words[@]}"
	expect "without a terminal $command wants --yes" 2 "err:confirm it with --yes" "is:"
	check "and has changed nothing" is "$(content shop.db)" "$before"
	w "${words[@]}" --dry-run
	expect "--dry-run says what $command would do" 0 "out:dry run: " "no:event="
	check "and does not do it" is "$(content shop.db)" "$before"
	w "${words[@]}" --dry-run --json
	planned=$out
	check "and does not do it in JSON either" is "$(content shop.db)" "$before"
	w_typed $'n\n' "${words[@]}"
	expect "on a terminal $command asks" 1 "out:? [y/N]" "out:nothing was changed"
	check "and no is no" is "$(content shop.db)" "$before"
	w_typed $'y\n' "${words[@]}"
	expect "yes is yes, and no line of a log stands beside the answer" 0 "no:event="
	check "and it is done" test "$(content shop.db)" != "$before"
	furnish
	w "${words[@]}" --yes --json
	expect "with --yes $command does not ask" 0 "no:y/N" "err:event=operator action="
	check "and does it" test "$(content shop.db)" != "$before"
	check "and --dry-run printed the same numbers" is "$planned" "${out%\}},\"dry_run\":true}"
done <<'END'
discard sqlite:shop.db 3
discard sqlite:shop.db#jobs 2
purge sqlite:shop.db --older-than 1h
drop sqlite:shop.db
discard sqlite:shop.db#jobs --all
discard sqlite:shop.db#jobs --state dead
drop sqlite:shop.db#jobs
discard sqlite:shop.db#delayed/mail --state dead
discard sqlite:shop.db#delayed/mail b
discard sqlite:shop.db#delayed/mail --all
drop sqlite:shop.db#delayed
inbox forget sqlite:shop.db --message m1
purge sqlite:shop.db#inbox --older-than 1h
drop sqlite:shop.db#inbox
cron uninstall sqlite:shop.db#delayed/mail report @daily
cron forget sqlite:shop.db report
END

furnish
w purge sqlite:shop.db --older-than 1h --dry-run
expect "--dry-run counts what purge would delete" 0 \
	"is:dry run: 1 message purged"
w purge sqlite:shop.db --older-than 3650000d --dry-run
expect "and does not count what is younger" 0 "is:dry run: 0 messages purged"
w drop sqlite:shop.db#jobs --dry-run --json
json "and it is there in JSON" 'd == {"messages": 2, "dry_run": True}'

# ---- the others that leave a record ----

while read -r command; do
	read -ra words <<<"$command"
	furnish
	w "${words[@]}"
	expect "$command leaves a record in a pipe" 0 "err:event=operator action="
	furnish
	w_typed '' "${words[@]}"
	expect "and none on a terminal" 0 "no:event=" "no:action="
done <<'END'
create sqlite:shop.db
pause sqlite:shop.db
resume sqlite:shop.db
retry sqlite:shop.db --all
seek sqlite:shop.db start
pause sqlite:shop.db#jobs
retry sqlite:shop.db#jobs --all
retry sqlite:shop.db#jobs --all
retry sqlite:shop.db#delayed/mail --all
cron install sqlite:shop.db#delayed/mail other @hourly
END

finish
