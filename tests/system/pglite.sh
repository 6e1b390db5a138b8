#!/usr/bin/env bash
# Each part on PGlite behind its socket server, which has one session for all connections.  WHERRY_TEST_PGLITE is the
# folder that npm installed both into.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/every_part.bash
. "$source_dir/tests/system/every_part.bash"

serves=${WHERRY_TEST_PGLITE:-$source_dir/build/npm}/node_modules/.bin/pglite-server
if [ ! -x "$serves" ]; then
	printf '1..1\nok 1 - PGlite # SKIP npm has not installed it\n'
	exit 0
fi

# start_pglite N: with N connections at a time.
start_pglite() {
	"$serves" --path="$tmp/.s.PGSQL.5432" --max-connections="$1" >pglite.log 2>&1 </dev/null &
	pglite=$!
	pids+=("$pglite")
	until_true 30 ask "SELECT 1"
}

end_pglite() {
	kill -KILL "$pglite"
	wait "$pglite" 2>/dev/null
	rm -f "$tmp/.s.PGSQL.5432"
}

url="postgres://postgres@/postgres?host=$tmp&sslmode=disable"
ask() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 "$url" -c "$1"
}

start_pglite 10
check "PGlite answers" ask "SELECT 1"
settings="SELECT name, setting FROM pg_settings WHERE name <> 'application_name' ORDER BY name"
ask 'DO $$ BEGIN END $$' # which has settings once it is used
ask "$settings" >before
every_part
ask "$settings" >after
check "no setting stays in the session of all" cmp before after
diff before after | sed 's/^/# /'
check "nor a lock" is "$(ask "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")" 0
end_pglite

# ---- one connection at a time, as the server has it by default ----

start_pglite 1
w create "$url"
"$wherry" relay "$url" file:one.ndjson 2>one.log </dev/null &
relay=$!
pids+=("$relay")
until_true 20 grep -q event=leading one.log
w status "$url"
expect "while a relay runs, nobody else connects" 1
kill "$relay"
wait "$relay"
check "and then others do" until_true 20 "$wherry" status "$url"
end_pglite
finish
