#!/usr/bin/env bash
# A base backup of a streamed outbox is restored, and what docs/internals/restore.md says is
# done: where rows are marked, and where they are kept as they are.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$bin/pg_basebackup" ] ||
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
start_server max_wal_senders=6 wal_level=logical

put() { # TABLE N
	psql -X -q -h "$folder" -U wherry postgres -c "INSERT INTO $1(topic, partition_key, payload)
		SELECT 't', 'k', '{}' FROM generate_series(1, $2)"
}

# stream TABLE ON_DONE FILE ARGUMENT...: until all is delivered
stream() {
	local table=$1 on_done=$2 file=$3
	shift 3
	w relay "$url#$table" "file:$file" --engine stream --on-done "$on_done" \
		--until-empty --timeout 60s "$@"
}

numbers() { # FILE: of the messages, as they came
	[ ! -f "$1" ] || grep -o '"id":[0-9]*' "$1" | cut -d: -f2 | xargs
}

says() { # CHECK LEVEL TEXT: of the doctor
	grep -Eq "^$2 +$1 .*$3" <<<"$out"
}

# ---- before ----

w create "$url" --layout native
w create "$url#kept" --layout native
put outbox 10
stream outbox mark out
expect "all that is marked has left" 0
stream kept keep kept
put kept 10
stream kept keep kept
expect "all that is kept has left" 0
check "each once" is "$(numbers kept)" "$(seq -s ' ' 10)"
put outbox 5
put kept 5
"${server_user[@]}" "$bin/pg_basebackup" -h "$folder" -U wherry -D "$folder/backup" -c fast \
	--no-sync >backup.log 2>&1
check "a base backup is taken" test -s "$folder/backup/PG_VERSION"
put outbox 3 # which the backup does not have
put kept 3

# ---- restored ----

"${server_user[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate stop >>backup.log 2>&1
"${server_user[@]}" "$bin/postgres" -D "$folder/backup" -c listen_addresses= \
	-c "unix_socket_directories=$folder" -c fsync=off -c wal_level=logical \
	-c max_wal_senders=6 -c max_connections=60 -c max_prepared_transactions=5 \
	>>backup.log 2>&1 &
pids+=($!)
disown
until_true 30 eval 'answers "SELECT pg_is_in_recovery()" f'

w doctor "$url" --verbose
check "the doctor finds that the slot is gone" says slot bad 'is gone'
check "and that the publication is there" says publication ok ''
stream outbox mark out.restored
expect "where rows are marked the relay goes on" 0
check "with what was open, each once" is "$(numbers out.restored)" "$(seq -s ' ' 11 15)"
put outbox 2
stream outbox mark out.restored
check "and streams again" is "$(wc -l <out.restored)" 7
w doctor "$url" --verbose
check "there is a slot" says slot ok ''

stream kept keep kept.restored
expect "where they are kept it asks what to do" 1 'err:--from now' 'err:--from table'
stream kept keep kept.restored --from now
expect "it goes on from now" 0
check "with nothing of before" is "$(numbers kept.restored)" ''
put kept 2
stream kept keep kept.restored
expect "and afterwards without being told" 0
check "with what is new, each once" is "$(wc -l <kept.restored)" 2

stream kept keep kept.other --set stream.slot=other
expect "another slot does not have it deliver the table again" 1 'err:stream.slot' 'err:--from'

sql "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
	WHERE slot_name LIKE 'wherry_kept_%'" >/dev/null
stream kept keep kept.again
expect "it asks again when the slot is gone again" 1 'err:--from'
stream kept keep kept.again --from table
expect "it delivers the table" 0
check "all of it, each once, in order" is "$(numbers kept.again)" \
	"$(sql 'SELECT id FROM kept ORDER BY id' | xargs)"
"${server_user[@]}" "$bin/pg_ctl" -D "$folder/backup" -m immediate stop >>backup.log 2>&1
finish
