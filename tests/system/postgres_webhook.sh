#!/usr/bin/env bash
# From PostgreSQL to a web server over TLS, with kills on the way; see kills.bash.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/webhook.bash
. "$source_dir/tests/system/webhook.bash"

make_certificate own IP:127.0.0.1 -days 2
start_receiver log --cert own.pem --key own.key
start_server

w create "$url"
deliver_with_kills "$url" "$hook" --set webhook.ca_file=own.pem

stop_server
finish
