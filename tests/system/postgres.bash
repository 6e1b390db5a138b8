# What the scripts on PostgreSQL share: a private server, which lives as long as descriptor 9
# is open.  Sets folder, which is its host, url, and server_user: put before a command it is run
# as the user that the server runs as, in that folder.
# shellcheck shell=bash disable=SC2034

# shellcheck source=tests/system/cli.bash
. "$(dirname "${BASH_SOURCE[0]}")/cli.bash"

# start_server [SETTING=VALUE...]: or say that there is none, and end.
start_server() {
	mkfifo "$tmp/hold"
	bash "$source_dir/tests/postgres/server.sh" "$@" <"$tmp/hold" >"$tmp/folder" \
		2>"$tmp/server.err" &
	server=$!
	exec 9>"$tmp/hold"
	for ((i = 0; i < 1200; i++)); do
		[ ! -s "$tmp/folder" ] || break
		kill -0 "$server" 2>/dev/null || break
		command sleep 0.05
	done
	folder=$(cat "$tmp/folder")
	if [ -z "$folder" ]; then
		wait "$server"
		if [ $? -eq 77 ]; then
			printf '1..1\nok 1 - PostgreSQL # SKIP no server is installed\n'
			exit 0
		fi
		cat "$tmp/server.err" >&2
	fi
	url="postgres://wherry@/postgres?host=$folder"
	server_user=(env -C "$folder")
	[ "$(id -u)" -ne 0 ] ||
		server_user+=(setpriv --reuid=postgres --regid=postgres --clear-groups)
}

stop_server() {
	exec 9>&-
	wait "$server"
}

# It is killed, all at once, and started again.
kill_server() {
	local pid
	pid=$(cat "$folder/pid")
	kill -KILL "$pid"
	echo "start $pid" >&9
}

sql() { # SQL; prints what it answers
	psql -X -q -A -t -h "$folder" -U wherry postgres -v ON_ERROR_STOP=1 -c "$1"
}

answers() { # SQL TEXT: is that the answer?
	[ "$(sql "$1" 2>/dev/null)" = "$2" ]
}
