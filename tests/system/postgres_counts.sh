#!/usr/bin/env bash
# On PostgreSQL status, list, discard and purge count the same messages.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/counts.bash
. "$source_dir/tests/system/counts.bash"

start_server
db=$url past="timestamptz '2020-01-01'" future="timestamptz '2100-01-01'"

put() {
	sql "$1"
}

count_models

w create "$db#letters" --kind queue --layout nservicebus
put "INSERT INTO letters(id, headers, body, expires) VALUES (gen_random_uuid(), '{}', 'x', NULL),
	(gen_random_uuid(), '{}', 'x', '2020-01-01'), (gen_random_uuid(), '{}', 'x', '2100-01-01')"
w send "$db#letters" '{}' --in 1h
agree nservicebus "$db#letters" ready 3
agree nservicebus "$db#letters" waiting 1
w status "$db#letters" --json
json "nservicebus: status counts the expired one" 'd["expired"] == 1'
discards nservicebus "$db#letters" ready 3
discards nservicebus "$db#letters" waiting 1

finish
