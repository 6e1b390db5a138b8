#!/usr/bin/env bash
# What `wherry doctor` finds of a log and of an adopted table, on PostgreSQL and SQLite.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

run_sql() { # URL SQL
	case $1 in sqlite:*) sqlite3 "${1#sqlite:}" "$2" ;; *) sql "$2" ;; esac
}
finds() { # SENTENCE URL PART...: the doctor's report has each part
	w doctor "$2" --verbose
	expect "$1" "$status" "${@:3}"
}

# ---- a trigger or a rule that swallows what is written beside the table ----

sql "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN RETURN NULL; END'"
w create "$url"
finds "nothing ignores acknowledgements" "$url" "out:no trigger can ignore an acknowledgement"
for table in outbox_progress outbox_exception; do
	sql "CREATE TRIGGER mine BEFORE INSERT OR UPDATE ON $table FOR EACH ROW EXECUTE FUNCTION swallow()"
	finds "a trigger of $table is found" "$url" "out:warn  acknowledgements" "out:trigger mine of public.$table can ignore"
	sql "DROP TRIGGER mine ON $table; CREATE TRIGGER mine AFTER UPDATE ON $table FOR EACH ROW EXECUTE FUNCTION swallow()"
	finds "one that runs afterwards is not" "$url" "no:warn  acknowledgements"
	sql "DROP TRIGGER mine ON $table; CREATE RULE mine AS ON UPDATE TO $table DO INSTEAD NOTHING"
	finds "a rule of $table is found" "$url" "out:rule mine of public.$table can ignore"
	sql "DROP RULE mine ON $table"
done
w create sqlite:shop.db
for table in outbox_progress outbox_exception; do
	sqlite3 shop.db "CREATE TRIGGER mine BEFORE UPDATE ON $table BEGIN SELECT raise( IGNORE ); END"
	finds "sqlite: a trigger of $table is found" sqlite:shop.db "out:trigger mine of $table can ignore"
	sqlite3 shop.db "DROP TRIGGER mine"
done

# ---- the role of operators ----

sql "CREATE ROLE chief LOGIN; CREATE ROLE porter LOGIN; GRANT pg_read_all_stats TO chief, porter"
w create "$url" --grant chief=operator --grant porter=relay
finds "operators lack nothing" "postgres://chief@/postgres?host=$folder" "no:bad   rights" "out:this role has the rights"
finds "nor do relays" "postgres://porter@/postgres?host=$folder" "out:this role has the rights"
sql "REVOKE UPDATE ON wherry_lease FROM chief"
finds "unless they do" "postgres://chief@/postgres?host=$folder" "out:bad   rights" "out:role chief lacks UPDATE on"
sql "REVOKE INSERT ON outbox_progress FROM porter"
finds "a relay needs what an operator does not" "postgres://porter@/postgres?host=$folder" "out:role porter lacks INSERT on"

# ---- an adopted table ----

gone() { # NAME SQL TEXT: it is gone, and adopt makes it again
	run_sql "$events" "$2"
	finds "$1 is missed" "$events#events_log" "out:  adopted " "out:$3" "out:events" "out: --yes\` makes it again"
	w adopt "$events#events" --yes
	finds "$1 is there again" "$events#events_log" "out:an adopted table has what"
}
events=$url
sql "CREATE TABLE events(id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL, published_at timestamptz)"
w adopt "$events#events" --yes
finds "an adopted table lacks nothing" "$events#events_log" "out:an adopted table has what"
gone "the index of transactions" "DROP INDEX events_wherry_tx" "no index that begins with its column wherry_tx"
gone "the index of what is not done" "DROP INDEX events_log_undone" "no index events_log_undone"
gone "the trigger that numbers copied rows" "DROP TRIGGER events_log_numbered ON events" "no trigger events_log_numbered"
gone "one that is disabled" "ALTER TABLE events DISABLE TRIGGER events_log_numbered" "no trigger events_log_numbered"
gone "the function of what is delivered" "DROP FUNCTION events_log_delivered(bigint[])" "no function events_log_delivered"
sql "DROP TRIGGER events_log_wake ON events"
finds "the trigger that wakes relays is missed" "$events#events_log" "out:warn  trigger" "out:events has no trigger"
w adopt "$events#events" --yes
events=sqlite:events.db
sqlite3 events.db "CREATE TABLE events(id INTEGER PRIMARY KEY, type TEXT NOT NULL, data TEXT NOT NULL, published_at TEXT)"
w adopt "$events#events" --yes
finds "sqlite: an adopted table lacks nothing" "$events#events_log" "out:an adopted table has what"
gone "sqlite: the trigger of deleted rows" "DROP TRIGGER events_log_gone" "no trigger events_log_gone"
gone "sqlite: the trigger of what is delivered" "DROP TRIGGER events_log_delivered" "no trigger events_log_delivered"
gone "sqlite: the index of what is not done" "DROP INDEX events_log_undone" "no index events_log_undone"

stop_server
finish
