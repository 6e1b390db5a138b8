#!/usr/bin/env bash
# Workers in other languages on the SQL functions of a delayed queue: each message that is due takes
# effect once, one that fails is tried again and then dead, and one that is not due stays.
#
# Writes TAP.

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"

find_languages
start_shop_server

declare -A command=(
	[Python]='python3 examples/postgres/reminders.py'
	[Node]='node examples/postgres/reminders.mjs'
)

# run DATABASE LANGUAGE: two workers at once, until nothing is due.
run() {
	local url="postgres://wherry@127.0.0.1:$server_port/$1" first

	# shellcheck disable=SC2086
	PATH=$tmp/bin:$PATH ${command[$2]} "$url" mail --until-empty >first.out 2>first.err </dev/null 9>&- &
	first=$!
	# shellcheck disable=SC2086
	PATH=$tmp/bin:$PATH ${command[$2]} "$url" mail --until-empty >second.out 2>second.err </dev/null 9>&-
	status=$?
	wait "$first" || status=$?
	out=$(cat first.out second.out)
	err=$(cat first.err second.err)
}

for language in Python Node; do
	if [ -n "${lacks[$language]}" ]; then
		skip "$language: a worker of a delayed queue" "${lacks[$language]}"
		continue
	fi
	database=${language,,}
	in_database postgres "CREATE DATABASE $database"
	"$wherry" create --kind delayed "postgres://wherry@127.0.0.1:$server_port/$database" >/dev/null
	in_database "$database" "CREATE TABLE mails(key text NOT NULL, order_id bigint NOT NULL)"
	in_database "$database" "SELECT count(wherry_offer('mail', 'order-' || n, format('{\"order\": %s}', n)))
		FROM generate_series(1, 100) AS n" >offered
	in_database "$database" "SELECT wherry_offer('mail', 'bad', '{\"order\": null}')" >offered
	in_database "$database" "SELECT wherry_offer('mail', 'later', '{\"order\": 7}', delay => '1 h')" >offered
	run "$database" "$language"
	expect "$language: two workers share what is due" 0 "out:done: order-100" "out:failed: bad"
	check "$language: each message took effect once" answers_in "$database" \
		"SELECT count(*) || ' ' || count(DISTINCT key) FROM mails" '100 100'
	check "$language: one that failed is tried again later, and says why" answers_in "$database" \
		"SELECT (attempts > 0) || ' ' || (last_error LIKE '%order_id%') || ' '
			|| (\"scheduledAt\" >= \"scheduledAtInitially\" + 2000) FROM delayed WHERE \"pKey\" = 'bad'" \
		'true true true'
	in_database "$database" "UPDATE delayed SET attempts = 4, \"scheduledAt\" = 0 WHERE \"pKey\" = 'bad'"
	run "$database" "$language"
	check "$language: at last it is dead" answers_in "$database" \
		"SELECT \"pKey\" || ' ' || attempts FROM delayed_dead" 'bad 5'
	check "$language: a message that is not due stays" answers_in "$database" \
		"SELECT string_agg(\"pKey\", ' ') FROM delayed" 'later'
done

stop_server
finish
