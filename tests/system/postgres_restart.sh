#!/usr/bin/env bash
# A PostgreSQL server that is restarted, ends connections, is a standby or is promoted, under
# the real program.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$bin/pg_basebackup" ] ||
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
start_server wal_writer_delay=10s max_wal_senders=4 wal_level=replica

put() { # [HOST [PORT]]: one message, by plain SQL
	psql -X -q -h "${1-$folder}" -p "${2-5432}" -U wherry postgres -c \
		"INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'k', '{}')"
}

relay() { # LOG ARGUMENT...: in the background
	local log=$1
	shift
	"$wherry" relay "$@" >/dev/null 2>"$log" </dev/null 9>&- &
	pids+=($!)
}

delivered() { # N: so many messages
	[ "$(grep -o '"id":[0-9]*' out | sort -u | wc -l)" -ge "$1" ]
}

is_empty() {
	"$wherry" status "$url" --json | python3 -c '
import json, sys
s = json.load(sys.stdin)
sys.exit(s["pending"] + s["failed"] + s["dead"] != 0)'
}

end_relay() { # sends SIGTERM; its exit status
	kill "${pids[-1]}"
	wait "${pids[-1]}"
}

w create "$url"

# ---- a lease is not lost with the server, though its commits need not wait for the disk ----

relay log "$url" file:out --set db.synchronous=normal --lease 1h
check "a relay leads" until_true 20 grep -q 'event=leading epoch=1' log
kill -KILL "${pids[-1]}"
kill_server
until_true 30 answers "SELECT 1" 1
check "a lease outlives a server that is killed" \
	answers "SELECT epoch FROM wherry_lease" 1
sql "UPDATE wherry_lease SET expires_at = now()"

# ---- under a running relay ----

relay log "$url" file:out --lease 2s
put
check "a relay delivers" until_true 20 delivered 1
kill_server
until_true 30 answers "SELECT 1" 1
put
check "it goes on when the server was killed and started again" until_true 30 delivered 2
check "and says that the database works again" until_true 20 grep -q 'event=database-works' log
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE application_name = 'wherry'" >/dev/null
put
check "and when its connection was terminated" until_true 30 delivered 3
grep -q 'event=database-trouble.*terminating connection due to admin' log
result $? "it says why" "$(tail -n 5 log)"
put
check "it is woken again then" until_true 30 delivered 4
end_relay
check "and ends as it should" test $? -eq 0
check "nothing is open" is_empty
out=$(cat out)
json "each message was delivered, in order" \
	'[*dict.fromkeys(m["id"] for m in l)] == sorted({m["id"] for m in l}) and
	 len({m["id"] for m in l}) == 4'

# ---- a relay that is stopped in a transaction ----

sql "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN
	PERFORM pg_advisory_xact_lock_shared(4711); RETURN new; END\$\$;
	CREATE TRIGGER wait AFTER UPDATE ON outbox_progress FOR EACH ROW EXECUTE FUNCTION wait()"
psql -X -q -h "$folder" -U wherry postgres <<<"SELECT pg_advisory_lock(4711) \\watch 3600" \
	>/dev/null 2>&1 &
pids+=($!)
holder=${pids[-1]}
until_true 20 answers "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
	AND objid = 4711" 1
relay log2 "$url" file:out --lease 2s --set db.busy_timeout=60s
put
check "a relay writes what it delivered" until_true 20 answers "SELECT count(*) FROM
	pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 4711" 1
kill -STOP "${pids[-1]}"
kill -KILL "$holder"
stopped=${pids[-1]}
relay log3 "$url" file:out --lease 2s
check "one that is stopped in a transaction does not keep its lease for ever" \
	until_true 30 grep -q event=leading log3
kill -CONT "$stopped"
check "when it goes on it knows that it has lost the lease, and stands by" \
	until_true 30 grep -q event=standby log2
kill "$stopped"
wait "$stopped"
end_relay
sql "DROP TRIGGER wait ON outbox_progress"

# ---- a server that turns read only, and one that refuses the login ----

ask_anyway() { # SQL: as an administrator, also while the server is read only
	PGOPTIONS='-c default_transaction_read_only=off' sql "$1"
}

sql "CREATE ROLE mover LOGIN SUPERUSER"
had=$(grep -o '"id":[0-9]*' out | sort -u | wc -l)
relay log5 "${url/wherry@/mover@}" file:out --lease 2s
check "another relay leads" until_true 20 grep -q event=leading log5
sql "ALTER SYSTEM SET default_transaction_read_only = on" && sql "SELECT pg_reload_conf()" >/dev/null
check "the server turns read only" until_true 20 answers "SHOW default_transaction_read_only" on
PGOPTIONS='-c default_transaction_read_only=off' put
check "its relay says so" until_true 20 grep -q 'event=database-trouble.*read.only' log5
ask_anyway "ALTER SYSTEM RESET default_transaction_read_only"
ask_anyway "ALTER ROLE mover NOLOGIN"
ask_anyway "SELECT pg_reload_conf()" >/dev/null
ask_anyway "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mover'" >/dev/null
check "and that it may not log in" until_true 20 grep -q 'event=database-trouble.*not permitted to log in' log5
ask_anyway "ALTER ROLE mover LOGIN"
check "when both are over it delivers" until_true 30 delivered $((had + 1))
end_relay
check "it was one relay" test $? -eq 0
until_true 20 answers "SHOW default_transaction_read_only" off

# ---- a standby, and a server that recovers ----

"${server_user[@]}" "$bin/pg_basebackup" -h "$folder" -U wherry -D "$folder/standby" -R -c fast \
	>/dev/null 2>"$tmp/.err"
err=$(cat "$tmp/.err")
check "a standby is made" test -f "$folder/standby/standby.signal"
"${server_user[@]}" cp -a "$folder/standby" "$folder/cold"
"${server_user[@]}" "$bin/postgres" -D "$folder/standby" -c port=5433 -c listen_addresses= \
	-c "unix_socket_directories=$folder" -c fsync=off -c shared_buffers=16MB \
	-c max_prepared_transactions=5 \
	>"$tmp/standby.log" 2>&1 9>&- &
standby=$!
pids+=("$standby")
standby_url="$url&port=5433"
"${server_user[@]}" "$bin/postgres" -D "$folder/cold" -c port=5434 -c listen_addresses= \
	-c "unix_socket_directories=$folder" -c fsync=off -c shared_buffers=16MB -c hot_standby=off \
	>"$tmp/cold.log" 2>&1 9>&- &
cold=$!
pids+=("$cold")
recovers() {
	psql -X -h "$folder" -p 5434 -U wherry postgres -c "SELECT 1" 2>&1 |
		grep -q 'not accepting connections\|starting up'
}
until_true 60 recovers
w relay "$url&port=5434" stdout: --until-empty --timeout 1s
expect "a relay on a server that recovers waits no longer than it may" 1 "err:event=database-trouble"
relay log6 "$url&port=5434" file:cold.out --lease 2s
check "else it says so, and waits" until_true 20 grep -q 'event=database-trouble' log6
"${server_user[@]}" "$bin/pg_ctl" -D "$folder/cold" -w promote >/dev/null
check "when the server has recovered it says that, too" until_true 30 grep -q 'event=database-works' log6
put "$folder" 5434
check "and delivers" until_true 30 test -s cold.out
end_relay
kill -INT "$cold"
wait "$cold"
until_true 60 psql -X -q -h "$folder" -p 5433 -U wherry postgres -c "SELECT 1"
w status "$standby_url"
expect "status reads a standby" 0 "out:pending"
w_in '{}' enqueue --lines "$standby_url" --topic t
expect "enqueue on a standby names the way out" 1 "err:target_session_attrs=read-write"
w relay "$standby_url" stdout: --until-empty
expect "so does a relay" 1 "err:target_session_attrs=read-write"
w create "$standby_url#other"
expect "so does create" 1 "err:target_session_attrs=read-write"
both="postgres://wherry@/postgres?host=$folder,$folder&port=5433,5432"
both+="&target_session_attrs=read-write"
w_in '{}' enqueue --lines "$both" --topic t
expect "a URL of both finds the primary" 0

# ---- which is promoted ----

relay log4 "$both" file:out --lease 2s
check "a relay on both delivers" until_true 20 grep -q event=leading log4
until_true 20 is_empty
before=$(grep -o '"id":[0-9]*' out | sort -u | wc -l)
check "the standby has caught up" until_true 20 answers \
	"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) FROM pg_stat_replication" 0

# The standby receives nothing more, and the relay delivers what it lacks: then the promoted server is behind
# the relay's memory, and gives the same ids and numbers of transactions again.
on_standby() {
	psql -X -q -A -t -h "$folder" -p 5433 -U wherry postgres -c "$1"
}
on_standby "ALTER SYSTEM SET primary_conninfo = ''"
on_standby "SELECT pg_reload_conf()" >/dev/null
check "the standby receives nothing more" until_true 20 answers "SELECT count(*) FROM pg_stat_replication" 0
for _ in 1 2 3; do put; done
check "the relay delivers what the standby lacks" until_true 20 delivered $((before + 3))
highest=$(grep -o '"id":[0-9]*' out | cut -d : -f 2 | sort -n | tail -n 1)
kill -KILL "$(cat "$folder/pid")"
"${server_user[@]}" "$bin/pg_ctl" -D "$folder/standby" -w promote >/dev/null
check "the standby is promoted" until_true 30 on_standby \
	"SELECT setval(pg_get_serial_sequence('outbox', 'id'), (SELECT max(id) FROM outbox))"
for _ in 1 2 3 4; do
	check "what is promoted takes messages" until_true 30 put "$folder" 5433
done
check "with ids that the relay has delivered" test "$(on_standby 'SELECT max(id) FROM outbox')" = $((highest + 1))
all_of_it() {
	local id
	for id in $(on_standby "SELECT message_id FROM outbox"); do
		grep -q "$id" out || return 1
	done
}
check "the relay delivers each message of what was promoted" until_true 30 all_of_it
end_relay

kill -INT "$standby"
wait "$standby"
stop_server
finish
