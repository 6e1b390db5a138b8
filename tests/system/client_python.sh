#!/usr/bin/env bash
# The package for Python: workers and senders, at level deep on every driver that is installed.
#
# Writes TAP.

# shellcheck source=tests/system/client.bash
. "$(dirname "$0")/client.bash"

# The others take as long, and differ in their drivers alone.
[ "${WHERRY_TEST_DEEP-}" = 1 ] || export WHERRY_ONLY="${WHERRY_ONLY:-psycopg threads,sqlite3 asyncio}"

find_python
start_server max_connections=100
run_python ordinary "$url"
stop_server
