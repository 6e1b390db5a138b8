#!/usr/bin/env bash
# Workers in other languages on the SQL functions of a queue: each job takes effect once, one that
# fails is tried again and then dead.
#
# Writes TAP.

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"

find_languages
start_shop_server

declare -A command=(
	[Python]='python3 examples/postgres/worker.py'
	[Node]='node examples/postgres/worker.mjs'
	[Go]='./worker'
)

# run DATABASE LANGUAGE: two workers at once, until the queue is empty.
run() {
	local url="postgres://wherry@127.0.0.1:$server_port/$1" first

	# shellcheck disable=SC2086
	PATH=$tmp/bin:$PATH ${command[$2]} "$url" jobs --until-empty >first.out 2>first.err </dev/null 9>&- &
	first=$!
	# shellcheck disable=SC2086
	PATH=$tmp/bin:$PATH ${command[$2]} "$url" jobs --until-empty >second.out 2>second.err </dev/null 9>&-
	status=$?
	wait "$first" || status=$?
	out=$(cat first.out second.out)
	err=$(cat first.err second.err)
}

for language in Python Node Go; do
	if [ -n "${lacks[$language]}" ]; then
		skip "$language: a worker of a queue" "${lacks[$language]}"
		continue
	fi
	[ "$language" != Go ] || go build -o worker examples/postgres/worker.go
	database=${language,,}
	in_database postgres "CREATE DATABASE $database"
	"$wherry" create --kind queue "postgres://wherry@127.0.0.1:$server_port/$database#jobs" >/dev/null
	in_database "$database" "CREATE TABLE mails(order_id bigint NOT NULL)"
	in_database "$database" "SELECT count(wherry_send('jobs', format('{\"order\": %s}', n)))
		FROM generate_series(1, 200) AS n" >sent
	in_database "$database" "SELECT wherry_send('jobs', '{\"order\": null}')" >sent
	run "$database" "$language"
	expect "$language: two workers share the jobs" 0 "out:done: 200" "out:failed: 201"
	check "$language: each job took effect once" answers_in "$database" \
		"SELECT count(*) || ' ' || count(DISTINCT order_id) FROM mails" '200 200'
	check "$language: one that failed is tried again later, and says why" answers_in "$database" \
		"SELECT state || ' ' || (attempts > 0) || ' ' || (last_error LIKE '%order_id%') || ' '
			|| (available_at >= created_at + interval '2 s') FROM jobs" '3 true true true'
	in_database "$database" "UPDATE jobs SET attempts = 4, available_at = now()"
	run "$database" "$language"
	check "$language: at last it is dead" answers_in "$database" \
		"SELECT state || ' ' || attempts FROM jobs" '4 5'

	# One that goes on: it listens once the queue is empty.
	# shellcheck disable=SC2086
	PATH=$tmp/bin:$PATH ${command[$language]} "postgres://wherry@127.0.0.1:$server_port/$database" jobs >waits.out 2>&1 </dev/null 9>&- &
	check "$language: one that waits has senders notify it" until_true 20 answers_in "$database" \
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'" 1
	in_database "$database" "SELECT wherry_send('jobs', '{\"order\": 300}')" >sent
	check "$language: one that waits takes what is sent" until_true 20 answers_in "$database" \
		"SELECT count(*) FROM mails WHERE order_id = 300" 1
	kill $!
	wait $! 2>/dev/null
done

# ---- a queue in one database, the inbox and the effect in another ----

mailer=(bin/python3 examples/postgres/mailer.py "postgres://wherry@127.0.0.1:$server_port/python" posts
	"postgres://wherry@127.0.0.1:$server_port/mails")

if [ -z "${lacks[Python]}" ]; then
	in_database postgres "CREATE DATABASE mails"
	"$wherry" create --kind queue "postgres://wherry@127.0.0.1:$server_port/python#posts" >/dev/null
	"$wherry" create --kind inbox "postgres://wherry@127.0.0.1:$server_port/mails" >/dev/null
	in_database mails "CREATE TABLE mails(order_id bigint NOT NULL)"
	in_database python "SELECT count(wherry_send('posts', format('{\"order\": %s}', n)))
		FROM generate_series(1, 300) AS n" >sent
	# As if a mailer had been killed after it wrote the mail and before it acknowledged the job.
	first=$(in_database python "SELECT message_id FROM posts ORDER BY id LIMIT 1")
	in_database mails "INSERT INTO mails VALUES (1); SELECT wherry_accept('$first')" >sent
	for some in 20 80; do
		"${mailer[@]}" >killed.out 2>killed.err </dev/null 9>&- &
		pid=$!
		until_true 60 answers_in mails "SELECT count(*) >= $some FROM mails" t
		kill -9 "$pid"
		wait "$pid" 2>/dev/null
		in_database python "UPDATE posts SET available_at = now() WHERE state = 1" # its leases end
	done
	out=$("${mailer[@]}" 2>.err </dev/null 9>&-)
	status=$? err=$(cat .err)
	expect "a mailer that was killed goes on" 0
	check "each job had its effect once, in another database" answers_in mails \
		"SELECT count(*) || ' ' || count(DISTINCT order_id) FROM mails" '300 300'
	check "and none is left" answers_in python "SELECT count(*) FROM posts" 0
fi
if [ -z "${lacks[Go]}" ]; then
	out=$(gofmt -l examples 2>&1)
	check "the programs in Go are formatted" is "$out" ""
fi

stop_server
finish
