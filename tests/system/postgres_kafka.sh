#!/usr/bin/env bash
# From PostgreSQL to Kafka, with kills on the way; see kafka.bash.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/kafka.bash
. "$source_dir/tests/system/kafka.bash"

start_kafka 1
start_server

w create "$url"
deliver_with_kills "$url" "kafka://$broker?topic=orders"

finish
