#!/usr/bin/env bash
# On SQLite status, list, discard and purge count the same messages.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/counts.bash
. "$source_dir/tests/system/counts.bash"

db=sqlite:counts.db past=1000 future=4000000000000

put() {
	sqlite3 counts.db "$1"
}

count_models

w create "sqlite:bus.db#events" --layout event-bus
sqlite3 bus.db "INSERT INTO events(id, type, payload, occurred_at, status) VALUES
	('1', 't', '{}', '2026-01-01T00:00:00.000Z', 'created'), ('2', 't', '{}', '2026-01-01T00:00:00.000Z', 'failed');
	INSERT INTO events_archive(id, type, payload, occurred_at, status, retry_count, created_on, completed_on) VALUES
	('3', 't', '{}', '2026-01-01T00:00:00.000Z', 'completed', 0, '2026', '2026-01-01T00:00:00.000Z'),
	('4', 't', '{}', '2026-01-01T00:00:00.000Z', 'completed', 0, '2026', '2199-01-01T00:00:00.000Z')"
bus="sqlite:bus.db#events"
agree "event-bus" "$bus" pending 1
agree "event-bus" "$bus" failed 0
agree "event-bus" "$bus" dead 1
same "event-bus" '{"purged":1}' purge "$bus" --older-than 1h
check "event-bus: a younger one stays" is "$(sqlite3 bus.db 'SELECT group_concat(id) FROM events_archive')" 4

# ---- a dry run refuses what the command refuses ----

both_refuse "a table of another program" drop "$bus"
put() {
	sqlite3 kept.db "$1"
}
furnish_all sqlite:kept.db
# shellcheck disable=SC2046
put "$(for table in $(put "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) NOT IN ('wherry_', 'sqlite_')"); do
	echo "CREATE TRIGGER ${table}_stays BEFORE DELETE ON $table BEGIN SELECT RAISE(ABORT, 'it stays'); END;"
done)"
refused_alike "a trigger" deletions sqlite:kept.db

finish
