#!/usr/bin/env bash
# Each command that an error names repairs what failed: it is run as it stands, by a shell.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

# Runs every command that the messages name, in their order.
follow() {
	local line

	ran=()
	while IFS= read -r line; do
		ran+=("$line")
		PATH=$build_dir:$PATH bash -c "$line" >/dev/null 2>"$tmp/.advised" </dev/null ||
			ran+=("FAILED: $(cat "$tmp/.advised")")
	done < <(grep -oE '`wherry [^`]*`' <<<"$err" | tr -d '`')
	sed -n 's/^  try: \(wherry .*\), as the owner$/\1/p' <<<"$err" >"$tmp/.granting"
	while IFS= read -r line; do
		ran+=("$line")
		PATH=$build_dir:$PATH PGUSER=wherry bash -c "$line" >/dev/null 2>"$tmp/.advised" ||
			ran+=("FAILED: $(cat "$tmp/.advised")")
	done <"$tmp/.granting"
}

declare -A seen=()

# repaired REPAIR COMMANDS ARGUMENT...: wherry fails, names so many commands, which all succeed, and
# then does not fail for this any more.
repaired() {
	local repair=$1 commands=$2 before
	shift 2

	seen[$repair]=1
	w_in '{"n":1}' "$@"
	before=$err
	follow
	w_in '{"n":1}' "$@"
	[ "${#ran[@]}" = "$commands" ] && [[ $err != *"${before%%\`*}"* || -z $before ]] && [ -n "$before" ]
	result $? "$repair repairs: wherry $*" "${ran[*]-no command} - $before"
}

# ---- SQLite: a missing file, a missing table ----

file=sqlite:"it's a \$hop.db"
repaired CREATE 1 status "$file"
for verb in enqueue status list relay doctor pause; do
	rest=()
	[ $verb = enqueue ] && rest=(--topic t)
	[ $verb = relay ] && rest=(null: --until-empty --quiet)
	repaired CREATE 1 $verb "sqlite:$verb.db" "${rest[@]}"
done
repaired CREATE 1 enqueue --lines "$file#billing" --topic t
repaired CREATE 1 seek "$file#sought" start
repaired CREATE 1 send "$file#jobs" '{}'
repaired CREATE 1 send "sqlite:new.db#jobs" '{}'
repaired CREATE 1 receive "$file#others"
repaired CREATE 1 queue subscribe "$file#made" orders
repaired CREATE 1 queue publish sqlite:topics.db orders '{}'
repaired CREATE 1 offer "$file#later/mail" '{}' --key k
repaired CREATE 1 poll "sqlite:other.db#delayed/mail"
repaired CREATE 1 cron list "$file"
repaired CREATE 2 cron install "sqlite:ticks.db#delayed/mail" p '0 6 * * *'
repaired CREATE 1 inbox forget "$file#seen" --message m --yes
w create sqlite:table.db
sqlite3 table.db 'DROP TABLE outbox_exception'
repaired CREATE 1 status sqlite:table.db

# ---- wherry.yaml: a relay and an entry of cron whose tables are missing ----

cat >wherry.yaml <<'END'
relays:
  orders:
    from: sqlite:yaml.db
    to: "null:"
  jobs:
    from: sqlite:yaml.db#jobs
    to: "null:"
  mail:
    from: sqlite:yaml.db#delayed/mail
    to: "null:"
cron:
  daily:
    database: sqlite:yaml.db
    at: '0 6 * * *'
    queue: reports
    body: '{}'
END
export PATH=$build_dir:$PATH
daemon() {
	timeout -s TERM 3 "$wherry" run wherry.yaml >"$tmp/.daemon" 2>&1
	err=$(grep -E 'event=failed|"failed"' "$tmp/.daemon")
}
for i in 1 2 3 4 5; do
	daemon
	[ -n "$err" ] || break
	follow
done
seen[CREATE]=1
check "the commands that a daemon logs make all that it needs" is "$err" ""

# ---- PostgreSQL ----

start_server wal_level=logical
sql "CREATE ROLE clerk LOGIN; CREATE ROLE boss LOGIN"
clerk="postgres://clerk@/postgres?host=$folder"
repaired CREATE 1 status "$url"
repaired CREATE 1 send "$url#jobs" '{}'
repaired CREATE 1 poll "$url#delayed/mail"
repaired CREATE 1 enqueue --lines "$url#public.billing" --topic t
w create "$url#streamed" --layout debezium --stream
sql "ALTER PUBLICATION $(sql 'SELECT pubname FROM pg_publication') DROP TABLE streamed"
repaired STREAM 1 relay "$url#streamed" null: --until-empty --quiet --timeout 20s
repaired GRANT 1 status "$clerk"
repaired GRANT 1 receive "$clerk#jobs"
repaired GRANT 1 poll "$clerk#delayed/mail"

for repair in $(sed -n 's/.*WHERRY_REPAIR_\([A-Z]*\)[,; ].*/\1/p' "$source_dir/include/wherry/error.h" | sort -u); do
	case $repair in NONE | INIT | DOCTOR) continue ;; esac
	check "a failure that $repair repairs is among them" test -n "${seen[$repair]-}"
done
finish
