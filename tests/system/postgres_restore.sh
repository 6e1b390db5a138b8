#!/usr/bin/env bash
# A base backup of an outbox that is read from the WAL is restored, and what docs/internals/restore.md says is done.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$bin/pg_basebackup" ] ||
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
start_server max_wal_senders=6 wal_level=logical

written=0
put() { # N: events, each with the next number
	psql -X -q -h "$folder" -U wherry postgres -c "INSERT INTO kept SELECT gen_random_uuid(), 'order', i::text, 'Made', '{}'
		FROM generate_series($written + 1, $written + $1) AS i"
	written=$((written + $1))
}

# stream FILE ARGUMENT...: until all is delivered
stream() {
	local file=$1
	shift
	w relay "$url#kept" "file:$file" --until-empty --timeout 60s "$@"
}

numbers() { # FILE: of the messages, as they came
	[ ! -f "$1" ] || grep -o '"key":"[0-9]*"' "$1" | tr -dc '0-9\n' | xargs
}

# ---- before ----

w create "$url#kept" --layout debezium
stream kept
put 10
stream kept
expect "all has left" 0
check "each once" is "$(numbers kept)" "$(seq -s ' ' 10)"
put 5
"${server_user[@]}" "$bin/pg_basebackup" -h "$folder" -U wherry -D "$folder/backup" -c fast \
	--no-sync >backup.log 2>&1
check "a base backup is taken" test -s "$folder/backup/PG_VERSION"
put 3 # which the backup does not have

# ---- restored ----

"${server_user[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate stop >>backup.log 2>&1
"${server_user[@]}" "$bin/postgres" -D "$folder/backup" -c listen_addresses= \
	-c "unix_socket_directories=$folder" -c fsync=off -c wal_level=logical \
	-c max_wal_senders=6 -c max_connections=60 -c max_prepared_transactions=5 \
	>>backup.log 2>&1 &
pids+=($!)
disown
until_true 30 eval 'answers "SELECT pg_is_in_recovery()" f'

stream kept.restored
expect "without its slot the relay asks what to do" 1 'err:--from now' 'err:--from table'
stream kept.restored --from now
expect "it goes on from now" 0
check "with nothing of before" is "$(numbers kept.restored)" ''
put 2
stream kept.restored
expect "and afterwards without being told" 0
check "with what is new, each once" is "$(numbers kept.restored)" '19 20'

stream kept.other --set stream.slot=other
expect "another slot does not have it deliver the table again" 1 'err:stream.slot' 'err:--from'

sql "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
	WHERE slot_name LIKE 'wherry_kept_%'" >/dev/null
stream kept.again
expect "it asks again when the slot is gone again" 1 'err:--from'
stream kept.again --from table
expect "it delivers the table" 0
check "all of it, each once" is "$(numbers kept.again | tr ' ' '\n' | sort -n | xargs)" \
	"$(sql 'SELECT aggregateid FROM kept ORDER BY aggregateid::int' | xargs)"
"${server_user[@]}" "$bin/pg_ctl" -D "$folder/backup" -m immediate stop >>backup.log 2>&1
finish
