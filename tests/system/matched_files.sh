#!/usr/bin/env bash
# A relay of a pattern of SQLite files (docs/internals/matched.md): files come and go, rest without being open, are replaced, and
# one that is locked, broken or has another table leaves the others alone.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

refuses() { # SENTENCE TEXT RELAY
	printf 'relays:\n  - {%s}\n' "$3" >bad.yaml
	w check bad.yaml
	expect "$1" 1 "err:$2"
}

refuses "a pattern has a wildcard" "as in sqlite:FOLDER/tenant_1.db" \
	"name: a, from: 'sqlite:tenants', match: tenant_1.db, to: 'null:'"
refuses "files have no schemas" "{schema} has no meaning for a pattern of files: write {file}" \
	"name: a, from: 'sqlite:tenants', match: '*.db', to: 'file:{schema}.out'"

tenant() { # FILE
	"$wherry" create "sqlite:tenants/$1" >/dev/null 2>&1
}

put() { # FILE FROM TO
	sqlite3 "tenants/$1" ".timeout 5000" "INSERT INTO outbox(topic, partition_key, payload)
		WITH RECURSIVE n(n) AS (SELECT $2 UNION ALL SELECT n + 1 FROM n WHERE n < $3)
		SELECT '$1', n % 3, json_object('n', n) FROM n"
}

came() { # FILE N: so many messages of it
	[ "$(grep -c "\"topic\":\"$1\"" all.out 2>/dev/null)" = "$2" ]
}

opened() { # PATTERN: how many descriptors the daemon has for such files
	find "/proc/$daemon/fd" -lname "*$1*" 2>/dev/null | wc -l
}

not_open() {
	[ "$(opened /tenants/)" = 0 ]
}

mkdir tenants
tenant a.db
tenant b.db
tenant other.sqlite
sqlite3 tenants/plain.db "CREATE TABLE t(x)"
sqlite3 tenants/another.db "CREATE TABLE outbox(id INTEGER PRIMARY KEY, payload TEXT)"
printf 'this is not a database, and it is long enough to look like one%2000s' '' >tenants/broken.db
touch tenants/a.db-journal.db.txt
mkdir tenants/folder.db
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
relays:
  - {name: all, from: 'sqlite:tenants', match: '*.db', to: 'file:all.out'}
END
w check wherry.yaml
expect "a folder and a pattern of its files are fine" 0
w status all
expect "the name of a pattern names no outbox" 2 "err:stands for the outboxes of all files that match '*.db'"
start_daemon wherry.yaml
check "each file is found" until_true 10 grep -q 'relay=all event=matched outboxes=5 added=5 dropped=0' log
put a.db 1 100
put b.db 1 50
put other.sqlite 1 10
check "writers wake them" until_true 10 came a.db 100
check "each of them" until_true 10 came b.db 50
is "$(grep -c other.sqlite all.out)" 0
result $? "a file that does not match is left alone" ""
check "no file is open while all rest" until_true 10 not_open
check "a file that is not a database is said" until_true 10 grep -q 'level=error .*event=failed file=broken.db why=.*not a database' log
check "one without an outbox is said" until_true 10 grep -q 'level=warn .*event=no-outbox file=plain.db why=.*has no such outbox' log
check "one with another table is said" until_true 10 grep -q 'event=no-outbox file=another.db why=.*not an outbox of the layout log' log
metrics "outboxes are counted" \
	'v("wherry_matched_outboxes", relay="all") == 3 and v("wherry_matched_failing", relay="all") == 1
	 and v("wherry_delivered_total", relay="all") == 150'
get /readyz
expect "readyz names the one that fails" 503 "out:all not ready: 3 outboxes" "out:1 fail, such as broken.db"

# ---- they come and go ----

tenant c.db
put c.db 1 10
check "a new file is noticed" until_true 10 came c.db 10
"$wherry" create sqlite:tenants/plain.db >/dev/null 2>&1
put plain.db 1 5
check "a file that gets an outbox is noticed" until_true 10 came plain.db 5
rm -f tenants/broken.db tenants/c.db*
check "files that are removed are forgotten" until_true 15 grep -q 'event=matched outboxes=4 added=0 dropped=[12]' log
check "and are ready again" until_true 15 readyz 200
mv tenants/b.db tenants/d.db
put d.db 51 60
check "a file that is renamed is found again" until_true 15 came d.db 10
is "$(grep -c 'event=failed file=broken.db' log) $(grep -c 'event=no-outbox file=another.db' log)" "1 1"
result $? "each is said once" ""

# ---- one is locked ----

mkfifo lock
sqlite3 tenants/a.db <lock >/dev/null 2>&1 &
exec 8>lock
printf 'PRAGMA locking_mode=EXCLUSIVE;\nBEGIN EXCLUSIVE;\n%s\n' \
	"INSERT INTO outbox(topic, partition_key, payload) VALUES ('a.db', '0', json_object('n', 200));" >&8
put plain.db 6 9
check "another file goes on while one is locked" until_true 10 came plain.db 9
printf 'COMMIT;\n.quit\n' >&8
exec 8>&-
check "the locked one follows" until_true 15 came a.db 101
stop_daemon
result "$status" "it stops in good order" "$err"

# ---- two processes ----

start_daemon wherry.yaml
first=$daemon
put a.db 301 310
check "another process has them again" until_true 10 came a.db 111
sed '/http/d' wherry.yaml >two.yaml
"$wherry" run two.yaml 2>two.log &
pids+=($!)
second=$!
until_true 10 grep -q 'event=matched' two.log
kill -KILL "$first"
wait "$first" 2>/dev/null
put a.db 311 320
check "when one is killed, the other one delivers" until_true 20 came a.db 121
kill -TERM "$second"
wait "$second"
result $? "and stops in good order" "$(tail -n 2 two.log)"

# ---- a folder that is away ----

mv tenants away
"$wherry" run wherry.yaml 2>log &
daemon=$!
pids+=("$daemon")
check "a folder that is missing is said" until_true 10 grep -q "event=database-trouble .*cannot watch the folder 'tenants'" log
mv away tenants
put a.db 321 330
check "and watched when it is back" until_true 15 came a.db 131
stop_daemon
python3 - <<'END'
import json
last, seen = {}, set()
for line in open("all.out"):
    m = json.loads(line)
    body = m["body"] if isinstance(m["body"], dict) else json.loads(m["body"])
    one = (m["topic"], body["n"])
    if one not in seen:
        key = (one[0], one[1] % 3)
        assert last.get(key, 0) < one[1], f"{one} behind {last[key]}"
        last[key] = one[1]
    seen.add(one)
END
result $? "each key is in order" ""
finish
