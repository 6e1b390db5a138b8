# Private PostgreSQL servers for scripts that drive the program; source it after cli.bash.
# shellcheck shell=bash disable=SC2154

servers=()

# server_start [SETTING=VALUE...]: its folder is in $folder, which is the host of a URL too.
# 77: none is installed.
server_start() {
	local hold=$tmp/hold.${#servers[@]} said=$tmp/folder.${#servers[@]} i

	mkfifo "$hold"
	bash "$source_dir/tests/postgres/server.sh" "$@" <"$hold" >"$said" 2>"$said.err" &
	servers+=($!)
	exec {held}>"$hold" # it lives as long as this is open
	for ((i = 0; i < 1200; i++)); do
		[ ! -s "$said" ] || break
		kill -0 "${servers[-1]}" 2>/dev/null || break
		sleep 0.05
	done
	folder=$(cat "$said")
	[ -z "$folder" ] || return 0
	cat "$said.err" >&2
	wait "${servers[-1]}"
}

# sql_on FOLDER USER: runs its standard input; prints what it answers.
sql_on() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$1" -U "$2" postgres
}
