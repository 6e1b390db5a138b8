#!/usr/bin/env bash
# wherry adopt of a table that is adopted already, and what it guesses, on PostgreSQL and SQLite.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

run_sql() { # URL SQL
	case $1 in sqlite:*) sqlite3 "${1#sqlite:}" "$2" ;; *) sql "$2" ;; esac
}
got() { # JQ TEXT: of each message that is delivered now
	rm -f got.ndjson
	w relay "$url#events_log" file:got.ndjson --until-empty --timeout 60s
	is "$([ ! -e got.ndjson ] || jq -r "$1" got.ndjson | paste -sd' ')" "$2"
}

# ---- options are remembered ----

again() { # URL NAME TEXT-OF-N KEY-TYPE
	url=$1
	run_sql "$url" "CREATE TABLE events($4, kind text NOT NULL, name text, data text NOT NULL, audience text, state text);
		INSERT INTO events(kind, name, data, audience) VALUES ('made', 'x', '{\"n\": 1}', 'all'), ('made', 'y', '{\"n\": 2}', 'none')"
	w adopt "$url#events" --topic kind --key "($3)" --where "audience = 'all' OR audience = 'it''s'" --done "state = 'SENT'" --yes
	expect "$2: a table is adopted with options" 0
	check "$2: and read by them" got '[.topic, .key] | join("/")' 'made/1'
	w adopt "$url#events" --yes
	expect "$2: it is adopted again without them" 0 "out:is read as outbox 'events_log' again"
	run_sql "$url" "INSERT INTO events(kind, name, data, audience) VALUES ('paid', 'x', '{\"n\": 3}', 'it''s'), ('paid', 'x', '{\"n\": 4}', 'none')"
	check "$2: and read as before" got '[.topic, .key] | join("/")' 'paid/3'
	check "$2: and rows become what they did" is "$(run_sql "$url" "SELECT count(*) FROM events WHERE state = 'SENT'")" 2
	w adopt "$url#events" --topic name
	expect "$2: one option is changed" 0 "out:  topic          name" "out:  key            ($3)" "out:state" "out: = 'SENT'"
	w adopt "$url#events" --topic name --yes
	run_sql "$url" "INSERT INTO events(kind, name, data, audience) VALUES ('paid', 'z', '{\"n\": 5}', 'all')"
	check "$2: and the others stay" got '[.topic, .key] | join("/")' 'z/5'
	w drop "$url#events_log" --yes
	w adopt "$url#events" --done nothing
	expect "$2: nothing is remembered of an outbox that was dropped" 0 "out:  topic          name" "no:  key  "
	run_sql "$url" "DROP TABLE events"
}
server=$url
again sqlite:events.db sqlite "json_extract(data, '\$.n')" "id INTEGER PRIMARY KEY"
again "$server" postgres "data::json->>'n'" "id bigserial PRIMARY KEY"

# ---- guesses, and what the plan says ----

guesses() { # URL NAME TYPE-OF-TIME KEY
	run_sql "$1" "CREATE TABLE \"OutboxMessages\"($4, \"Type\" text NOT NULL, \"Content\" text NOT NULL, \"OccurredOnUtc\" $3 NOT NULL,
		\"ProcessedOnUtc\" $3 NULL, \"Error\" text NULL)"
	w adopt "$1#OutboxMessages"
	expect "$2: a table as .NET programs have it" 0 "out:  created-at     OccurredOnUtc" "out:when delivered ProcessedOnUtc is set"
	run_sql "$1" "CREATE TABLE jobs(${4//\"/}, topic text NOT NULL, body text NOT NULL, status text NOT NULL DEFAULT 'NEW')"
	w adopt "$1#jobs"
	expect "$2: a status is not guessed, and named" 0 "out:note: the column status may say that a row is delivered: then add --done"
	w adopt "$1#jobs" --done "status = 'SENT'"
	expect "$2: until it is given" 0 "no:note: the column status"
}
guesses sqlite:guess.db sqlite TEXT '"Id" INTEGER PRIMARY KEY'
guesses "$server" postgres timestamptz '"Id" bigserial PRIMARY KEY'
w adopt "$server#jobs"
expect "the plan speaks of COPY" 0 "out:note: the table gets a column at its end: COPY into the table then needs a list"
w adopt sqlite:guess.db#jobs
expect "where a column is added" 0 "no:COPY"

url=$server
stop_server
finish
