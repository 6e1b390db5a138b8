#!/usr/bin/env bash
# Drives the real program: what operators see and do, signals, the manual.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

"$wherry" create sqlite:shop.db >/dev/null
"$wherry" enqueue --lines sqlite:shop.db --topic quakes --id /id --from "$quakes" >/dev/null

# ---- list, show, pause ----

w create sqlite:ops.db
w_in $'{"n":1}\n{"n":2}\n{"n":3}' enqueue --lines sqlite:ops.db --topic a --id /n --key /n
w_in $'"x"\n"y"' enqueue --lines sqlite:ops.db --topic b --aggregate-type thing --aggregate-id ''
w list sqlite:ops.db
expect "list is a table" 0 "out:ID  STATE" "out:pending"
w list sqlite:ops.db --json
json "list answers with one object a line, the newest first" \
	'[m["id"] for m in l] == [5, 4, 3, 2, 1] and d["state"] == "pending"'
w list sqlite:ops.db --limit 2 --json
json "a limit holds" 'len(l) == 2'
expect "and says how to see more" 0 "err:\`wherry list sqlite:ops.db --json --limit 20\`"
w list sqlite:ops.db --limit 2 --all --json
json "all are listed by id" '[m["id"] for m in l] == [5, 4]'
expect "and a page says where the next begins" 0 "err:--before 4"
w list sqlite:ops.db --limit 2 --before 4 --json
json "which can be asked for" '[m["id"] for m in l] == [3, 2]'
w list sqlite:ops.db --limit 2 --after 1 --json
json "from the oldest up as well" '[m["id"] for m in l] == [2, 3]'
expect "with its next page" 0 "err:--after 3"
w list sqlite:ops.db --before 4 --after 1
expect "one direction at a time" 2 "err:give one of them"
w list sqlite:ops.db --topic 'a*' --older-than 1h --json
json "an age excludes what is younger" 'l == []'
w list sqlite:ops.db --topic 'a*' --json
json "topics are found by their beginning" '[m["id"] for m in l] == [3, 2, 1]'
w list sqlite:ops.db --text '"n":2' --json
json "messages are found by a text in their bodies" '[m["id"] for m in l] == [2]'
w list sqlite:ops.db --after 2 --topic a --json
json "pages and conditions go together" '[m["id"] for m in l] == [3]'
w list sqlite:ops.db --key x --json
json "a key is found where it is the aggregate's id" '[m["id"] for m in l] == [4]'
w list sqlite:ops.db --state done,dead
expect "nothing to list is no error" 0 "is:" "err:no messages"
w list sqlite:ops.db --since 1h --json
json "an age includes what is younger" 'len(l) == 5'

w show sqlite:ops.db 4
expect "show names what a pending message waits for" 0 \
	"out:why:            no relay is running"
w show sqlite:ops.db 99
expect "a message that is not there is an error" 1 "err:99"
w pause sqlite:ops.db
expect "pause says so" 0 "out:is paused"
by="by=$(id -un)@$(hostname)"
expect "and leaves a record of who did it" 0 "err:event=operator action=pause " \
	"err:from=sqlite:ops.db table=outbox rows=0 $by"
w status sqlite:ops.db
expect "status warns of it" 0 "out:paused"
w show sqlite:ops.db 1 --json
json "show answers in JSON, with why" \
	'd["body"] == {"n": 1} and d["state"] == "pending" and "paused" in d["why"]'
w relay sqlite:ops.db stdout: --until-empty --timeout 500ms
expect "a paused outbox delivers nothing; the relay times out with 5" 5 "is:" \
	"err:0 delivered"
w resume sqlite:ops.db --json
json "resume answers in JSON" 'd == {"paused": False}'
expect "and leaves a record too" 0 "err:event=operator action=resume "
w relay sqlite:ops.db stdout: --until-empty --quiet
json "then it delivers" 'len(l) == 5'

sql ops.db "INSERT INTO outbox(topic, payload) VALUES ('bin', x'00ff0102')"
sql ops.db "INSERT INTO outbox(topic, partition_key, payload)
	VALUES ('esc', char(27) || '[2J', 'plain' || char(10) || 'text')"
w show sqlite:ops.db 6
expect "a body that is not text is shown in hex" 0 "out:4 bytes that are not text" \
	"out:00 ff 01 02"
w show sqlite:ops.db 7
expect "control characters do not reach the terminal" 0 "out:?[2J" "out:plain" \
	"no:"$'\033'
w list sqlite:ops.db
expect "nor in a list" 0 'out:\u001b[2J' "no:"$'\033'
w relay sqlite:ops.db stdout: --until-empty --quiet
json "rows written by plain SQL are delivered, bytes in base64" \
	'[m.get("body_base64") for m in l] == ["AP8BAg==", None] and
	 l[1]["body"] == "plain\ntext" and len(d["message_id"]) == 36'
w show sqlite:ops.db 6
expect "show says that it was delivered" 0 "out:why:            delivered"

# ---- commands as destination: exit statuses, retry, seek, purge ----

fast=(--set retry.base=1ms --set retry.cap=5ms --set retry.attempts=3)
w create sqlite:exec.db
w_in $'{"n":1}\n{"n":2}' enqueue --lines sqlite:exec.db --topic t --id /n --key /n --header a=b
w relay sqlite:exec.db 'exec:cat >body.$WHERRY_ID; env | grep ^WHERRY_ >env.$WHERRY_ID' \
	--until-empty
expect "a command that exits 0 has delivered" 0 "err:2 delivered, 0 retried, 0 dead"
check "its standard input is the body" is "$(cat body.2)" '{"n":2}'
grep -v -e CREATED_AT -e GENERATION env.2 | sed 's/^WHERRY_//' | sort >env.got
printf '%s\n' AGGREGATE_ID= AGGREGATE_TYPE= ATTEMPTS=0 'HEADERS={"a":"b"}' \
	ID=2 KEY=2 MESSAGE_ID=2 TOPIC=t TRACE_ID= >env.wanted
check "its environment has the rest" diff env.wanted env.got

w create sqlite:lines.db
w_in $'{"n":3}\n{"n":4}' enqueue --lines sqlite:lines.db --topic t
w relay sqlite:lines.db 'exec:{ cat; echo; } >>lines' --until-empty --set exec.jobs=1
check "a body has no line break at its end; echo adds it" is "$(cat lines)" $'{"n":3}\n{"n":4}'

w_in '{}' enqueue --lines sqlite:exec.db --topic again
w relay sqlite:exec.db 'exec:test $WHERRY_ATTEMPTS = 2 || exit 75' --until-empty \
	"${fast[@]}"
expect "exit 75 is tried again until it works" 0 "err:1 delivered, 2 retried, 0 dead"

w_in '{}' enqueue --lines sqlite:exec.db --topic poison --id '' 2>/dev/null
w_in '"p1"' enqueue --lines sqlite:exec.db --topic poison --id ''
w relay sqlite:exec.db 'exec:echo "no such customer" >&2; exit 65' --until-empty \
	"${fast[@]}"
expect "exit 65 is dead at once, and the relay exits 3" 3 \
	"err:0 delivered, 0 retried, 1 dead" \
	"err:--state dead"
w show sqlite:exec.db p1
expect "show says why it is dead, and what to do" 0 "out:no such customer" \
	"out:wherry retry sqlite:exec.db"
w status sqlite:exec.db
expect "status warns of the dead" 0 "out:dead        1" "out:1 message is dead"
w_in '{}' enqueue --lines sqlite:exec.db --topic fine
w list sqlite:exec.db --json
json "list shows problems first and leaves out what is delivered" \
	'[m["state"] for m in l] == ["dead", "pending"]'
w relay sqlite:exec.db null: --until-empty --quiet
w list sqlite:exec.db --state dead --json
json "list finds it by state" 'len(l) == 1 and "no such customer" in d["last_error"]'

w retry sqlite:exec.db 1
expect "retry of a delivered message is an error that names its state" 1 \
	"err:message 1 is done"
w retry sqlite:exec.db nothere
expect "retry of a message that is not there is an error" 1 "err:nothere" "no:event=operator"
sql exec.db "UPDATE outbox SET payload = '{\"n\":\"corrected\"}' WHERE message_id = 'p1'"
w retry sqlite:exec.db p1
expect "retry makes the dead pending, and leaves a record" 0 "is:1 message is pending again" \
	"err:event=operator action=retry from=sqlite:exec.db table=outbox rows=1 $by"
w retry sqlite:exec.db p1
expect "twice is an error that names the state" 1 "err:is pending, not dead or failed"
w relay sqlite:exec.db stdout: --until-empty
expect "and it is delivered, with the body that was corrected" 0 "err:1 delivered" 'out:"body":{"n":"corrected"}'

w create sqlite:shelf.db
w_in $'{"n":1,"k":"a"}\n{"n":2,"k":"a"}' enqueue --lines sqlite:shelf.db --topic t --id /n --key /k
w relay sqlite:shelf.db 'exec:exit 65' --until-empty "${fast[@]}" --on-dead park
expect "a parked key is left behind: exit 4" 4 "err:1 dead"
w show sqlite:shelf.db 2
expect "show names the dead message that parks a key, and what to do" 0 \
	"out:message 1 of its key is dead" "out:\`wherry retry sqlite:shelf.db 1\`"
w show sqlite:shelf.db 2 --json
json "and in JSON" 'd["parked_by"] == 1 and "wherry retry" in d["why"]'
w retry sqlite:shelf.db 1
w relay sqlite:shelf.db null: --until-empty --quiet --on-dead park
expect "and that is the way out" 0 "is:"

w create sqlite:held.db
w_in $'{"n":1,"k":"a"}\n{"n":2,"k":"a"}\n{"n":3,"k":"b"}' enqueue --lines sqlite:held.db --topic t --id /n \
	--key /k
w relay sqlite:held.db 'exec:exit 75' --until-empty --timeout 1s --set retry.base=1h \
	--set retry.cap=1h --set relay.down_after=1000
w_in '{"n":4,"k":"c"}' enqueue --lines sqlite:held.db --topic t --id /n --key /k
w status sqlite:held.db --json
json "a message that waits behind a failed one is not ready" \
	'(d["pending"], d["failed"], d["ready"]) == (2, 2, 1)'
sql held.db 'DELETE FROM outbox WHERE id = 4'
w status sqlite:held.db --json
json "and has no age to be alarmed about" 'd["ready"] == 0 and d["oldest_ready_us"] == 0'

# ---- status and doctor for people ----

w create sqlite:face.db
for table in my_column columns; do
	w status sqlite:face.db#$table
	expect "a table that is missing is not called damaged: $table" 1 "no:not as Wherry made it" \
		"err:there is no table '$table' of Wherry ("
done
w status sqlite:face.db
check "status begins with one line that says whether a relay is running" is "$(head -n 1 <<<"$out")" \
	"every message is delivered; no relay is running"
w_in '{}' enqueue --lines sqlite:face.db --topic t
w status sqlite:face.db
check "or what is not" is "$(head -n 1 <<<"$out")" \
	"warning     no relay is running: \`wherry help relay\` shows how to start one"
w create sqlite:lag.db
w relay sqlite:lag.db null: --until-empty
w_in '{}' enqueue --lines sqlite:lag.db --topic t
sql lag.db "INSERT INTO outbox_exception(subscription, id, state, attempts, next_retry_at)
		VALUES ('relay', 1, 3, 1, 9999999999999);
	UPDATE wherry_lease SET process = '', state = 'leading', error = '', expires_at = (SELECT ms FROM wherry_clock) + 60000"
w status sqlite:lag.db
expect "the command that lists failed messages names their outbox" 0 \
	"out:1 message has failed and is tried again: \`wherry list sqlite:lag.db --state failed\`"

w create sqlite:two.db
"$wherry" relay sqlite:two.db null: --lease 2s 2>two.log &
first=$!
until_true 20 grep -q event=leading two.log
"$wherry" relay sqlite:two.db file:two.out --lease 2s 2>two.log &
second=$!
pids+=("$first" "$second")
check "a relay stands by behind another destination" until_true 20 grep -q event=other-destination two.log
kill -KILL "$first"
check "and takes over from it" until_true 20 grep -q event=leading two.log
taken=$(sql two.db 'SELECT expires_at FROM wherry_lease')
renewed() {
	[ "$(sql two.db 'SELECT expires_at FROM wherry_lease')" != "$taken" ]
}
until_true 20 renewed
w status sqlite:two.db
expect "that it stood by was no failed delivery" 0 "out:destination file:two.out" "no:last error"
kill "$second"
wait "$first" "$second" 2>/dev/null
out=$(timeout 60 "$wherry" status sqlite:face.db --watch --every 100ms | head -n 40)
check "--watch shows it again and again" test "$(grep -c '^table ' <<<"$out")" -ge 2
# top: the fullest table first, and how fast it fills.
w create --kind queue sqlite:top.db#jobs
w create sqlite:top.db
w enqueue sqlite:top.db '{}' --topic t
timeout 60 "$wherry" top sqlite:top.db --every 50ms --json >top.ndjson &
top=$!
top_says() { # WORDS: a line of top's that has them
	until grep -q "$1" top.ndjson; do kill -0 "$top" || return; done
}
check "top begins with the fullest table" top_says '"table":"jobs"'
check "which is the outbox" grep -q '"table":"outbox".*"messages":1,"change_per_s":null,"ready":1' <(head -n 1 top.ndjson)
seq 3 | sed 's/.*/{}/' | while read -r body; do w send sqlite:top.db#jobs "$body"; done
check "it says how fast messages become more" top_says '"table":"jobs".*"messages":[1-3],"change_per_s":[1-9]'
"$wherry" relay sqlite:top.db null: 2>/dev/null &
relay=$!
check "and fewer, and which relay delivers them" top_says '"table":"outbox".*"change_per_s":-[1-9].*"relay":"'
w drop sqlite:top.db#jobs --yes
until ! tail -n 1 top.ndjson | grep -q '"table":"jobs"'; do kill -0 "$top" || break; done
check "a table that was dropped is left out" kill -0 "$top"
kill "$relay" "$top"
wait "$relay" "$top" 2>/dev/null
out=$(timeout 60 "$wherry" top sqlite:top.db --every 100ms | head -n 12)
check "in a pipe each look follows the last" test "$(grep -c '^TABLE .*CHANGE/S' <<<"$out")" -ge 2
out=$(TERM=xterm timeout 60 python3 - "$wherry" top sqlite:top.db --every 1h <<-'END'
	import os, pty, sys
	child, terminal = pty.fork()
	if child == 0:
	    os.execv(sys.argv[1], sys.argv[1:])
	shown = b""
	while b"outbox" not in shown:
	    shown += os.read(terminal, 4096)
	os.write(terminal, b"q")
	print(shown.decode(), "status", os.waitpid(child, 0)[1])
END
)
check "on a terminal q ends it at once" grep -q 'status 0' <<<"$out"

w doctor sqlite:face.db
expect "doctor shows what is wrong and counts the rest" 1 "out:bad   relay " "no:ok    writing" \
	"out: checks found nothing; --verbose lists them"
w doctor sqlite:face.db --verbose
expect "which --verbose lists" 1 "out:ok    writing"
on_terminal() { # COMMAND...: out is what a terminal gets
	out=$(TERM=xterm python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$@" \
		</dev/null 2>"$tmp/.err")
	status=$?
	err=$(cat "$tmp/.err")
}
on_terminal "$wherry" status sqlite:face.db
expect "a terminal gets colours" 0 "out:"$'\033[33mwarning'
NO_COLOR=1 on_terminal "$wherry" status sqlite:face.db
expect "unless NO_COLOR is set" 0 "no:"$'\033['
on_terminal "$wherry" relay sqlite:face.db 'exec:sleep 0.4' --until-empty
expect "and progress, which a pipe does not get" 0 "out:relay [" "out:1 delivered"

w create sqlite:body.db
sql body.db "INSERT INTO outbox(topic, payload) VALUES
	('long', '{\"a\":\"' || printf('%.4088c', 'x') || '\"}'),
	('deep', printf('%.400c', '[') || printf('%.400c', ']'))"
w show sqlite:body.db 1
expect "a long line of a body is shown whole" 0 \
	"out:\"a\": \"$(printf 'x%.0s' {1..4088})\""
w show sqlite:body.db 2
check "a deeply nested body is shown to its end" is 400 "$(tr -cd ']' <<<"$out" | wc -c)"

for i in 1 2 3; do echo "\"d$i\""; done >dead.ndjson
w enqueue --lines sqlite:exec.db --topic dying --from dead.ndjson --key ''
w relay sqlite:exec.db 'exec:exit 1' --until-empty "${fast[@]}" --set \
	relay.down_after=1000
expect "attempts run out: dead, exit 3" 3 "err:0 delivered, 6 retried" "err: refused, 3 dead"
w retry sqlite:exec.db --all --state failed
expect "no failed one is left to retry" 0 "is:0 messages are pending again"
w retry sqlite:exec.db --key d2 --json
json "retry by key, in JSON" 'd == {"retried": 1}'
w retry sqlite:exec.db --topic dying
expect "retry by topic" 0 "is:2 messages are pending again"
w relay sqlite:exec.db null: --until-empty --quiet

w_in '{}' enqueue --lines sqlite:exec.db --topic late
w relay sqlite:exec.db 'exec:exit 75' --until-empty --timeout 1s --set retry.base=1h \
	--set retry.cap=1h --set retry.jitter=off
expect "a retry that is not due in time: exit 5" 5 "err:--timeout passed"
w show sqlite:exec.db "$(sql exec.db 'SELECT max(id) FROM outbox')"
expect "show says when the next attempt is due" 0 "out:the next is due in "
w retry sqlite:exec.db --all --state all
expect "a failed one need not wait" 0 "is:1 message is pending again"
w relay sqlite:exec.db null: --until-empty --quiet

w_in '{}' enqueue --lines sqlite:exec.db --topic norun
w relay sqlite:exec.db 'exec:/no/such/command' --until-empty --timeout 1500ms
expect "a command that cannot be run: the destination is down, and it times out" 5 \
	"err:destination-down" "err:0 delivered, 0 retried, 0 dead"
w list sqlite:exec.db --topic norun --json
json "and no attempt was counted" '(d["state"], d["attempts"]) == ("pending", 0)'
w relay sqlite:exec.db null: --until-empty --quiet

w create sqlite:park.db
w_in $'{"k":"a","n":1}\n{"k":"a","n":2}\n{"k":"b","n":3}' enqueue --lines sqlite:park.db --topic \
	t --key /k --id /n
w relay sqlite:park.db 'exec:test $WHERRY_ID != 1 || exit 65' --until-empty --on-dead park
expect "a parked key holds back what is behind it: exit 4" 4 \
	"err:1 delivered, 0 retried, 1 dead" \
	"err:waits behind dead messages"
w retry sqlite:park.db 1
w relay sqlite:park.db stdout: --until-empty --quiet --on-dead park
json "after retry they are delivered in order" '[m["id"] for m in l] == [1, 2]'

w seek sqlite:park.db 2
w relay sqlite:park.db stdout: --until-empty --quiet
json "seek delivers from a message on" '[m["id"] for m in l] == [2, 3]'
w purge sqlite:park.db --older-than 1h --yes
expect "purge of a log leaves what is younger" 0 "is:0 messages purged" "no:event=operator"
w purge sqlite:park.db --older-than 0 --limit 2 --batch 1 --json --yes
json "a limit holds there" 'd == {"purged": 2}'
w purge sqlite:park.db --older-than 0 --yes
expect "and the rest of a log goes, on record" 0 "is:1 message purged" "err:action=purge " "err:rows=1 $by"

# ---- create --print, and names of one's own ----

w create sqlite:#billing --print
expect "create --print writes the SQL" 0 "out:CREATE TABLE" "out:billing"
printf '%s\n' "$out" | sqlite3 printed.db
w_in '{}' enqueue --lines sqlite:printed.db#billing --topic t
expect "which sqlite3 runs, and the outbox works" 0 "is:1 enqueued, 0 duplicates"
w relay sqlite:printed.db null: --until-empty --set relay.table=billing
expect "--set relay.table is the name in the URL" 0 "err:1 delivered"
w create sqlite:absent.db --print
check "create --print touches nothing" test ! -e absent.db
expect "a database that is not there lacks everything" 0 "out:CREATE TABLE"
w create sqlite:printed.db#billing --print
expect "on an outbox that is there it prints that nothing is missing" 0 \
	"is:-- outbox billing is there and lacks nothing"
sqlite3 printed.db "DROP TRIGGER billing_by_hand"
w create sqlite:printed.db#billing --print
printf '%s\n' "$out" | sqlite3 printed.db
w create sqlite:printed.db#billing
expect "else what is missing, which sqlite3 runs" 0 "out:it was there, and is up to date"
w create sqlite:printed.db#billing --print --all
expect "and with --all everything" 0 "out:CREATE TABLE IF NOT EXISTS"
w create sqlite:printed.db#billing --layout event-bus
expect "an outbox keeps its layout" 2 "err:billing"

# ---- signals ----

w create sqlite:run.db
"$wherry" relay sqlite:run.db file:run.ndjson 2>run.err &
relay=$!
pids+=("$relay")
w_in $'1\n2\n3' enqueue --lines sqlite:run.db --topic t
check "a running relay delivers what comes" until_true 10 lines run.ndjson 3
w status sqlite:run.db
expect "status names it" 0 "out:relay " "out:lease for " "no:warning"
w relay sqlite:run.db null: --until-empty --timeout 60s
expect "a second one stands by, and finds the outbox empty" 0 "err:event=standby"
kill -TERM "$relay"
wait "$relay"
status=$? out='' err=$(cat run.err)
expect "SIGTERM ends it with 0 and a summary" 0 "err:3 delivered, 0 retried, 0 dead"
w_in '4' enqueue --lines sqlite:run.db --topic t
w relay sqlite:run.db null: --until-empty --timeout 60s
expect "its lease was given back: the next one takes over at once" 0 "err:1 delivered"

w_in '5' enqueue --lines sqlite:run.db --topic t
"$wherry" relay sqlite:run.db 'exec:touch began; command sleep 30' 2>run.err &
relay=$!
pids+=("$relay")
until_true 10 test -e began
kill -INT "$relay"
command sleep 0.3
check "with a command in flight it waits for it" kill -0 "$relay"
kill -TERM "$relay"
wait "$relay"
status=$? out='' err=$(cat run.err)
expect "a further signal ends it at once with 130" 130

# ---- help, version, manual ----

w --version
expect "--version" 0 "out:wherry $(sed -n 's/^#define WHERRY_VERSION "\(.*\)"/\1/p' \
	"$source_dir/include/wherry/version.h")"
w version --json
json "version answers in JSON" '"version" in d'
w help settings
expect "help settings lists them" 0 "out:relay.lease  duration, 500ms to 1h, default 30s"
w help exit-codes
expect "help exit-codes" 0 "out:130"
w help format
expect "help format" 0 "out:WHERRY_MESSAGE_ID"
w help settins
expect "an unknown topic names the nearest" 2 "err:did you mean 'settings'?"
w help relay
help_relay=$out
w relay --help
expect "COMMAND --help is help COMMAND" 0 "is:$help_relay" "out:Examples:"

manual=$source_dir/docs/man/wherry.1
missing=
for command in $("$wherry" | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	grep -q "^\.It Ic $command\b" "$manual" || missing+=" $command"
	for option in $("$wherry" help "$command" | sed -n 's/^  --\([a-z-]*\).*/\1/p'); \
		do
		grep -q "Fl Fl $option\b" "$manual" || missing+=" $command --$option"
	done
done
for setting in $("$wherry" help settings | sed -n 's/^\([a-z]*\.[a-z_]*\)  .*/\1/p'); do
	grep -q "^\.It Cm $setting$" "$manual" || missing+=" $setting"
done
for code in $("$wherry" help exit-codes | sed -n 's/^ *\([0-9]*\)  .*/\1/p'); do
	grep -q "^\.It $code$" "$manual" || missing+=" exit status $code"
done
out=$missing err='' status=0
expect "the manual has every command, option, setting and exit status" 0 "is:"
if command -v mandoc >/dev/null; then
	check "the manual is sound" mandoc -T lint -W warning "$manual"
else
	skip "the manual is sound" "no mandoc"
fi

# ---- on a terminal ----

cat >on_terminal.py <<'END'
import os, pty, sys
status = pty.spawn(sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(status))
END
for i in $(seq 40); do echo "$i"; done >slow.ndjson
w create sqlite:slow.db
w enqueue --lines sqlite:slow.db --topic slow --key '' --from slow.ndjson
out=$(python3 on_terminal.py "$wherry" relay sqlite:slow.db 'exec:command sleep 0.05' \
	--until-empty \
	</dev/null | tr '\r' '\n')
status=${PIPESTATUS[0]} err=''
expect "on a terminal a relay until empty draws a bar" 0 "out:relay [" "out:% " \
	"out:40 delivered"
out=$(python3 on_terminal.py "$wherry" list sqlite:shop.db --limit 5 </dev/null | tr -d \
	'\r')
longest=$(awk '/^ *(ID|[0-9]+) / { if (length > n) n = length } END { print n }' \
	<<<"$out")
check "and a list keeps to its width" test "$longest" -le 80

# ---- bench ----

w bench --messages 500 --json
expect "bench runs and cleans up after itself" 0
json "and answers in JSON" \
	'd["messages"] == 500 and d["drain_per_second"] > 0 and d["latency_p50_ms"] >= 0'
check "its database is gone" is "$(ls -d "$tmp"/wherry-bench* 2>/dev/null)" ""
w bench sqlite:shop.db
expect "a bench refuses an outbox that is not empty" 2 "err:needs an empty"

finish
