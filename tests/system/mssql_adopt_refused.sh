#!/usr/bin/env bash
# Tables that wherry adopt refuses on the SQL Server that WHERRY_TEST_MSSQL names, and an outbox that lost its procedure.
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

url=$WHERRY_TEST_MSSQL
answers() { # SQL TEXT
	is "$(run_sql "$1" | paste -sd' ')" "$2"
}
refused() { # NAME TEXT [OPTION...]
	w adopt "$url#${table-refused}" "${@:3}" --yes
	expect "$1" 2 "err:$2"
}
clear_database
run_sql "CREATE TABLE refused(id BIGINT, code NVARCHAR(20) NOT NULL UNIQUE, type NVARCHAR(20) NOT NULL, data NVARCHAR(MAX), flag BIT);
	EXEC(N'CREATE VIEW seen AS SELECT 1 AS id')"
refused "a column that is not there" "no such column" --key nobody
refused "an id that is not unique" "unique" --id id
refused "an id that is a text" "an id is an integer" --id code
refused "a time that is not one" "neither a time nor a boolean" --done code
refused "a done that is not a column" "no column" --done "nobody = 1"
refused "a flag that may be NULL" "make it NOT NULL first" --done flag
refused "a mark that depends on itself" "cannot depend on the column" --done "type = type + N'x'"
refused "undone, where rows do not say it" "--from undone" --from undone
refused "the name of the table for the outbox" "needs another one" --as refused
refused "another schema" "is in the schema of its table" --as shop.refused_log
table=seen refused "a view" "is not a table"
w adopt "$url#refused" --done "type = N'x', data = nothing()" --yes
expect "a mark that the server does not take" 1 "err:--done"
w adopt "$url#nowhere"
expect "no table" 1 "err:there is no table 'nowhere'"
w create "$url#box"
w adopt "$url#box"
expect "an outbox of Wherry's own" 2 "err:relay it as it is"
table=refused refused "the name of another outbox" "choose another name" --as box
w create "$url#new" --layout adopted
expect "the layout is not created" 2 "err:wherry adopt"
check "nothing was changed" answers "SELECT (SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID(N'refused') AND name LIKE N'wherry%'),
	(SELECT COUNT(*) FROM sys.objects WHERE name LIKE N'refused[_]log%')" "0|0"

run_sql "CREATE TABLE kept(id BIGINT IDENTITY PRIMARY KEY, type NVARCHAR(20) NOT NULL, data NVARCHAR(MAX), sent_at DATETIME2(3));
	INSERT INTO kept(type, data) VALUES (N'a', N'{}')"
w adopt "$url#kept" --yes --json
check "it is there as JSON, too" is "$(jq -r '[.outbox, .did, .columns.body, .undone] | @csv' <<<"$out")" '"kept_log","made","data",1'
run_sql "DROP PROCEDURE kept_log_delivered"
w relay "$url#kept_log" null: --until-empty --timeout 120s
expect "a row that cannot be marked is delivered once" 0 "err:event=not-marked" "err:1 delivered"
w relay "$url#kept_log" null: --until-empty --timeout 120s
expect "and not again" 0 "err:0 delivered"
w adopt "$url#kept" --yes
w relay "$url#kept_log" null: --until-empty --timeout 120s
check "adopted again, it is marked" answers "SELECT COUNT(*) FROM kept WHERE sent_at IS NULL" 0
w adopt "$url#kept" --topic "(UPPER(type))" --yes
expect "one option is changed" 0 "out:is read as outbox 'kept_log' again"
run_sql "INSERT INTO kept(type, data) VALUES (N'b', N'{}')"
w relay "$url#kept_log" file:got.ndjson --until-empty --timeout 120s
check "and read so" is "$(jq -r .topic got.ndjson)" B
run_sql "DROP TRIGGER kept_log_keep; DROP VIEW kept_log; DROP TABLE kept"
w drop "$url#kept_log" --yes
expect "what is left of it is dropped" 0
check "and nothing is left" answers "SELECT COUNT(*) FROM sys.objects WHERE name LIKE N'kept%'" 0
clear_database
finish
