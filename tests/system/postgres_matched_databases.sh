#!/usr/bin/env bash
# A relay of the databases that a query lists (docs/internals/matched.md): they come and go, rest without a session, and one
# that refuses or has no outbox leaves the others alone.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

refuses() { # SENTENCE TEXT RELAY
	printf 'relays:\n  - {%s}\n' "$3" >bad.yaml
	w check bad.yaml
	expect "$1" 1 "err:$2"
}

refuses "databases are of a server" "databases is a query of PostgreSQL" \
	"name: a, from: 'sqlite:tenants', databases: SELECT 1, to: 'null:'"
refuses "{database} stands for one" "{file} has no meaning for a pattern of databases: write {database}" \
	"name: a, from: 'postgres://h/d', databases: SELECT 1, to: 'file:{file}'"

start_server

in_db() { # DATABASE SQL
	psql -X -q -A -t -h "$folder" -U wherry -d "$1" -v ON_ERROR_STOP=1 -c "$2"
}

tenant() { # DATABASE
	in_db postgres "CREATE DATABASE \"$1\""
	"$wherry" create "postgres://wherry@/$1?host=$folder" >/dev/null 2>&1
	in_db postgres "INSERT INTO tenants VALUES ('$1')"
}

put() { # DATABASE N
	in_db "$1" "INSERT INTO outbox(topic, aggregate_id, partition_key, payload)
		SELECT '$1', 'x', n, '{}' FROM generate_series(1, $2) AS n"
}

came() { # DATABASE N
	[ "$(grep -c "\"topic\":\"$1\"" all.out 2>/dev/null)" = "$2" ]
}

sessions() { # N: so many sessions of the daemon, beside this one
	answers "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" "$1"
}

sql "CREATE TABLE tenants(name text)"
tenant t1
tenant t2
in_db postgres 'CREATE DATABASE plain'
sql "INSERT INTO tenants VALUES ('plain'), ('missing')"
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
relays:
  - {name: all, from: '$url', databases: 'SELECT name FROM tenants;', connections: 2, to: 'file:all.out'}
END
w check wherry.yaml
expect "a query of databases is fine" 0
start_daemon wherry.yaml
check "each database is found" until_true 10 grep -q 'relay=all event=matched outboxes=3 added=3 dropped=0' log
put t1 100
put t2 50
check "writers are noticed" until_true 20 came t1 100
check "of each" until_true 20 came t2 50
check "one without an outbox is said" until_true 10 grep -q 'event=no-outbox database=plain why=.*has no such outbox' log
check "while all rest the daemon has one session" until_true 30 sessions 1
tenant t3
put t3 10
check "a new database is found" until_true 20 came t3 10
check "its relay ends" until_true 30 sessions 1
sql "DELETE FROM tenants WHERE name = 't2'"
check "one that the query does not list is forgotten" until_true 20 grep -q 'event=matched outboxes=3 added=0 dropped=1' log
sql "DROP DATABASE t2"
put t1 5
check "the others go on" until_true 20 came t1 105
metrics "outboxes are counted" 'v("wherry_matched_outboxes", relay="all") == 2 and v("wherry_delivered_total", relay="all") == 165'
w status all
expect "the name of the query names no outbox" 2 "err:stands for the outboxes of all databases that match '*'"
stop_daemon
result "$status" "it stops in good order" "$err"
finish
