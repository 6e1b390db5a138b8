#!/usr/bin/env bash
# A row for which an expression of an adopted table fails dies alone, on the SQL Server that WHERRY_TEST_MSSQL names.
#
# Writes TAP.

if [ -z "${WHERRY_TEST_MSSQL:-}" ]; then
	printf '1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no server\n'
	exit 0
fi

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/mssql.bash
. "$source_dir/tests/system/mssql.bash"
# shellcheck source=tests/system/adopt_failing.bash
. "$source_dir/tests/system/adopt_failing.bash"

url=$WHERRY_TEST_MSSQL
kind=mssql
columns='id BIGINT IDENTITY PRIMARY KEY, type NVARCHAR(100) NOT NULL, "key" NVARCHAR(100), data NVARCHAR(MAX) NOT NULL,
	v NVARCHAR(100), published_at DATETIME2(3)'
good="N'7'"
no_number='invalid input syntax\|Conversion failed'
clear_database
dies "a division in the body" "N'0'" "ivi.* by zero" --body "(CONCAT(data, 6 / CAST(v AS INT)))"
dies "a cast in the key" "N'seven'" "$no_number" --key "(CAST(CAST(v AS INT) AS NVARCHAR(20)))"
dies "a cast in the topic" "N'x'" "$no_number" --topic "('a' + LEFT(CAST(CAST(v AS INT) AS NVARCHAR(20)), 0))"
dies "a number that is too large" "N'99999999999'" "out of range\|overflow" --message-id "(CONCAT(id, '-', CAST(v AS INT)))"
dies "a text that is no time" "N'soon'" "$no_number" \
	--created-at "(CASE WHEN v = '7' THEN SYSUTCDATETIME() ELSE CAST(v AS DATETIME2(3)) END)"
dies "a condition" "N'no'" "$no_number" --where "CAST(v AS INT) > 0"
waits "a cast in the body" "N'seven'" --body "(CAST(CAST(v AS INT) AS NVARCHAR(20)))"
waits "a condition" "N'seven'" --where "CAST(v AS INT) > 0"

# Many of them, and relays that share the keys.
marks() {
	run_sql "SELECT COUNT(*) FROM events_log_exception WHERE subscription = N''"
}
run_sql "CREATE TABLE events($columns)"
w adopt "$url#events" --key "(CAST(CAST(v AS INT) AS NVARCHAR(20)))" --yes
w create "$url#events_log" --partitions
w create "$url#events_log/consumed" --topics '*'
run_sql "INSERT INTO events(type, data, v) SELECT TOP (300) N'a', N'{}', CASE WHEN ROW_NUMBER() OVER (ORDER BY object_id) % 10 = 0 THEN N'x'
	ELSE CAST(column_id % 7 AS NVARCHAR(9)) END FROM sys.all_columns"
relay
check "many die, and all others are delivered" is "$(wc -l <got.ndjson), $(marks)" "270, 30"
check "in the order of each key" is \
	"$(jq -r '[.key, .id] | @tsv' got.ndjson | awk '$2 <= last[$1] { bad++ } { last[$1] = $2 } END { print bad + 0 }')" 0
consumed=$(run_sql "BEGIN TRANSACTION; EXEC wherry_consume N'consumed', 400, N'events_log'; COMMIT TRANSACTION" | wc -l)
check "a consumer gets the others, and these die" is "$consumed, $(run_sql "SELECT COUNT(*) FROM events_log_exception
	WHERE subscription = N'consumed' AND state = 4 AND last_error LIKE N'the row cannot be read: %'")" "270, 30"
w drop "$url#events_log/consumed" --yes
run_sql "UPDATE events SET v = N'3' WHERE v = N'x'"
w retry "$url#events_log" --all
relay
check "what its owner repaired is not marked any more" is "$(wc -l <got.ndjson), $(marks)" "30, 0"
clear_database
finish
