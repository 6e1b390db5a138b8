#!/usr/bin/env bash
# A server, or a pooler, whose answers make no sense: commands end with an error, or go on;
# none crashes, reads what is not there or waits for ever.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server
python3 "$source_dir/tests/system/postgres_answers.py" "$wherry" "$folder"
code=$?
stop_server
exit $code
