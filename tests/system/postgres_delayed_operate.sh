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
url="delayed+$db&delayed=mail"
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
finish
