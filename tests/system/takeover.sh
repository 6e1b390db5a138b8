#!/usr/bin/env bash
# A relay that is killed is followed at once by the next one on its machine, whatever its lease
# has left; one that only stands still is waited for.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/takeover.bash
. "$source_dir/tests/system/takeover.bash"

w create sqlite:a.db
takes_over sqlite:a.db

finish
