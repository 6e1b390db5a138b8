#!/bin/bash
#
# A private PostgreSQL server for tests: reachable through a socket in a temporary folder
# only, with nothing made durable: what it committed outlives its processes, but not a power
# loss.  Prints the folder, then lives until its standard input ends, whatever ended it.  A
# line "start PID" there starts it again, if the process of that number was killed or ends.
#
# usage: server.sh [SETTING=VALUE...]; more settings, between blanks, in WHERRY_TEST_SETTINGS
#
# WHERRY_TEST_POSTGRES: the folder with the server's programs; otherwise the one of pg_config.
# WHERRY_TEST_LACKS: what the server is to lack, as other engines do: signals (advisory locks and
# pg_notify()), snapshots.  Its functions are there under other names.

set -euo pipefail

bin=${WHERRY_TEST_POSTGRES:-$(pg_config --bindir 2>/dev/null || true)}
[ -x "$bin/initdb" ] || bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
if [ ! -x "$bin/initdb" ] || [ ! -x "$bin/postgres" ]; then
	echo "no PostgreSQL server is installed" >&2
	exit 77
fi

# It refuses to run as root.
as=()
if [ "$(id -u)" -eq 0 ]; then
	id postgres >/dev/null 2>&1 || {
		echo "no user 'postgres' to run a server as" >&2
		exit 77
	}
	as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
	"${as[@]}" test -x "$bin/postgres" || {
		echo "the user 'postgres' may not read $bin" >&2
		exit 77
	}
fi

# In a run of many tests beside the files that all share: usually in memory, where tables are made and dropped
# with a fifth less work.
base=${WHERRY_TEST_INITDB-}
base=${base%/*}
dir=$(mktemp -d "${base:-/tmp}/wherry-pg-XXXXXX")
server=
stop() {
	[ -z "$server" ] || {
		kill -QUIT "$server" || true
		wait "$server" || true
	} 2>/dev/null
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM
[ ${#as[@]} -eq 0 ] || chown postgres: "$dir"
chmod 755 "$dir"
cd "$dir"

# lacking WORD...: SQL that hides functions.
lacking() {
	local word names=

	for word; do
		case $word in
		signals) names+="|pg_(try_)?advisory_.*|pg_notify" ;;
		snapshots) names+="|pg_current_snapshot|pg_visible_in_snapshot|pg_snapshot_.*|pg_current_xact_id.*|txid_.*" ;;
		esac
	done
	echo "UPDATE pg_proc SET proname = 'no_' || proname WHERE pronamespace = 'pg_catalog'::regnamespace
		AND proname ~ '^(${names#|})\$'" | tr '\n\t' '  '
}

# begin FOLDER: the files of a new server.
begin() {
	local database

	"${as[@]}" "$bin/initdb" -D "$1" -U wherry -A trust --no-sync -E UTF8 --locale=C \
		>"$dir/log" 2>&1 </dev/null || {
		cat "$dir/log" >&2
		exit 1
	}
	for database in ${WHERRY_TEST_LACKS:+template0 template1 postgres}; do
		# shellcheck disable=SC2086 # words
		lacking $WHERRY_TEST_LACKS |
			"${as[@]}" "$bin/postgres" --single -D "$1" -F "$database" >/dev/null
	done
}

# In a run of many tests the first one makes the files, and the others copy them: a third of the time.
kind=${WHERRY_TEST_LACKS-} kind=${kind// /-}
if [ -n "${WHERRY_TEST_INITDB-}" ]; then
	(
		flock 9
		[ -e "$WHERRY_TEST_INITDB/made$kind" ] || {
			begin "$WHERRY_TEST_INITDB/data$kind"
			touch "$WHERRY_TEST_INITDB/made$kind"
		}
	) 9>"$WHERRY_TEST_INITDB/lock"
	"${as[@]}" cp -R --reflink=auto "$WHERRY_TEST_INITDB/data$kind" "$dir/data"
	chmod 700 "$dir/data"
else
	begin "$dir/data"
fi
settings=(-c listen_addresses= -c "unix_socket_directories=$dir" -c fsync=off
	-c full_page_writes=off -c autovacuum=off -c max_connections=60
	-c shared_buffers=32MB -c jit=off -c max_prepared_transactions=5 -c log_min_messages=fatal)
for setting in "$@" ${WHERRY_TEST_SETTINGS-}; do
	settings+=(-c "$setting")
done

ready=$bin/pg_isready
[ -x "$ready" ] || ready=pg_isready # a server of npm has none

# False: it ended before it could be reached.
launch() {
	"${as[@]}" "$bin/postgres" -D "$dir/data" "${settings[@]}" >>"$dir/log" 2>&1 </dev/null &
	server=$!
	echo "$server" >"$dir/pid"
	for ((i = 0; i < 600; i++)); do
		! "$ready" -q -h "$dir" || return 0
		kill -0 "$server" 2>/dev/null || return 1
		sleep 0.05
	done
}

# Processes of the one before may hold its memory for a while yet.
relaunch() {
	wait "$server" || true
	for ((tries = 0; tries < 300; tries++)); do
		! launch || return 0
		sleep 0.1
	done
}

launch || {
	cat "$dir/log" >&2
	exit 1
}
echo "$dir"
exec >/dev/null
while read -r _ pid; do
	[ "$pid" != "$server" ] || relaunch 2>/dev/null
done
