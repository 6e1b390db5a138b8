#!/usr/bin/env bash
# A server that keeps the connection open and sends nothing more: no command waits for ever, and
# a statement that takes long is no silence.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server
mkdir between
mkfifo between/hold
python3 "$source_dir/tests/postgres/answers.py" "$tmp/between" "$folder/.s.PGSQL.5432" \
	<between/hold >between/ready 9>&- &
between=$!
exec 8>between/hold
until_true 20 test -s between/ready

put() { # N [TABLE]: so many messages
	local key=partition_key more='' values=''

	[ "${2-outbox}" = outbox ] || key='"key"' more=', aggregate_type, aggregate_id' values=", 'a', '1'"
	sql "INSERT INTO ${2-outbox}(topic, payload, $key$more)
		SELECT 't', '{}', 'k' || i % 3$values FROM generate_series(1, $1) AS i"
}

# ends SECONDS COMMAND...: it ends by itself.  Its messages are in the file err.
ends() {
	local limit=$1

	shift
	timeout -k 1 "$limit" "$@" >/dev/null 2>"${log-err}" </dev/null 8>&- 9>&-
	status=$?
	[ "$status" -ne 124 ] && [ "$status" -ne 137 ] || {
		echo "# it did not end within $limit s"
		tail -n 5 "${log-err}" | sed 's/^/# /'
		return 1
	}
}

silent_at() { # N: after so many answers
	echo "postgres://wherry@/postgres?host=$tmp/between&application_name=mute.$1"
}

w create "$url"
w create "$url#ferry" --layout eventferry

# ---- commands ----

ends 20 "$wherry" status "$(silent_at 3)" --set db.answer_timeout=500ms
check "a command ends with an error" [ "$status" -ne 0 ]
check "which says what happened" grep -q 'the server sent nothing for .* ms' err

# ---- several hosts ----

# This host accepts connections and says nothing.
mkdir mute
python3 - "$tmp/mute/.s.PGSQL.5432" 9>&- 8>&- <<'END' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(64)
time.sleep(300)
END
mute=$!
until_true 20 test -S mute/.s.PGSQL.5432
hosts() { # HOST...: a URL with these hosts
	local IFS=,

	echo "postgres://wherry@/postgres?host=$*&connect_timeout=1&target_session_attrs=read-write"
}
ends 20 "$wherry" status "$(hosts "$tmp/mute" "$folder")"
check "a silent host is passed over" [ "$status" -eq 0 ]
ends 20 "$wherry" status "$(hosts "$tmp/mute" "$tmp/nowhere" "$tmp/mute" "$folder")"
check "so are two, and one that refuses" [ "$status" -eq 0 ]
ends 20 "$wherry" status "$(hosts "$tmp/mute" "$tmp/mute")"
check "silent hosts alone end a command" [ "$status" -ne 0 ]
check "which says so" grep -q 'no answer in time' err
# With hosts in front of the path, each has an empty port.
ends 20 "$wherry" status "postgres://wherry@${tmp//\//%2F}%2Fmute,${folder//\//%2F}/postgres?connect_timeout=1"
check "a silent host is passed over if the URL has hosts and no ports" [ "$status" -eq 0 ]
put 2
ends 20 "$wherry" relay "$(hosts "$tmp/mute" "$folder")" null: --until-empty
check "a relay delivers by the host that answers" [ "$status" -eq 0 ]
kill "$mute"

# ---- relays ----

relays() { # TABLE N...: each of these answers is the last one
	local table=$1 n log

	shift
	for n; do
		log=err.$table.$n
		put 2 "$table"
		ends 15 "$wherry" relay "$(silent_at "$n")#$table" null: --until-empty --timeout 2s \
			--lease 2s --set relay.stop_timeout=1s || {
			echo "# answer $n"
			return 1
		}
	done
}

relays outbox 1 2 5 9 13 17 21 25 29 37 &
first=$!
relays ferry 1 2 5 9 13 17 21 25 29 37 &
check "a relay keeps its time-out, whatever answer is the last" wait "$first"
check "so does one that competes" wait $!
check "the relay says what happened" grep -q 'the server sent nothing' err.outbox.21
delivers_all() { # TABLE
	ends 60 "$wherry" relay "$url#$1" null: --until-empty --timeout 40s && [ "$status" -eq 0 ]
}

check "another one then delivers what is left" until_true 10 delivers_all outbox
check "and on a table whose relays compete" until_true 10 delivers_all ferry

# ---- a server process that hangs ----

"$wherry" relay "$url&application_name=stopped" file:out.ndjson --lease 3s 2>log 8>&- 9>&- &
relay=$!
until_true 20 grep -q 'event=leading' log
stopped=$(sql "SELECT pid FROM pg_stat_activity WHERE application_name = 'stopped'")
kill -STOP "$stopped"
put 1
check "a relay whose server process hangs connects again and delivers" \
	until_true 30 test -s out.ndjson
kill -CONT "$stopped"
kill "$relay"
wait "$relay"

# ---- a statement that takes long ----

sql "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_catalog.pg_sleep(4); RETURN NULL; END';
	CREATE TRIGGER slow AFTER UPDATE ON outbox_progress FOR EACH STATEMENT EXECUTE FUNCTION slow()"
put 1
ends 60 "$wherry" relay "$url" null: --until-empty --set db.answer_timeout=200ms
check "a statement that takes long is waited for" [ "$status" -eq 0 ]
check "and its connection is kept" [ "$(grep -c 'sent nothing' err)" -eq 0 ]

exec 8>&-
wait "$between"
stop_server
finish
