#!/usr/bin/env bash
#
# How `wherry run` does with the outboxes of many schemas: on a private, durable PostgreSQL server, idle and while
# all of them have messages.  Prints a line of figures for each number of outboxes.
#
# usage: bench/tenants.sh WHERRY [COMMITS_A_SECOND [SECONDS]] -- N...
#
# A commit writes five messages to one outbox.  Needs pgbench.

set -euo pipefail

wherry=$(realpath "$1")
shift
rate=1000 seconds=20
[ "$1" = -- ] || { rate=$1 && shift; }
[ "$1" = -- ] || { seconds=$1 && shift; }
shift
here=$(realpath "$(dirname "$0")/..")
tmp=$(mktemp -d)
daemon=
end() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	exec 9>&-
	wait
	rm -rf "$tmp"
}
trap end EXIT
mkfifo "$tmp/hold"
bash "$here/tests/postgres/server.sh" fsync=on synchronous_commit=on full_page_writes=on shared_buffers=256MB \
	<"$tmp/hold" >"$tmp/folder" 2>"$tmp/server.err" &
exec 9>"$tmp/hold"
for ((i = 0; i < 600; i++)); do
	[ ! -s "$tmp/folder" ] || break
	sleep 0.05
done
folder=$(cat "$tmp/folder")
url="postgres://wherry@/postgres?host=$folder"
cd "$tmp"

sql() {
	psql -X -q -A -t -h "$folder" -U wherry postgres -v ON_ERROR_STOP=1 "$@"
}

ms() { # milliseconds of a clock
	date +%s%3N
}

cpu() { # processor time of the daemon, and of the server, in 1/100 s
	local server
	server=$(cat "$folder/pid")
	cat "/proc/$daemon/stat" | awk '{printf "%d ", $14 + $15}'
	for pid in "$server" $(pgrep -P "$server"); do
		cat "/proc/$pid/stat" 2>/dev/null || true
	done | awk -v p="$server" '{s += $14 + $15} $1 == p {s += $16 + $17} END {print s}'
}

commits() {
	sql -c "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"
}

has() { # FILE TEXT [TIMES]: wait for it
	for ((i = 0; i < 3000; i++)); do
		[ "$(grep -c "$2" "$1")" -lt "${3:-1}" ] || return 0
		sleep 0.02
	done
	return 1
}

private() { # memory of the sessions of the daemon, in MB
	for pid in $(sql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'wherry'"); do
		grep Private_Dirty "/proc/$pid/smaps_rollup"
	done | awk '{s += $2} END {printf "%d", s / 1024}'
}

sessions() {
	sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wherry'"
}

# One schema as a template for the others.
"$wherry" create "$url#tenant_0.outbox" --print >tenant.sql
made=0
printf '| outboxes | found, ms | idle: sessions | daemon, MB | transactions/s | written/s | delivered/s | behind | daemon, server CPU s | sessions | server, MB | reload, ms | stop, ms |\n'
for n; do
	# A session for some of them: what one session keeps of the tables it has made grows to a gigabyte, and each
	# table takes longer than the one before.
	while [ "$made" -lt "$n" ]; do
		for ((i = 0; i < 40 && made < n; i++, made++)); do
			# One transaction for each schema: a statement alone waits for the disk, of which there are forty.
			echo "BEGIN; CREATE SCHEMA tenant_$made;"
			sed -e "s/tenant_0/tenant_$made/g" -e '/^BEGIN TRANSACTION;$/d' -e '/^COMMIT;$/d' tenant.sql
			echo "COMMIT;"
		done >more.sql
		PGOPTIONS="-c synchronous_commit=off" sql -f more.sql >/dev/null 2>more.err
	done
	printf "relays:\n  - {name: all, from: '%s', match: 'tenant_*', to: 'file:out.ndjson'}\n" "$url" >wherry.yaml
	cat >commit.sql <<-END
		\set t random(0, $((n - 1)))
		INSERT INTO tenant_:t.outbox(topic, aggregate_id, partition_key, payload)
		SELECT 't', 'x', n, '{"a":1}' FROM generate_series(1, 5) AS n;
	END
	: >out.ndjson
	began=$(ms)
	"$wherry" run wherry.yaml 2>log &
	daemon=$!
	has log event=matched
	found=$(($(ms) - began))
	sleep 15 # the first look, and what it opened
	line="| $n | $found | $(sessions) | $(awk '/VmRSS/ {print int($2 / 1024)}' /proc/$daemon/status)"
	before=$(commits)
	sleep 10
	line+=" | $((($(commits) - before) / 10))"
	read -r d0 s0 < <(cpu)
	began=$(ms)
	pgbench -n -R "$rate" -T "$seconds" -c 4 -j 1 -f commit.sql -h "$folder" -U wherry postgres >bench.out 2>&1
	took=$(($(ms) - began))
	delivered=$(wc -l <out.ndjson)
	read -r d1 s1 < <(cpu)
	written=$(($(sed -n 's/.*processed: \([0-9]*\).*/\1/p' bench.out) * 5))
	line+=" | $((written * 1000 / took)) | $((delivered * 1000 / took)) | $((written - delivered))"
	line+=" | $(((d1 - d0) / 100)), $(((s1 - s0) / 100)) | $(sessions) | $(private)"
	began=$(ms)
	echo "# changed" >>wherry.yaml
	kill -HUP "$daemon"
	has log event=reloaded
	line+=" | $(($(ms) - began))"
	began=$(ms)
	kill "$daemon"
	wait "$daemon"
	daemon=
	printf '%s | %s |\n' "$line" "$(($(ms) - began))"
	# The rest, so that the next number begins without a backlog.
	"$wherry" run wherry.yaml 2>log &
	daemon=$!
	for ((i = 0; i < 300 && $(wc -l <out.ndjson) < written; i++)); do
		sleep 0.2
	done
	kill "$daemon"
	wait "$daemon"
	daemon=
done
