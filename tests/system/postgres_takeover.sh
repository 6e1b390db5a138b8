#!/usr/bin/env bash
# As takeover.sh, on PostgreSQL, also where relays share the outbox.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/takeover.bash
. "$source_dir/tests/system/takeover.bash"

start_server

w create "$url"
takes_over "$url"

finish
