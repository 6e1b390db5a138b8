#!/usr/bin/env bash
# The package for Python: workers and senders, at level deep on every driver that is installed.
#
# Writes TAP.

# shellcheck source=tests/system/client.bash
. "$(dirname "$0")/client.bash"

# The others take as long, and differ in their drivers alone.
[ "${WHERRY_TEST_DEEP-}" = 1 ] || export WHERRY_ONLY="${WHERRY_ONLY:-psycopg threads,sqlite3 asyncio}"

find_python
start_server max_connections=100
run_python ordinary "$url" >ordinary.tap
grep -v '^1[.][.]' ordinary.tap
n=$(grep -cE '^(not )?ok ' ordinary.tap) failed=$(grep -c '^not ok ' ordinary.tap)
[[ $(tail -n 1 ordinary.tap) == 1..* ]]
result $? "the tests come to their end" "see above"

# ---- the programs of the README and of the guide ----

block() { # N FILE: the block of that number in Python
	awk -v n="$1" '/^```/ { inside = $0 == "```python" && ++k == n } inside && !/^```/' "$source_dir/$2"
}

block 1 clients/python/README.md >worker.py
block 2 clients/python/README.md >send.py
block 1 docs/guide/clients.md | sed "s#postgres://shop@db.example.org/shop#$url#" >guide.py
export WHERRY_URL=$url
w create --kind queue "$url#jobs"
sql 'CREATE TABLE mails(order_id bigint)'
(run_program send.py)
run_program worker.py >worker.out 2>worker.err &
pids+=($!)
check "the worker of the README handles the message of its sender" until_true 20 answers \
	"SELECT (SELECT count(*) FROM mails) || ' ' || (SELECT count(*) FROM jobs)" '1 0'
kill -TERM "${pids[-1]}"
wait "${pids[-1]}"
status=$? out=$(cat worker.out) err=$(cat worker.err)
expect "and stops at SIGTERM" 0 "is:order 7"

(run_program send.py)
run_program guide.py >worker.out 2>worker.err &
pids+=($!)
check "so does the worker of the guide" until_true 20 answers \
	"SELECT (SELECT count(*) FROM mails) || ' ' || (SELECT count(*) FROM jobs)" '2 0'
stop_server
finish
