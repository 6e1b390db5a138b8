#!/usr/bin/env bash
# Workers in Python are killed and stopped, and their connections ended: jobs are counted.
#
# Writes TAP.

# shellcheck source=tests/system/client.bash
. "$(dirname "$0")/client.bash"

find_python
start_server max_connections=100
run_python kills "$url"
stop_server
