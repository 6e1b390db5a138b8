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

operate
finish
