#!/usr/bin/env bash
# An outbox of which something was dropped by hand: what doctor prints repairs it, and `wherry drop` removes what is left.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

run_sql() { # URL SQL
	case $1 in sqlite:*) sqlite3 "${1#sqlite:}" "$2" ;; *) sql "$2" ;; esac
}
left() { # URL: names of what Wherry made
	case $1 in
	sqlite:*) sqlite3 "${1#sqlite:}" "SELECT name FROM sqlite_schema WHERE name LIKE 'wherry%' OR name LIKE 'events%' OR name LIKE 'outbox%'" ;;
	*) sql "SELECT relname FROM pg_class WHERE relname ~ '^(wherry|events|outbox)' UNION ALL SELECT proname FROM pg_proc WHERE proname ~ '^(wherry|events|outbox|consume_)' UNION ALL SELECT pubname FROM pg_publication" ;;
	esac
}
# The commands that doctor prints for a finding, each on a line.
printed() { # TEXT OF THE FINDING
	"$wherry" doctor "$target" | grep -F -A 2 -- "$1" | grep -o '`[^`]*`' | tr -d '`'
}

# ---- a part is dropped: the printed command makes it again ----

mends() { # NAME SQL TEXT
	run_sql "$base" "$2"
	mapfile -t commands < <(printed "$3")
	for command in "${commands[@]}"; do
		case $command in
		wherry\ *) PATH=$build_dir:$PATH bash -o pipefail -c "$command" >/dev/null 2>"$tmp/.said" || echo "# $command: $(cat "$tmp/.said")" ;;
		*) sql "$command" ;;
		esac
	done
	out=$("$wherry" doctor "$target")
	[ "${#commands[@]}" -gt 0 ] && [[ $out != *"$3"* ]]
	result $? "$1 is made again: ${commands[*]}" "$out"
}

base=$url target=$url
w create "$url"
mends "the constraint" "ALTER TABLE outbox DROP CONSTRAINT outbox_sane" "does not have the constraint"
check "and refuses what it did" is \
	"$(sql "INSERT INTO outbox(id, topic, payload) VALUES (-5, 't', '{}')" 2>&1 | grep -c outbox_sane)" 1
sql "ALTER TABLE outbox DROP CONSTRAINT outbox_sane; INSERT INTO outbox(id, topic, payload) VALUES (-5, 't', '{}')"
w create "$url"
expect "it is not added while there are rows that it refuses" 0
w doctor "$url"
expect "which doctor says" "$status" "out:unless there are such rows"
sql "DELETE FROM outbox"
sql "CREATE ROLE clerk LOGIN"
w create "$url#divided" --segments 1000 --grant clerk=relay
sql "DROP FUNCTION divided_segments"
w doctor "$url#divided"
expect "doctor misses the function of segments" 1 "out:no segment is made, and none dropped" "out: --segments 1000\`"
w create "$url#divided" --segments 1000
check "who was granted it may call it when it is made again" answers "SELECT has_function_privilege('clerk', 'divided_segments'::regproc, 'EXECUTE')" t
target="postgres://clerk@/postgres?host=$folder#divided"
mends "the right to it" "REVOKE EXECUTE ON FUNCTION divided_segments FROM clerk" "EXECUTE on FUNCTION"
target=$url
w drop "$url#divided" --yes
mends "the trigger" "DROP TRIGGER outbox_wake ON outbox" "has no trigger"
mends "the index" "DROP INDEX outbox_tx" "outbox_tx"
mends "the index of dead messages" "DROP INDEX outbox_dead" "outbox_dead"
mends "the table of exceptions" "DROP TABLE outbox_exception" "outbox_exception"
mends "the table of positions" "DROP TABLE outbox_progress" "outbox_progress"

adopted() { # COLUMNS
	run_sql "$base" "CREATE TABLE events($1)"
	w adopt "$target" --yes
	[ "$status" = 0 ] || echo "# $err"
	target=${target}_log
}
target=$url#events
adopted "id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL, published_at timestamptz"
mends "the trigger of an adopted table" "DROP TRIGGER events_log_wake ON events" "has no trigger"
mends "another one" "DROP TRIGGER events_log_numbered ON events" "no trigger events_log_numbered"
mends "its index" "DROP INDEX events_wherry_tx" "wherry_tx"
mends "its exceptions" "DROP TABLE events_log_exception" "events_log_exception"
mends "its positions" "DROP TABLE events_log_progress" "events_log_progress"
w drop "$target" --yes
w drop "$url" --yes
sql "DROP TABLE events"

base=sqlite:shop.db target=$base
w create "$target"
mends "sqlite: the table of exceptions" "DROP TABLE outbox_exception" "outbox_exception"
w drop "$target" --yes
target=$base#events
adopted "id INTEGER PRIMARY KEY, type TEXT NOT NULL, data TEXT NOT NULL, published_at TEXT"
mends "sqlite: the trigger of an adopted table" "DROP TRIGGER events_log_gone" "no trigger events_log_gone"
w drop "$target" --yes
run_sql "$base" "DROP TABLE events"

# ---- the table is dropped: nothing needs to stay ----

# The command that doctor prints, with --yes.
follow() { # SENTENCE
	local command
	command=$("$wherry" doctor "$target" | grep -o '`wherry drop[^`]*`' | tr -d '`')
	PATH=$build_dir:$PATH bash -c "$command --yes" >/dev/null 2>"$tmp/.said" </dev/null
	result $? "$1" "$command: $(cat "$tmp/.said")"
}

base=$url target=$url#events
adopted "id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL, meta text, published_at timestamptz"
w create "$target/audit" --grant clerk=consumer
sql "DROP TABLE events CASCADE"
for verb in relay status list doctor; do
	rest=()
	[ $verb = relay ] && rest=(null: --until-empty --quiet)
	w $verb "$target" "${rest[@]}"
	[ $verb = doctor ] || expect "$verb says that the table was dropped" 1 "err:the table of outbox 'events_log' was dropped" "err:run \`wherry doctor "
done
expect "doctor says it, and what to do" 1 "out:was dropped" "out:adopt the new table" "out:\`wherry drop "
w drop "$target" --dry-run
expect "what is left can be looked at" 0
check "and stays" answers "SELECT to_regclass('events_log_progress') IS NOT NULL" t
follow "and dropped"
check "then nothing is left" is "$(left "$url")" ""

target=$url#events
sql "CREATE TABLE events(id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL, published_at timestamptz);
	INSERT INTO events(type, data) VALUES ('a', '{}')"
before=$(pg_dump -s -t events "$url" | grep -v '^\\\|^--\|^$')
w adopt "$target" --yes
sql "DROP VIEW events_log CASCADE"
target=${target}_log
follow "a view that was dropped alone is missed"
check "and the table is as it was" is "$(pg_dump -s -t events "$url" | grep -v '^\\\|^--\|^$')" "$before"
check "with its rows" answers "SELECT count(*) FROM events" 1
sql "DROP TABLE events"
check "nothing else is left" is "$(left "$url")" ""

w create "$url" --segments 1000 --stream
check "a publication is made" answers "SELECT count(*) FROM pg_publication" 1
w create "$url#outbox/audit" --grant clerk=consumer
sql "DROP TABLE outbox CASCADE"
w drop "$url" --yes
expect "what is left of an outbox of Wherry's own is dropped" 0 "out:what was left of outbox 'outbox' is gone"
check "then nothing is left of it" is "$(left "$url")" ""
w drop "$url" --yes
expect "nothing can be dropped then" 1 "err:outbox"

base=sqlite:left.db target=sqlite:left.db#events
adopted "id INTEGER PRIMARY KEY, type TEXT NOT NULL, data TEXT NOT NULL, published_at TEXT"
run_sql "$base" "DROP TABLE events"
w relay "$target" null: --until-empty
expect "sqlite: a relay says that the table was dropped" 1 "err:the table of outbox 'events_log' was dropped" "err:run \`wherry doctor "
w doctor "$target"
expect "sqlite: doctor says it, and what to do" 1 "out:was dropped" "out:\`wherry drop "
follow "sqlite: what is left is dropped"
check "sqlite: then nothing is left" is "$(left "$base")" ""
w create sqlite:left.db
run_sql "$base" "DROP TABLE outbox"
w drop sqlite:left.db --yes
expect "sqlite: so is what is left of an outbox of Wherry's own" 0
check "sqlite: then nothing is left of it" is "$(left "$base")" ""

stop_server
finish
