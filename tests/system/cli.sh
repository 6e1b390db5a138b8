#!/usr/bin/env bash
# Drives the real program: what it prints, what it refuses, and how it exits.
#
#   WHERRY_BUILD=build WHERRY_SOURCE=. tests/system/cli.sh
#
# Writes TAP.  Works in a folder of its own; needs sqlite3 and python3.
set -u

source_dir=$(cd "${WHERRY_SOURCE:-$(dirname "$0")/../..}" && pwd)
build_dir=$(cd "${WHERRY_BUILD:-$source_dir/build}" && pwd)
wherry=$build_dir/wherry
export -n WHERRY_BUILD WHERRY_SOURCE # or commands would see them
quakes=$source_dir/examples/data/earthquakes.ndjson

tmp=$(mktemp -d "${TMPDIR:-/tmp}/wherry-cli.XXXXXX")
mounted=
pids=()

clean() {
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
	done
	[ -n "$mounted" ] && umount "$mounted"
	rm -rf "$tmp"
}
trap clean EXIT
cd "$tmp" || exit 1
export TMPDIR=$tmp

# ---- the harness ----

n=0
failed=0
out= err= status=

# Run wherry; its output, messages and exit status are what the checks look at.
w() {
	out=$("$wherry" "$@" 2>"$tmp/.err" </dev/null)
	status=$?
	err=$(cat "$tmp/.err")
}

# The same with standard input.
w_in() {
	local input=$1
	shift
	out=$(printf '%s' "$input" | "$wherry" "$@" 2>"$tmp/.err")
	status=$?
	err=$(cat "$tmp/.err")
}

result() {
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $n - $2"
	printf '# %s\n' "$3" "exit status $status" "out: ${out:0:600}" "err: ${err:0:600}" |
		sed '2,$s/^\([^#]\)/# \1/'
}

skip() {
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# expect SENTENCE STATUS [out:TEXT] [err:TEXT] [no:TEXT] [is:TEXT]...
# The exit status, and texts that stand in the output, in the messages, in neither;
# is: all of the output.
expect() {
	local sentence=$1 wanted=$2 why=
	shift 2
	[ "$status" = "$wanted" ] || why="exit status $status, not $wanted"
	for rule in "$@"; do
		local text=${rule#*:}
		case $rule in
		out:*) [[ $out == *"$text"* ]] || why="not in the output: $text" ;;
		err:*) [[ $err == *"$text"* ]] || why="not in the messages: $text" ;;
		no:*) [[ $out$err != *"$text"* ]] || why="should not be there: $text" ;;
		is:*) [[ $out == "$text" ]] || why="the output is not: $text" ;;
		esac
	done
	[ -z "$why" ]
	result $? "$sentence" "$why"
}

# check SENTENCE COMMAND...: the command succeeds.
check() {
	local sentence=$1
	shift
	"$@" >/dev/null 2>&1
	result $? "$sentence" "failed: $*"
}

# json SENTENCE PYTHON: the output parses, as d or as the list of lines l, and PYTHON holds.
json() {
	printf '%s\n' "$out" | python3 -c '
import json, sys
text = sys.stdin.read()
l = [json.loads(line) for line in text.splitlines() if line]
d = l[0] if l else None
sys.exit(0 if eval(sys.argv[1]) else 1)' "$2" 2>>"$tmp/.err"
	result $? "$1" "does not hold: $2"
}

sql() {
	sqlite3 -cmd '.timeout 5000' "$@"
}

is() {
	[ "$1" = "$2" ]
}

# until SECONDS COMMAND...: wait for it to succeed.
until_true() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -ge $deadline ] && return 1
		command sleep 0.05
	done
}

lines() {
	[ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

# ---- the quick start, and a real file ----

w
expect "alone it teaches: what it is and three commands to begin with" 0 \
	"out:wherry init sqlite:shop.db" "out:wherry enqueue" "out:wherry relay" "out:purge"

w init sqlite:shop.db
expect "init makes the database and says so" 0 "out:outbox 'outbox' is ready"
w init sqlite:shop.db --json
expect "init again is fine" 0
json "init answers in JSON" 'd["table"] == "outbox"'

w enqueue sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes"
expect "a file of 1707 lines is enqueued" 0 "is:1707 enqueued, 0 duplicates"
w enqueue sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" --json
expect "the same file again is all duplicates, which is no error" 0
json "and it says so in JSON" 'd == {"enqueued": 0, "duplicates": 1707}'

w status sqlite:shop.db
expect "status counts them, and warns that no relay is running" 0 \
	"out:pending     1707" "out:ready       1707" "out:no relay is running"
w status sqlite:shop.db --json
json "status answers in JSON" \
	'd["pending"] == 1707 and d["relay"] is None and len(d["warnings"]) == 1'

w relay sqlite:shop.db file:out.ndjson --until-empty
expect "a relay until empty delivers all and says how many" 0 \
	"err:1707 delivered, 0 retried, 0 dead in " "is:"
out=$(cat out.ndjson)
json "each line of the destination is a message in JSON" \
	'len(l) == 1707 and all(m["topic"] == "quakes" and m["body"]["id"] == m["message_id"] for m in l)'
json "each key kept the order of the file" \
	"all([m['body']['id'] for m in l if m['key'] == k] == [b['id'] for b in map(json.loads, open('$quakes')) if b['net'] == k] for k in {m['key'] for m in l})"
json "a message has the members that the manual names, in its order" \
	'list(d) == ["id", "message_id", "topic", "key", "headers", "body", "created_at", "attempts"]'
w relay sqlite:shop.db stdout: --until-empty
expect "a second relay finds nothing to do" 0 "is:" "err:0 delivered"
w status sqlite:shop.db
expect "all are done, and no warning is left" 0 "out:done        1707" "no:warning"

w_in '{"order":1}' enqueue sqlite:shop.db --topic orders --header source=shop --header 'note=a "b"'
expect "standard input is the default" 0 "is:1 enqueued, 0 duplicates"
w relay sqlite:shop.db stdout: --until-empty --quiet
expect "quiet says nothing" 0 "out:{" "no:delivered"
json "headers arrive" 'd["headers"] == {"source": "shop", "note": "a \"b\""}'

# ---- keys and ids by JSON pointer ----

w init sqlite:pick.db
cat >pick.ndjson <<'END'
{"id":12345678901234567890123,"k":{"a/b":[10,"first"]},"n":1.10}

{"id":"two","k":{"a/b":[true,"two\u00e9"]},"n":1e3}
END
w enqueue sqlite:pick.db --topic t --id /id --key '/k/a~1b/0' --aggregate-type order \
	--aggregate-id /n --from pick.ndjson
expect "pointers with escapes and array places are followed, empty lines skipped" 0 \
	"is:2 enqueued, 0 duplicates"
check "strings are taken as they are, numbers and booleans digit by digit" is \
	"$(sql pick.db 'SELECT message_id, partition_key, aggregate_id FROM outbox')" \
	"$(printf '12345678901234567890123|10|1.10\ntwo|true|1e3')"
w relay sqlite:pick.db stdout: --until-empty --quiet
json "aggregate type and id are passed on" \
	'd["aggregate_type"] == "order" and d["aggregate_id"] == "1.10" and d["key"] == "10"'
check "a body is kept byte for byte" grep -qF '"body":{"id":12345678901234567890123,' <<<"$out"
printf '\xef\xbb\xbf{"a":1}\r\n{"a":2}' >crlf.ndjson
w enqueue sqlite:pick.db --topic crlf --from crlf.ndjson
expect "a byte order mark, CR LF and a last line without an end are fine" 0 "out:2 enqueued"
check "and leave no trace in the bodies" is \
	"$(sql pick.db "SELECT payload FROM outbox WHERE topic='crlf'")" "$(printf '{"a":1}\n{"a":2}')"
for what in missing:absent null:n object:o array:a; do
	w_in '{"n":null,"o":{},"a":[]}' enqueue sqlite:pick.db --topic t --key "/${what#*:}"
	expect "a key that is ${what%:*} is an error that names the line" 1 \
		"err:standard input: line 1: --key: " "err:/${what#*:}" "err:(nothing was enqueued)"
done

# ---- malformed lines ----

w init sqlite:bad.db
for i in $(seq 16); do echo "{\"i\":$i}"; done >bad.ndjson
echo '{"i"}' >>bad.ndjson
echo '{"i":18}' >>bad.ndjson
w enqueue sqlite:bad.db --topic t --from bad.ndjson
expect "a malformed line is an error that names file, line and column" 1 \
	"err:wherry: bad.ndjson: line 17, column 5: " "err:(nothing was enqueued)" "is:"
check "and nothing was enqueued" is "$(sql bad.db 'SELECT count(*) FROM outbox')" 0
w enqueue sqlite:bad.db --topic t --from bad.ndjson --batch 5
expect "with --batch it says how many lines before it stay" 1 \
	"err:bad.ndjson: line 17, column 5: " "err:(the first 15 lines stay enqueued)" "err:tail -n +16"
check "and those stay, no more" is "$(sql bad.db 'SELECT count(*), max(payload) FROM outbox')" \
	'15|{"i":9}'
w_in '{"a":1} {"b":2}' enqueue sqlite:bad.db --topic t
expect "two values on a line are malformed" 1 "err:line 1, column "
w_in $'{"a":"\xff"}' enqueue sqlite:bad.db --topic t
expect "bytes that are no UTF-8 are malformed" 1 "err:line 1, column "
w_in '{"i":"\u0000"}' enqueue sqlite:bad.db --topic t --id /i
expect "an id with a NUL in it is refused" 1 "err:line 1: --id: /i holds a NUL"
python3 -c 'print("{}"); print("\"" + "x" * 3000 + "\"")' >long.ndjson
w enqueue sqlite:bad.db --topic t --from long.ndjson --set outbox.body_max=1KB
expect "a line over outbox.body_max is refused by its number" 1 "err:line 2: " "err:outbox.body_max"
w enqueue sqlite:bad.db --topic t --from long.ndjson
expect "and taken where the setting allows it" 0 "is:2 enqueued, 0 duplicates"
w enqueue sqlite:bad.db --topic t --from /nowhere/file
expect "a file that is not there is named" 1 "err:/nowhere/file: No such file"
w enqueue sqlite:bad.db --topic t --from .
expect "a folder is no file of lines" 1 "err:.: cannot read line 1: Is a directory"

# ---- wrong command lines ----

w enqeue sqlite:shop.db
expect "an unknown command names the nearest" 2 "err:did you mean 'enqueue'?" "err:try: wherry help"
w relay sqlite:shop.db stdout: --until-emtpy
expect "an unknown option names the nearest" 2 "err:did you mean --until-empty?" "err:try: wherry help relay"
w status sqlite:shop.db -x
expect "an unknown short option is refused" 2 "err:unknown option -x"
w status sqlte:shop.db
expect "an unknown database names the nearest" 2 "err:did you mean 'sqlite:'?"
w relay sqlite:shop.db stdut: --until-empty
expect "an unknown destination names the nearest" 2 "err:did you mean 'stdout:'?"
w status shop.db
expect "a path is no URL, and the message shows how to write one" 2 "err:sqlite:shop.db"
w status sqlite:shop.db --set relay.leese=3s
expect "an unknown setting names the nearest" 2 "err:did you mean 'relay.lease'?"
w relay sqlite:shop.db stdout: --lease 5
expect "a duration without a unit is refused" 2 "err:--lease: relay.lease: '5' is no duration"
w relay sqlite:shop.db stdout: --ordering keys
expect "a word that is no choice names the choices" 2 "err:key, key-strict, none"
w status sqlite:shop.db --set relay.lease
expect "--set wants KEY=VALUE" 2 "err:write KEY=VALUE"
w list sqlite:shop.db --limit many
expect "a number must be one" 2 "err:--limit many"
w list sqlite:shop.db --state pendng
expect "an unknown state names the nearest" 2 "err:did you mean 'pending'?"
w list sqlite:shop.db --limit 1 --limit 2
expect "an option given twice is refused" 2 "err:--limit is given twice"
w list sqlite:shop.db --json=yes
expect "a switch takes no value" 2 "err:--json takes no value"
w list sqlite:shop.db --limit
expect "an option that lacks its value says so" 2 "err:--limit needs a value"
w relay sqlite:shop.db
expect "a missing operand is named" 2 "err:relay needs FROM TO"
w status sqlite:shop.db more
expect "an operand too many is named" 2 "err:'more' is one too many"
w enqueue sqlite:shop.db
expect "a missing required option is named" 2 "err:enqueue needs --topic"
w enqueue sqlite:shop.db --topic t --key net
expect "a key that is no JSON pointer is refused" 2 "err:write a JSON pointer"
w enqueue sqlite:shop.db --topic t --header noequals
expect "a header wants NAME=VALUE" 2 "err:write NAME=VALUE"
w retry sqlite:shop.db
expect "retry of nothing in particular is refused" 2 "err:which messages?"
w replay sqlite:shop.db
expect "and so is replay" 2 "err:which messages?"
w retry sqlite:shop.db 1 --all
expect "an ID and --all contradict each other" 2 "err:only one of them"
w relay sqlite:shop.db stdout: --timeout 1s
expect "--timeout wants --until-empty" 2 "err:--until-empty"
w relay sqlite:shop.db stdout: --quiet --verbose
expect "quiet and verbose contradict each other" 2
w purge sqlite:shop.db
expect "purge wants an age" 2 "err:purge needs --older-than"
w init sqlite:shop.db --table 'drop table'
expect "a table name that is none is refused" 2 "err:is no table name"
w relay sqlite:shop.db stdout: --until-empty --set relay.delivery_timeout=2m
expect "settings that contradict each other are refused" 2 "err:relay.delivery_timeout"

# ---- databases that are not what they should be ----

w status sqlite:absent.db
expect "a missing file says: run wherry init" 1 "err:wherry init sqlite:absent.db"
check "and is not made in passing" test ! -e absent.db
w status sqlite:shop.db --table other
expect "a missing table says: run wherry init" 1 "err:wherry init"
echo "this is a text, not a database; a long one, longer than the header" >text.db
for i in $(seq 100); do echo "line $i of the text"; done >>text.db
w status sqlite:text.db
expect "a file that is no database is told so" 1 "err:text.db"
check "and is left as it was" grep -q "line 100 of the text" text.db
sql other.db 'CREATE TABLE outbox(name TEXT)'
w init sqlite:other.db
expect "a table of this name that is no outbox is not touched" 2 "err:no outbox"
w status sqlite:/nowhere/at/all.db
expect "a folder that is not there is named" 1 "err:/nowhere/at/all.db"

cp shop.db newer.db
sql newer.db 'UPDATE wherry_schema SET version = 99, min_program = 9990000'
w status sqlite:newer.db
expect "a schema that needs a newer program is refused" 1 "err:newer" "no:try: wherry init"
w relay sqlite:newer.db null: --until-empty
expect "also by a relay" 1 "err:newer"
w init sqlite:newer.db
expect "also by init" 1 "err:newer"
sql newer.db 'UPDATE wherry_schema SET min_program = 100'
w status sqlite:newer.db
expect "a newer schema that this program may use is used" 0 "out:done"

mkdir ro
cp shop.db ro/ro.db
sql ro/ro.db 'PRAGMA journal_mode=DELETE' >/dev/null
chmod 444 ro/ro.db
chmod 555 ro
if [ "$(id -u)" != 0 ]; then
	as_other=()
elif command -v setpriv >/dev/null && chmod 755 "$tmp" && setpriv --reuid=65534 --regid=65534 \
	--clear-groups "$wherry" version >/dev/null 2>&1; then
	as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
else
	as_other=(none)
fi
if [ "${as_other[*]-}" = none ]; then
	skip "a read-only file is refused with what to look at" "root writes everywhere"
	skip "a read-only file can still be looked at" "root writes everywhere"
else
	out=$(echo '{}' | "${as_other[@]}" "$wherry" enqueue sqlite:ro/ro.db --topic t 2>.err)
	status=$? err=$(cat .err)
	expect "a read-only file is refused with what to look at" 1 "err:ro.db" "err:cannot be written"
	out=$("${as_other[@]}" "$wherry" status sqlite:ro/ro.db 2>.err)
	status=$? err=$(cat .err)
	expect "a read-only file can still be looked at" 0 "out:done        1708"
fi
chmod 755 ro

for i in 1 2 3 4 5 6 7 8; do
	"$wherry" init sqlite:race.db >race.$i 2>&1 &
	race[i]=$!
done
bad=0
for i in 1 2 3 4 5 6 7 8; do
	wait "${race[i]}" || bad=1
done
out=$(cat race.?) status=$bad err=
expect "eight inits at once all succeed" 0
check "and made one outbox" is "$(sql race.db 'SELECT count(*) FROM wherry_schema')" 1

sql busy.db 'CREATE TABLE t(x)'
w init sqlite:busy.db
mkfifo go
(printf 'BEGIN IMMEDIATE;\n.print locked\n'; cat go) | sqlite3 busy.db >locked 2>&1 &
until_true 5 grep -q locked locked
w_in '{}' enqueue sqlite:busy.db --topic t --set db.busy_timeout=100ms
expect "a locked database says so, and how to wait longer" 1 "err:busy.db" "err:--set db.busy_timeout"
echo 'ROLLBACK;' >go
wait
w_in '{}' enqueue sqlite:busy.db --topic t
expect "and works again once it is free" 0 "is:1 enqueued, 0 duplicates"

# ---- a full disk ----

mkdir small
if mount -t tmpfs -o size=768k none small 2>/dev/null; then
	mounted=$tmp/small
	w init sqlite:small/full.db
	w_in '{"first":1}' enqueue sqlite:small/full.db --topic t
	w enqueue sqlite:small/full.db --topic t --from "$quakes"
	expect "a full disk is an error, and nothing was enqueued" 1 "err:full" "err:(nothing was enqueued)"
	w enqueue sqlite:small/full.db --topic t --from "$quakes" --batch 50
	expect "with --batch a full disk leaves whole batches" 1 "err:full" "err:stay enqueued"
	kept=$(sql small/full.db 'SELECT count(*) FROM outbox')
	check "and no part of one" is $(((kept - 1) % 50)) 0
	mount -o remount,size=16m small
	check "the database is sound" is "$(sql small/full.db 'PRAGMA integrity_check')" ok
	w relay sqlite:small/full.db null: --until-empty
	expect "with room again what was enqueued is delivered" 0 "err:$kept delivered, 0 retried, 0 dead"
	umount small && mounted=
else
	w init sqlite:full.db
	w_in '{"first":1}' enqueue sqlite:full.db --topic t
	out=$(trap '' XFSZ; ulimit -f 512; "$wherry" enqueue sqlite:full.db --topic t \
		--from "$quakes" 2>.err)
	status=$? err=$(cat .err)
	expect "a full disk is an error, and nothing was enqueued" 1 "err:(nothing was enqueued)"
	w relay sqlite:full.db null: --until-empty
	expect "with room again what was enqueued is delivered" 0 "err:1 delivered, 0 retried, 0 dead"
fi

"$wherry" list sqlite:shop.db >/dev/full 2>.err
status=$? out= err=$(cat .err)
expect "a result that cannot be written is an error" 1 "err:cannot write to standard output"
python3 -c '
import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.run(sys.argv[1:], stdout=w).returncode)' \
	"$wherry" list sqlite:shop.db --limit 2000 2>.err
status=$? out= err=$(cat .err)
expect "a reader that went away is exit 1, without a word" 1 "no:wherry:"

seq 5000 | "$wherry" enqueue sqlite:bad.db --topic many >/dev/null
timeout 20 "$wherry" relay sqlite:bad.db stdout: --until-empty 2>.err | head -n 1 >.out
status=${PIPESTATUS[0]} out=$(cat .out) err=$(cat .err)
expect "a relay to a pipe whose reader went away ends, with 1" 1 "out:{" "err:standard output is gone"

# ---- list, show, pause ----

w init sqlite:ops.db
w_in $'{"n":1}\n{"n":2}\n{"n":3}' enqueue sqlite:ops.db --topic a --id /n --key /n
w_in $'"x"\n"y"' enqueue sqlite:ops.db --topic b --aggregate-type thing --aggregate-id ''
w list sqlite:ops.db
expect "list is a table" 0 "out:ID  STATE" "out:pending"
w list sqlite:ops.db --json
json "list answers with one object a line" \
	'len(l) == 5 and [m["id"] for m in l] == [1, 2, 3, 4, 5] and d["state"] == "pending"'
w list sqlite:ops.db --limit 2 --json
json "a limit holds" 'len(l) == 2'
expect "and says where to go on" 0 "err:--after 2"
w list sqlite:ops.db --after 2 --topic a --json
json "pages and conditions go together" '[m["id"] for m in l] == [3]'
w list sqlite:ops.db --key x --json
json "a key is found where it is the aggregate's id" '[m["id"] for m in l] == [4]'
w list sqlite:ops.db --state done,dead
expect "nothing to list is no error" 0 "is:" "err:no messages"
w list sqlite:ops.db --since 1h --json
json "an age includes what is younger" 'len(l) == 5'

w show sqlite:ops.db 4
expect "show names what a pending message waits for" 0 "out:why:            no relay is running"
w show sqlite:ops.db 99
expect "a message that is not there is an error" 1 "err:99"
w pause sqlite:ops.db
expect "pause says so" 0 "out:is paused"
w status sqlite:ops.db
expect "status warns of it" 0 "out:paused"
w show sqlite:ops.db 1 --json
json "show answers in JSON, with why" \
	'd["body"] == {"n": 1} and d["state"] == "pending" and "paused" in d["why"]'
w relay sqlite:ops.db stdout: --until-empty --timeout 500ms
expect "a paused outbox delivers nothing; the relay times out with 5" 5 "is:" "err:0 delivered"
w resume sqlite:ops.db --json
json "resume answers in JSON" 'd == {"paused": False}'
w relay sqlite:ops.db stdout: --until-empty --quiet
json "then it delivers" 'len(l) == 5'

sql ops.db "INSERT INTO outbox(topic, payload) VALUES ('bin', x'00ff0102')"
sql ops.db "INSERT INTO outbox(topic, partition_key, payload) VALUES ('esc', char(27)||'[2J', 'plain
text')"
w show sqlite:ops.db 6
expect "a body that is no text is shown in hex" 0 "out:4 bytes that are no text" "out:00 ff 01 02"
w show sqlite:ops.db 7
expect "control characters do not reach the terminal" 0 "out:?[2J" "out:plain" "no:"$'\033'
w list sqlite:ops.db
expect "nor in a list" 0 "out:?[2J" "no:"$'\033'
w relay sqlite:ops.db stdout: --until-empty --quiet
json "rows written by plain SQL are delivered, bytes in base64" \
	'[m.get("body_base64") for m in l] == ["AP8BAg==", None] and l[1]["body"] == "plain\ntext" and len(d["message_id"]) == 36'
w show sqlite:ops.db 6
expect "show says when it was delivered" 0 "out:why:            delivered "

# ---- commands as destination: exit statuses, retry, replay, purge ----

fast=(--set retry.base=1ms --set retry.cap=5ms --set retry.attempts=3)
w init sqlite:exec.db
w_in $'{"n":1}\n{"n":2}' enqueue sqlite:exec.db --topic t --id /n --key /n --header a=b
w relay sqlite:exec.db 'exec:cat >body.$WHERRY_ID; env | grep ^WHERRY_ >env.$WHERRY_ID' --until-empty
expect "a command that exits 0 has delivered" 0 "err:2 delivered, 0 retried, 0 dead"
check "its standard input is the body" is "$(cat body.2)" '{"n":2}'
check "its environment has the rest" is "$(grep -v CREATED_AT env.2 | sort | tr '\n' ' ')" \
	'WHERRY_AGGREGATE_ID= WHERRY_AGGREGATE_TYPE= WHERRY_ATTEMPTS=0 WHERRY_GENERATION=0 WHERRY_HEADERS={"a":"b"} WHERRY_ID=2 WHERRY_KEY=2 WHERRY_MESSAGE_ID=2 WHERRY_TOPIC=t WHERRY_TRACE_ID= '

w_in '{}' enqueue sqlite:exec.db --topic again
w relay sqlite:exec.db 'exec:test $WHERRY_ATTEMPTS = 2 || exit 75' --until-empty "${fast[@]}"
expect "exit 75 is tried again until it works" 0 "err:1 delivered, 2 retried, 0 dead"

w_in '{}' enqueue sqlite:exec.db --topic poison --id '' 2>/dev/null
w_in '"p1"' enqueue sqlite:exec.db --topic poison --id ''
w relay sqlite:exec.db 'exec:echo "no such customer" >&2; exit 65' --until-empty "${fast[@]}"
expect "exit 65 is dead at once, and the relay exits 3" 3 "err:0 delivered, 0 retried, 1 dead" \
	"err:--state dead"
w show sqlite:exec.db p1
expect "show says why it is dead, and what to do" 0 "out:no such customer" "out:wherry retry sqlite:exec.db"
w status sqlite:exec.db
expect "status warns of the dead" 0 "out:dead        1" "out:1 message is dead"
w list sqlite:exec.db --state dead --json
json "list finds it by state" 'len(l) == 1 and "no such customer" in d["last_error"]'

w retry sqlite:exec.db 1
expect "retry of a delivered message is an error that names its state" 1 "err:message 1 is done"
w retry sqlite:exec.db nothere
expect "retry of a message that is not there is an error" 1 "err:nothere"
w retry sqlite:exec.db p1
expect "retry makes the dead pending" 0 "is:1 message is pending again"
w retry sqlite:exec.db p1
expect "twice is an error that names the state" 1 "err:is pending, not dead or failed"
w relay sqlite:exec.db null: --until-empty
expect "and it is delivered" 0 "err:1 delivered"

for i in 1 2 3; do echo "\"d$i\""; done >dead.ndjson
w enqueue sqlite:exec.db --topic dying --from dead.ndjson --key ''
w relay sqlite:exec.db 'exec:exit 1' --until-empty "${fast[@]}" --set relay.down_after=1000
expect "attempts run out: dead, exit 3" 3 "err:0 delivered, 6 retried, 3 dead"
w retry sqlite:exec.db --all --state failed
expect "no failed one is left to retry" 0 "is:0 messages are pending again"
w retry sqlite:exec.db --key d2 --json
json "retry by key, in JSON" 'd == {"retried": 1}'
w retry sqlite:exec.db --topic dying
expect "retry by topic" 0 "is:2 messages are pending again"
w relay sqlite:exec.db null: --until-empty --quiet

w_in '{}' enqueue sqlite:exec.db --topic late
w relay sqlite:exec.db 'exec:exit 75' --until-empty --timeout 1s --set retry.base=1h --set retry.cap=1h --set retry.jitter=off
expect "a retry that is not due in time: exit 5" 5 "err:--timeout passed"
w show sqlite:exec.db "$(sql exec.db 'SELECT max(id) FROM outbox')"
expect "show says when the next attempt is due" 0 "out:the next is due in "
w retry sqlite:exec.db --all --state all
expect "a failed one need not wait" 0 "is:1 message is pending again"
w relay sqlite:exec.db null: --until-empty --quiet

w_in '{}' enqueue sqlite:exec.db --topic norun
w relay sqlite:exec.db 'exec:/no/such/command' --until-empty --timeout 1500ms
expect "a command that cannot be run: the destination is down, and it times out" 5 \
	"err:destination-down" "err:0 delivered, 0 retried, 0 dead"
check "and no attempt was counted" is \
	"$(sql exec.db "SELECT status, attempts FROM outbox WHERE topic='norun'")" '0|0'
w relay sqlite:exec.db null: --until-empty --quiet

w init sqlite:park.db
w_in $'{"k":"a","n":1}\n{"k":"a","n":2}\n{"k":"b","n":3}' enqueue sqlite:park.db --topic t --key /k --id /n
w relay sqlite:park.db 'exec:test $WHERRY_ID != 1 || exit 65' --until-empty --on-dead park
expect "a parked key holds back what is behind it: exit 4" 4 "err:1 delivered, 0 retried, 1 dead" \
	"err:waits behind dead messages"
w retry sqlite:park.db 1
w relay sqlite:park.db stdout: --until-empty --quiet --on-dead park
json "after retry they leave in order" '[m["id"] for m in l] == [1, 2]'

w replay sqlite:park.db --key a
expect "replay by key" 0 "is:2 messages are pending once more"
w replay sqlite:park.db 1
expect "what is not done cannot be replayed" 1 "err:message 1 is pending, not done"
w relay sqlite:park.db stdout: --until-empty --quiet
json "a replayed message keeps its id and has the next generation" \
	'[(m["message_id"], m["generation"]) for m in l] == [("1", 1), ("2", 1)]'
w replay sqlite:park.db --since 1h --topic t --json
json "replay by time and topic, in JSON" 'd == {"replayed": 3}'
w relay sqlite:park.db null: --until-empty --quiet

w purge sqlite:park.db --older-than 1h
expect "purge leaves what is younger" 0 "is:0 messages purged"
w purge sqlite:park.db --older-than 0 --limit 2 --batch 1 --json
json "a limit holds, in JSON" 'd == {"purged": 2}'
w purge sqlite:park.db --older-than 0
expect "and the rest goes" 0 "is:1 message purged"

# ---- init --print, and names of one's own ----

w init sqlite: --print --table billing
expect "init --print writes the SQL" 0 "out:CREATE TABLE" "out:billing"
printf '%s\n' "$out" | sqlite3 printed.db
w_in '{}' enqueue sqlite:printed.db --table billing --topic t
expect "which sqlite3 runs, and the outbox works" 0 "is:1 enqueued, 0 duplicates"
w relay sqlite:printed.db null: --until-empty --set outbox.table=billing
expect "--set outbox.table is --table" 0 "err:1 delivered"
w init sqlite:absent.db --print
check "init --print touches nothing" test ! -e absent.db

# ---- signals ----

w init sqlite:run.db
"$wherry" relay sqlite:run.db file:run.ndjson 2>run.err &
relay=$!
pids+=("$relay")
w_in $'1\n2\n3' enqueue sqlite:run.db --topic t
check "a running relay delivers what comes" until_true 10 lines run.ndjson 3
w status sqlite:run.db
expect "status names it" 0 "out:relay " "out:lease for " "no:warning"
w relay sqlite:run.db null: --until-empty --timeout 10s
expect "a second one stands by, and finds the outbox empty" 0 "err:event=standby"
kill -TERM "$relay"
wait "$relay"
status=$? out= err=$(cat run.err)
expect "SIGTERM ends it with 0 and a summary" 0 "err:3 delivered, 0 retried, 0 dead"
w_in '4' enqueue sqlite:run.db --topic t
w relay sqlite:run.db null: --until-empty --timeout 5s
expect "its lease was given back: the next one takes over at once" 0 "err:1 delivered"

w_in '5' enqueue sqlite:run.db --topic t
"$wherry" relay sqlite:run.db 'exec:touch began; command sleep 30' 2>run.err &
relay=$!
pids+=("$relay")
until_true 10 test -e began
kill -INT "$relay"
command sleep 0.3
check "with a command in flight it waits for it" kill -0 "$relay"
kill -TERM "$relay"
wait "$relay"
status=$? out= err=$(cat run.err)
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
	for option in $("$wherry" help "$command" | sed -n 's/^  --\([a-z-]*\).*/\1/p'); do
		grep -q "Fl Fl $option\b" "$manual" || missing+=" $command --$option"
	done
done
for setting in $("$wherry" help settings | sed -n 's/^\([a-z]*\.[a-z_]*\)  .*/\1/p'); do
	grep -q "^\.It Cm $setting$" "$manual" || missing+=" $setting"
done
for code in $("$wherry" help exit-codes | sed -n 's/^ *\([0-9]*\)  .*/\1/p'); do
	grep -q "^\.It $code$" "$manual" || missing+=" exit status $code"
done
out=$missing err= status=0
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
w init sqlite:slow.db
w enqueue sqlite:slow.db --topic slow --key '' --from slow.ndjson
out=$(python3 on_terminal.py "$wherry" relay sqlite:slow.db 'exec:command sleep 0.05' --until-empty \
	</dev/null | tr '\r' '\n')
status=${PIPESTATUS[0]} err=
expect "on a terminal a relay until empty draws a bar" 0 "out:relay [" "out:% " "out:40 delivered"
out=$(python3 on_terminal.py "$wherry" list sqlite:shop.db --limit 5 </dev/null | tr -d '\r')
longest=$(printf '%s\n' "$out" | awk '/^ *(ID|[0-9]+) / { if (length > n) n = length } END { print n }')
check "and a list keeps to its width" test "$longest" -le 80

# ---- bench ----

w bench --messages 500 --json
expect "bench runs and cleans up after itself" 0
json "and answers in JSON" 'd["messages"] == 500 and d["drain_per_second"] > 0 and d["latency_p50_ms"] >= 0'
check "its database is gone" is "$(ls -d "$tmp"/wherry-bench* 2>/dev/null)" ""
w bench sqlite:shop.db
expect "a bench refuses an outbox that is not empty" 2 "err:needs an empty"

echo "1..$n"
[ "$failed" = 0 ]
