# Private PostgreSQL servers for scripts that drive the program; source it after cli.bash.
# shellcheck shell=bash disable=SC2154

declare -A servers

# server_launch NAME [SETTING=VALUE...]: start one, and go on meanwhile.
server_launch() {
	local name=$1
	shift
	mkfifo "$tmp/$name.hold"
	bash "$source_dir/tests/postgres/server.sh" "$@" <"$tmp/$name.hold" >"$tmp/$name.folder" \
		2>"$tmp/$name.err" &
	servers[$name]=$!
	exec {held}>"$tmp/$name.hold" # it lives as long as this is open
}

# server_await NAME: its folder is in $folder, which is the host of a URL too.  77: no
# server is installed.
server_await() {
	local i

	for ((i = 0; i < 1200; i++)); do
		[ ! -s "$tmp/$1.folder" ] || break
		kill -0 "${servers[$1]}" 2>/dev/null || break
		sleep 0.05
	done
	folder=$(cat "$tmp/$1.folder")
	[ -z "$folder" ] || return 0
	cat "$tmp/$1.err" >&2
	wait "${servers[$1]}"
}

# sql_on FOLDER USER: runs its standard input; prints what it answers.
sql_on() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$1" -U "$2" postgres
}
