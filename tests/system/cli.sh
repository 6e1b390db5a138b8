#!/usr/bin/env bash
# Drives the real program: a whole run, and all that it must refuse.
#
# Writes TAP.

leaks=yes # are looked for
# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

# ---- the quick start, and a real file ----

w
expect "alone it teaches: what it is and three commands to begin with" 0 \
	"out:wherry create sqlite:shop.db" "out:wherry enqueue" "out:wherry relay" \
	"out:purge"

w create sqlite:shop.db --unique-ids
expect "create makes the database and says so" 0 "out:outbox 'outbox' is ready"
w create sqlite:shop.db --json
expect "create again is fine" 0
json "create answers in JSON" 'd["table"] == "outbox"'

w enqueue --lines sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes"
expect "a file of 1707 lines is enqueued" 0 "is:1707 enqueued, 0 duplicates"
w enqueue --lines sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" --json
expect "the same file again is all duplicates, which is no error" 0
json "and it says so in JSON" 'd == {"enqueued": 0, "duplicates": 1707}'

w status sqlite:shop.db
expect "status counts them, and warns that no relay is running" 0 \
	"out:pending     1707" "out:ready       1707" "out:no relay is running"
w status sqlite:shop.db --json
json "status answers in JSON" \
	'd["pending"] == 1707 and d["relays"] == [] and d["last_relay"] is None and len(d["warnings"]) == 1'

w relay sqlite:shop.db file:out.ndjson --until-empty
expect "a relay until empty delivers all and says how many" 0 \
	"err:1707 delivered, 0 retried, 0 dead in " "is:"
out=$(cat out.ndjson)
json "each line of the destination is a message in JSON" \
	'len(l) == 1707 and
	 all(m["topic"] == "quakes" and m["body"]["id"] == m["message_id"] for m in l)'
json "each key kept the order of the file" \
	"$(in_file_order "m['key']")"
json "a message has the members that the manual names, in its order" \
	'" ".join(d) == "id message_id topic key headers body created_at attempts"'
w relay sqlite:shop.db stdout: --until-empty
expect "a second relay finds nothing to do" 0 "is:" "err:0 delivered"
w status sqlite:shop.db
expect "all are done, and no warning is left" 0 "out:done        1707" "no:warning"

w_in '{"order":1}' enqueue --lines sqlite:shop.db --topic orders --header source=shop --header \
	'note=a "b"'
expect "standard input is the default" 0 "is:1 enqueued, 0 duplicates"
w relay sqlite:shop.db stdout: --until-empty --quiet
expect "quiet says nothing" 0 "out:{" "no:delivered"
json "headers arrive" 'd["headers"] == {"source": "shop", "note": "a \"b\""}'

# ---- ids that exist ----

w create sqlite:twice.db
for n in 1 2; do
	w enqueue sqlite:twice.db '{"n":1}' --topic t --id /n
	expect "without --unique-ids an id may be enqueued twice ($n)" 0 "is:1 enqueued, 0 duplicates"
done
w help enqueue
expect "and the help says so" 0 "out:and an outbox created with \`wherry create --unique-ids\`"

# ---- keys and ids by JSON pointer ----

w create sqlite:pick.db
cat >pick.ndjson <<'END'
{"id":12345678901234567890123,"k":{"a/b":[10,"first"]},"n":1.10}

{"id":"two","k":{"a/b":[true,"two\u00e9"]},"n":1e3}
END
w enqueue --lines sqlite:pick.db --topic t --id /id --key '/k/a~1b/0' --aggregate-type order \
	--aggregate-id /n --from pick.ndjson
expect "pointers with escapes and array places are followed, empty lines skipped" 0 \
	"is:2 enqueued, 0 duplicates"
check "strings are taken as they are, numbers and booleans digit by digit" is \
	"$(sql pick.db 'SELECT message_id, partition_key, aggregate_id FROM outbox')" \
	"$(printf '12345678901234567890123|10|1.10\ntwo|true|1e3')"
w relay sqlite:pick.db stdout: --until-empty --quiet
json "aggregate type and id are passed on" \
	'(d["aggregate_type"], d["aggregate_id"], d["key"]) == ("order", "1.10", "10")'
check "a body is kept byte for byte" grep -qF '"body":{"id":12345678901234567890123,' \
	<<<"$out"
printf '\xef\xbb\xbf{"a":1}\r\n{"a":2}' >crlf.ndjson
w enqueue --lines sqlite:pick.db --topic crlf --from crlf.ndjson
expect "a byte order mark, CR LF and a last line without an end are fine" 0 \
	"out:2 enqueued"
check "and leave no trace in the bodies" is \
	"$(sql pick.db "SELECT payload FROM outbox WHERE topic='crlf'")" \
	"$(printf '{"a":1}\n{"a":2}')"
for what in missing:absent null:n object:o array:a; do
	w_in '{"n":null,"o":{},"a":[]}' enqueue --lines sqlite:pick.db --topic t --key \
		"/${what#*:}"
	expect "a key that is ${what%:*} is an error that names the line" 1 \
		"err:standard input: line 1: --key: " "err:/${what#*:}" \
		"err:(nothing was enqueued)"
done

w_in '{"n":1}' enqueue --lines sqlite:pick.db --topic fixed --key 3000000
expect "a key can be given as it is" 0 "is:1 enqueued, 0 duplicates"
w enqueue sqlite:pick.db '{"n":2}' --topic fixed --key k1 --id m1 --aggregate-type a --aggregate-id 7
expect "and so can ids" 0 "is:1 enqueued, 0 duplicates"
check "and are taken as they are" is \
	"$(sql pick.db "SELECT partition_key, nullif(message_id, '') = 'm1', aggregate_id FROM outbox WHERE topic = 'fixed'")" \
	$'3000000|0|\nk1|1|7'
w enqueue sqlite:pick.db not-json --topic fixed --key k1
expect "the body need not be JSON" 0
w_in '{"n":1}' enqueue --lines sqlite:pick.db --topic fixed --id m2
expect "lines have an id each" 2 "err:--id m2 with --lines" "err:such as /id"

# ---- malformed lines ----

w create sqlite:bad.db
for i in $(seq 16); do echo "{\"i\":$i}"; done >bad.ndjson
echo '{"i"}' >>bad.ndjson
echo '{"i":18}' >>bad.ndjson
w enqueue --lines sqlite:bad.db --topic t --from bad.ndjson
expect "a malformed line is an error that names file, line and column" 1 \
	"err:wherry: bad.ndjson: line 17, column 5: " "err:(nothing was enqueued)" "is:"
check "and nothing was enqueued" is "$(sql bad.db 'SELECT count(*) FROM outbox')" 0
w enqueue --lines sqlite:bad.db --topic t --from bad.ndjson --batch 5
expect "with --batch it says how many lines before it stay" 1 \
	"err:bad.ndjson: line 17, column 5: " "err:(the first 15 lines stay enqueued)" \
	"err:tail -n +16"
check "and those stay, no more" is \
	"$(sql bad.db 'SELECT count(*), max(payload) FROM outbox')" \
	'15|{"i":9}'
w_in '{"a":1} {"b":2}' enqueue --lines sqlite:bad.db --topic t
expect "two values on a line are malformed" 1 "err:line 1, column "
w_in $'{"a":"\xff"}' enqueue --lines sqlite:bad.db --topic t
expect "bytes that are no UTF-8 are malformed" 1 "err:line 1, column "
w_in '{"i":"\u0000"}' enqueue --lines sqlite:bad.db --topic t --id /i
expect "an id with a NUL in it is refused" 1 "err:line 1: --id: /i holds a NUL"
python3 -c 'print("{}"); print("\"" + "x" * 3000 + "\"")' >long.ndjson
w enqueue --lines sqlite:bad.db --topic t --from long.ndjson --set outbox.body_max=1KB
expect "a line over outbox.body_max is refused by its number" 1 "err:line 2: " \
	"err:outbox.body_max"
w enqueue --lines sqlite:bad.db --topic t --from long.ndjson
expect "and taken where the setting allows it" 0 "is:2 enqueued, 0 duplicates"
w enqueue --lines sqlite:bad.db --topic t --from /nowhere/file
expect "a file that is not there is named" 1 "err:/nowhere/file: No such file"
w enqueue --lines sqlite:bad.db --topic t --from .
expect "a folder is no file of lines" 1 "err:.: cannot read line 1: Is a directory"

# ---- wrong command lines ----

w enqeue sqlite:shop.db
expect "an unknown command names the nearest" 2 "err:did you mean 'enqueue'?" \
	"err:try: wherry help"
w relay sqlite:shop.db stdout: --until-emtpy
expect "an unknown option names the nearest" 2 "err:did you mean --until-empty?" \
	"err:try: wherry help relay"
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
expect "a duration without a unit is refused" 2 \
	"err:--lease: relay.lease: '5' is not a duration"
w relay sqlite:shop.db stdout: --ordering keys
expect "a word that is no choice names the choices" 2 "err:key, none"
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
w enqueue --lines sqlite:shop.db
expect "a missing required option is named" 2 "err:enqueue needs --topic"
w enqueue --lines sqlite:shop.db --topic t --key /a~2
expect "what begins as a JSON pointer and is none is refused" 2 "err:is not a JSON pointer"
w enqueue --lines sqlite:shop.db --topic t --header noequals
expect "a header wants NAME=VALUE" 2 "err:write NAME=VALUE"
w retry sqlite:shop.db
expect "retry of nothing in particular is refused" 2 "err:which messages?"
w retry sqlite:shop.db 1 --all
expect "an ID and --all contradict each other" 2 "err:only one of them"
w relay sqlite:shop.db stdout: --timeout 1s
expect "--timeout wants --until-empty" 2 "err:--until-empty"
w relay sqlite:shop.db stdout: --quiet --verbose
expect "quiet and verbose contradict each other" 2
w purge sqlite:shop.db --yes
expect "purge wants an age" 2 "err:purge needs --older-than"
w create 'sqlite:shop.db#drop table'
expect "a table name that is none is refused" 2 "err:is not a table name"
w relay sqlite:shop.db stdout: --until-empty --set relay.delivery_timeout=2m
expect "settings that contradict each other are refused" 2 "err:relay.delivery_timeout"

# ---- databases that are not what they should be ----

w status sqlite:absent.db
expect "a missing file says: run wherry create" 1 "err:wherry create sqlite:absent.db"
check "and is not made in passing" test ! -e absent.db
w status sqlite:shop.db#other
expect "a missing table says: run wherry create" 1 "err:wherry create"
echo "this is a text, not a database; a long one, longer than the header" >text.db
for i in $(seq 100); do echo "line $i of the text"; done >>text.db
w status sqlite:text.db
expect "a file that is no database is told so" 1 "err:text.db"
check "and is left as it was" grep -q "line 100 of the text" text.db
sql other.db 'CREATE TABLE outbox(name TEXT)'
w create sqlite:other.db
expect "a table of this name that is no outbox is not touched" 2 "err:there is a table 'outbox' with another purpose"
w status sqlite:/nowhere/at/all.db
expect "a folder that is not there is named" 1 "err:/nowhere/at/all.db"

cp shop.db newer.db
sql newer.db 'UPDATE wherry_schema SET version = 99, min_program = 9990000'
w status sqlite:newer.db
expect "a schema that needs a newer program is refused" 1 "err:newer" \
	"no:try: wherry create"
w relay sqlite:newer.db null: --until-empty
expect "also by a relay" 1 "err:newer"
w create sqlite:newer.db
expect "also by create" 1 "err:newer"
sql newer.db 'UPDATE wherry_schema SET min_program = 100'
w status sqlite:newer.db
expect "a newer schema that this program may use is used" 0 "out:done"

mkdir ro
cp shop.db ro/ro.db
sql ro/ro.db 'PRAGMA journal_mode=DELETE' >/dev/null
chmod 444 ro/ro.db
chmod 555 ro
other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" != 0 ]; then
	as_other=()
elif chmod 755 "$tmp" && "${other[@]}" "$wherry" version >/dev/null 2>&1; then
	as_other=("${other[@]}")
else
	as_other=(none)
fi
if [ "${as_other[*]-}" = none ]; then
	skip "a read-only file is refused with what to look at" "root writes everywhere"
	skip "a read-only file can still be looked at" "root writes everywhere"
else
	out=$(echo '{}' | "${as_other[@]}" "$wherry" enqueue --lines sqlite:ro/ro.db --topic t \
		2>.err)
	status=$? err=$(cat .err)
	expect "a read-only file is refused with what to look at" 1 "err:ro.db" \
		"err:cannot be written"
	out=$("${as_other[@]}" "$wherry" status sqlite:ro/ro.db 2>.err)
	status=$? err=$(cat .err)
	expect "a read-only file can still be looked at" 0 "out:done        1708"
fi
chmod 755 ro

for i in 1 2 3 4 5 6 7 8; do
	"$wherry" create sqlite:race.db >race.$i 2>&1 &
	race[i]=$!
done
bad=0
for i in 1 2 3 4 5 6 7 8; do
	wait "${race[i]}" || bad=1
done
out=$(cat race.?) status=$bad err=''
expect "eight inits at once all succeed" 0
check "and made one outbox" is "$(sql race.db 'SELECT count(*) FROM wherry_schema')" 1

sql busy.db 'CREATE TABLE t(x)'
w create sqlite:busy.db
mkfifo go
(printf 'BEGIN IMMEDIATE;\n.print locked\n'; cat go) | sqlite3 busy.db >locked 2>&1 &
until_true 5 grep -q locked locked
w_in '{}' enqueue --lines sqlite:busy.db --topic t --set db.busy_timeout=100ms
expect "a locked database says so, and how to wait longer" 1 "err:busy.db" \
	"err:--set db.busy_timeout"
echo 'ROLLBACK;' >go
wait
w_in '{}' enqueue --lines sqlite:busy.db --topic t
expect "and works again once it is free" 0 "is:1 enqueued, 0 duplicates"

# ---- a full disk ----

mkdir small
if mount -t tmpfs -o size=768k none small 2>/dev/null; then
	mounted=$tmp/small
	w create sqlite:small/full.db
	w_in '{"first":1}' enqueue --lines sqlite:small/full.db --topic t
	w enqueue --lines sqlite:small/full.db --topic t --from "$quakes"
	expect "a full disk is an error, and nothing was enqueued" 1 "err:full" \
		"err:(nothing was enqueued)"
	w enqueue --lines sqlite:small/full.db --topic t --from "$quakes" --batch 50
	expect "with --batch a full disk leaves whole batches" 1 "err:full" \
		"err:stay enqueued"
	kept=$(sql small/full.db 'SELECT count(*) FROM outbox')
	check "and no part of one" is $(((kept - 1) % 50)) 0
	mount -o remount,size=16m small
	check "the database is sound" is "$(sql small/full.db 'PRAGMA integrity_check')" \
		ok
	w relay sqlite:small/full.db null: --until-empty
	expect "with room again what was enqueued is delivered" 0 \
		"err:$kept delivered, 0 retried, 0 dead"
	umount small && mounted=
else
	w create sqlite:full.db
	w_in '{"first":1}' enqueue --lines sqlite:full.db --topic t
	out=$(trap '' XFSZ; ulimit -f 512; "$wherry" enqueue --lines sqlite:full.db --topic t \
		--from "$quakes" 2>.err)
	status=$? err=$(cat .err)
	expect "a full disk is an error, and nothing was enqueued" 1 \
		"err:(nothing was enqueued)"
	w relay sqlite:full.db null: --until-empty
	expect "with room again what was enqueued is delivered" 0 \
		"err:1 delivered, 0 retried, 0 dead"
fi

"$wherry" list sqlite:shop.db --all >/dev/full 2>.err
status=$? out='' err=$(cat .err)
expect "a result that cannot be written is an error" 1 \
	"err:cannot write to standard output"
python3 -c '
import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.run(sys.argv[1:], stdout=w).returncode)' \
	"$wherry" list sqlite:shop.db --all --limit 2000 2>.err
status=$? out='' err=$(cat .err)
expect "a reader that went away is exit 1, without a word" 1 "no:wherry:"

seq 5000 | "$wherry" enqueue --lines sqlite:bad.db --topic many >/dev/null
timeout 60 "$wherry" relay sqlite:bad.db stdout: --until-empty 2>.err | head -n 1 >.out
status=${PIPESTATUS[0]} out=$(cat .out) err=$(cat .err)
expect "a relay to a pipe whose reader went away ends, with 1" 1 "out:{" \
	"err:standard output is gone"

finish
