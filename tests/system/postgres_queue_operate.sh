#!/usr/bin/env bash
# An operator works on a queue in PostgreSQL as on an outbox.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/queue_operate.bash
. "$source_dir/tests/system/queue_operate.bash"

start_server
db=$url
url="$db#jobs"
doctor_status=1 # the test server has fsync off

statement() {
	psql -X -q "$db" -c "$1"
}

end_leases() {
	psql -X -q "$db" -c "UPDATE jobs SET available_at = '2020-01-01' WHERE state = 1"
}

break_index() {
	psql -X -q "$db" -c 'DROP INDEX jobs_dead'
}

operate

# As COPY puts rows back.
psql -X -q "$db" -c "INSERT INTO jobs(id, body) VALUES (900, '1')"
w doctor "$url"
expect "ids behind the rows are found" 1 "out:which is not above the last, 900"
psql -X -q "$db" -c "$(sed -n "s/.*\(SELECT setval([^)]*)\).*/\1;/p" <<<"$out$err")" >/dev/null
w doctor "$url"
expect "and put right" "$doctor_status" "no:which is not above"
sql "CREATE OR REPLACE FUNCTION wherry_wake() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
w doctor "$url"
expect "an emptied function that wakes receivers is found" 1 "out:the function public.wherry_wake is another one"
sql "$(grep -A1 wherry_wake <<<"$out" | sed -n 's/.*`\(CREATE [^`]*\)`.*/\1/p')"
w doctor "$url"
expect "and put right" "$doctor_status" "no:wherry_wake"

w create --kind queue "$db#letters" --layout nservicebus
w send "$db#letters" '{"a":1}' --id 0c5e9d4a-0000-4000-8000-000000000001
url="$db#letters"
w status "$url"
expect "a queue of NServiceBus has a status, too" 0 "out:layout      nservicebus" "out:ready       1"
w list "$url" --json
json "and is listed" '[m["state"] for m in l] == ["ready"]'
w doctor "$url" 1
expect "and examined" "$doctor_status" "out:message 1 (0c5e9d4a-0000-4000-8000-000000000001) is ready"
w discard "$url" 0c5e9d4a-0000-4000-8000-000000000001 --yes
expect "a message of it is discarded" 0 "out:1 message discarded"

# As another program writes it: its headers do not say when it was sent.
psql -X -q "$db" -c "INSERT INTO letters(id, headers, body) VALUES ('0c5e9d4a-0000-4000-8000-000000000002', '{}', 'x')"
w list "$url"
expect "a message that does not say when it was sent has no age" 0 "out: - "
w list "$url" --json
json "and no time" '[m["created_at"] for m in l] == [None]'
for age in "--older-than 1h" "--since 1h"; do
	w list "$url" $age --json
	expect "and is neither old nor new $age" 0 "is:"
done
w receive "$url" --json
json "a receiver learns that it has none" 'd["created_at"] is None'
finish
