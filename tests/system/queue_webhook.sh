#!/usr/bin/env bash
# From a queue in SQLite to a web server, with a kill on the way.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/webhook.bash
. "$source_dir/tests/system/webhook.bash"

db=sqlite:shop.db
url="$db#jobs"
most=500

# received_all N: requests of that many different messages.
received_all() {
	[ "$(grep -o '"idempotency-key": "[^"]*"' log | sort -u | wc -l)" -ge "$1" ]
}

: >log
start_receiver log
w create --kind queue "$db#jobs"
w send "$db#jobs" '{"n":0}' --id m0 --header 'kind=first'
w relay "$url" "$hook" --until-empty --timeout 60s
expect "a queue is relayed to a web server" 0 "err:1 delivered"
out=$(head -n 1 log)
json "with its message id, its headers and its body" 'd["headers"]["idempotency-key"] == "m0"
	and d["headers"]["kind"] == "first" and json.loads(d["body"]) == {"n": 0}'

sql shop.db "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < $most)
	INSERT INTO jobs(message_id, body) SELECT 'm' || n, json_object('n', n) FROM c"
"$wherry" relay "$url" "$hook" 2>first.err &
first=$!
pids+=("$first")
until_true 30 received_all 20
kill -KILL "$first"
wait "$first" 2>/dev/null
w relay "$url" "$hook" --until-empty --timeout 100s --set relay.lease=1s
expect "after a kill, another relay delivers the rest" 0
check "nothing is lost" received_all $((most + 1))
w status "$url" --json
json "and the queue is empty" '(d["ready"], d["leased"], d["waiting"], d["dead"]) == (0, 0, 0, 0)'
finish
