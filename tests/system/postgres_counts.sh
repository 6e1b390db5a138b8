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

# ---- a dry run refuses what the command refuses ----

sql "CREATE DATABASE kept"
db=${url/@\/postgres/@/kept}
put() {
	psql -X -q -A -t "$db" -c "$1"
}
furnish_all "$db"
put "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
reader=${db/wherry@/reader@}
refused_alike "a role that may only read" deletions "$reader"
refused_alike "a role that is not the owner" drops "$reader"
before=$(put "SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM jobs), (SELECT count(*) FROM delayed)")
# A transaction that has read a table lets nobody drop it.
psql -X -q "$db" -c 'BEGIN; SELECT 1 FROM outbox, jobs, delayed, inbox LIMIT 1; SELECT pg_sleep(600)' >/dev/null &
pids+=("$!")
until_true 20 test "$(put "SELECT count(*) FROM pg_locks WHERE relation = 'outbox'::regclass")" != 0
while read -ra words; do
	w "${words[@]}" --dry-run --set db.busy_timeout=1s
	expect "the dry run of ${words[*]} waits for no reader" 0 "out:dry run: "
done < <(drops "$db")
check "and nothing has changed" is \
	"$(put "SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM jobs), (SELECT count(*) FROM delayed)")" "$before"

finish
