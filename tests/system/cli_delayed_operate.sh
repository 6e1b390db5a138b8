#!/usr/bin/env bash
# An operator works on a delayed queue in SQLite: status, doctor, pause and resume.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/delayed_operate.bash
. "$source_dir/tests/system/delayed_operate.bash"

db=sqlite:shop.db
url="delayed+$db?delayed=mail"
doctor_status=0

operate
finish
