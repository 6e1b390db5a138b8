#!/usr/bin/env bash
# PostgreSQL undoes transactions of commands with deadlocks and serialization failures: they begin again.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server
python3 "$source_dir/tests/system/postgres_undone.py" "$wherry" "$folder"
code=$?
stop_server
exit $code
