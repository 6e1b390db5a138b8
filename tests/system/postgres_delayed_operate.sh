#!/usr/bin/env bash
# An operator works on a delayed queue in PostgreSQL: status, doctor, pause and resume.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/delayed_operate.bash
. "$source_dir/tests/system/delayed_operate.bash"

start_server
db=$url
url="$db#delayed/mail"
doctor_status=1 # the test server has fsync off
statement() {
	local body="convert_to('corrected', 'UTF8')"
	psql -X -q "$db" -c "${1/@BODY@/$body}"
}

operate

# As COPY puts rows back.
psql -X -q "$db" -c "INSERT INTO delayed(id, \"pKey\", \"pKind\", payload, \"scheduledAt\", \"scheduledAtInitially\", \"createdAt\")
  VALUES (900, 'copied', md5('mail|bytes'), 'x', 1, 1, 1)"
w doctor "$url"
expect "ids behind the rows are found" 1 "out:which is not above the last, 900"
psql -X -q "$db" -c "$(sed -n "s/.*\(SELECT setval([^)]*)\).*/\1;/p" <<<"$out$err")" >/dev/null
w doctor "$url"
expect "and put right" "$doctor_status" "no:which is not above"

# The tables of every layout whose ids come from a sequence, and a row at the end of all ids, which leaves none.
w delayed create "$db#ahead_delayed"
w delayed create "$db#ahead_funfix" --layout funfix
w queue create "$db#ahead_queue"
w queue create "$db#ahead_letters" --layout nservicebus
w init "$db#ahead_outbox"
psql -X -q "$db" -c "CREATE SCHEMA ahead"
w init "$db#ahead.outbox" --layout eventferry
delayed='"pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt") VALUES'
row="md5('mail|bytes'), 'x', 4000000000000, 4000000000000, 1)"
while IFS='~' read -r table column source columns values ids; do
	for id in $ids; do
		psql -X -q "$db" -c "INSERT INTO $table($column, $columns ($id, ${values//ID/$id}"
		# shellcheck disable=SC2086
		w doctor $source
		expect "id $id ahead of the sequence of $table is found" 1 "out:which is not above the last, $id"
		# shellcheck disable=SC2016
		psql -X -q "$db" -c "$(sed -n 's/.*`\(SELECT setval([^)]*)\|UPDATE [^`;]*\).*/\1;/p' <<<"$out$err")" >/dev/null
		# shellcheck disable=SC2086
		w doctor $source
		expect "and put right by what doctor prints" "$doctor_status" "no:which is not above"
		psql -X -q "$db" -c "INSERT INTO $table($columns (${values//ID/new $id}" 2>"$tmp/.err"
		result $? "$table takes a row again" "$(cat "$tmp/.err")"
	done
done <<-END
	ahead_delayed~id~$db#ahead_delayed/mail~$delayed~'ID', $row~900 9223372036854775807
	ahead_funfix~id~$db#ahead_funfix/mail~$delayed~'ID', $row~900 9223372036854775807
	ahead_queue~id~$db#ahead_queue~body) VALUES~'"ID"')~900 9223372036854775807
	ahead_letters~seq~$db#ahead_letters~id, headers, body) VALUES~gen_random_uuid(), '{}', 'ID')~900
	ahead_outbox~id~$db#ahead_outbox~topic, payload) VALUES~'t', '"ID"')~900 4611686018427387903
	ahead.outbox~id~$db#ahead.outbox~topic, aggregate_type, aggregate_id, message_id, payload) OVERRIDING SYSTEM VALUE VALUES~'t', 'a', 'ID', gen_random_uuid(), '1')~900 9223372036854775807
END
finish
