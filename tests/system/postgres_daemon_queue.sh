#!/usr/bin/env bash
# A daemon relays a queue in PostgreSQL: metrics, /readyz and status agree.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/queue_daemon.bash
. "$source_dir/tests/system/queue_daemon.bash"

start_server
db=$url
url="$db#jobs"
with_daemon
with_dead_ones
stop_server
finish
