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
w create --kind delayed "$db#ahead_delayed"
w create --kind delayed "$db#ahead_funfix" --layout funfix
w create --kind queue "$db#ahead_queue"
w create --kind queue "$db#ahead_letters" --layout nservicebus
w create "$db#ahead_outbox"
psql -X -q "$db" -c "CREATE SCHEMA ahead"
w create "$db#ahead.outbox" --layout eventferry
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

# In each table of Wherry's own, and with each role that adds rows.
psql -X -q "$db" -c "CREATE ROLE adds LOGIN; CREATE ROLE byhand LOGIN"
as() { # ROLE SQL
	err=$(psql -X -q -At "${db/wherry@/$1@}" -c "$2" 2>&1 >"$tmp/.out")
	status=$? out=$(cat "$tmp/.out")
}
while IFS='~' read -r create kind table columns values refusal; do
	# shellcheck disable=SC2086
	w $create "$db#$table" --grant "adds=$kind"
	expect "adds becomes a $kind" 0
	for id in 5 900 9223372036854775807; do
		as adds "INSERT INTO $table(id, $columns) VALUES ($id, ${values//ID/$id})"
		expect "a $kind writes no id $id" 1 "err:$refusal"
	done
	as adds "INSERT INTO $table($columns) VALUES (${values//ID/plain})"
	expect "and adds a row without one" 0
	psql -X -q "$db" -c "INSERT INTO $table(id, $columns) VALUES (800, ${values//ID/copied}); DELETE FROM $table WHERE id = 800" 2>"$tmp/.err"
	result $? "who copies rows back writes any id" "$(cat "$tmp/.err")"
done <<-END
	create~producer~given_outbox~topic, payload~'t', '"ID"'~permission denied for table
	create~enqueuer~given_outbox~topic, payload~'t', '"ID"'~permission denied for table
	create --kind queue~sender~given_queue~body~'"ID"'~permission denied for table
	create --kind delayed~sender~given_delayed~"pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt"~'ID', ${row%)}~did not give the id
END
delayed="${delayed% VALUES}"
as adds "INSERT INTO given_delayed(id, $delayed VALUES (DEFAULT, 'default', $row RETURNING id"
expect "DEFAULT may stand for the id" 0
as adds "INSERT INTO given_delayed(id, $delayed SELECT nextval(pg_get_serial_sequence('given_delayed', 'id')), k, ${row%)}
	FROM unnest(ARRAY['c', 'b', 'a']) AS k RETURNING id"
expect "and ids that the sender took from the sequence" 0
psql -X -q "$db" -c "GRANT INSERT ON given_delayed TO byhand"
as byhand "INSERT INTO given_delayed($delayed VALUES ('hand', $row"
expect "a role that was given no right on the sequence learns it" 1 "err:permission denied for sequence"
finish
