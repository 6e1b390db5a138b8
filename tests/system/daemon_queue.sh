#!/usr/bin/env bash
# A daemon relays a queue in SQLite: metrics, /readyz and status agree.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/queue_daemon.bash
. "$source_dir/tests/system/queue_daemon.bash"

db=sqlite:shop.db
url="$db#jobs"
with_daemon
with_dead_ones
finish
