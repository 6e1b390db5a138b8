# SQL on the SQL Server that WHERRY_TEST_MSSQL names, for scripts.
# shellcheck shell=bash disable=SC2154

run_sql() { # SQL: its rows, with | between columns
	/usr/bin/python3 -B "$source_dir/tests/crash/mssql.py" "$1"
}
clear_database() {
	/usr/bin/python3 -B "$source_dir/tests/crash/mssql.py"
}
