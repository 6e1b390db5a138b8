#!/usr/bin/env bash
# Subscriptions of an outbox of the layout log on the SQL Server that WHERRY_TEST_MSSQL names.
#
# Writes TAP.

if [ -z "${WHERRY_TEST_MSSQL:-}" ]; then
	printf '1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no server\n'
	exit 0
fi

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/subscriptions.bash
. "$source_dir/tests/system/subscriptions.bash"

url=$WHERRY_TEST_MSSQL
all "$url" mssql
finish
