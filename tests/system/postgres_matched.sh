#!/usr/bin/env bash
# Relays of a pattern of schemas (docs/internals/matched.md): outboxes rest without a connection, come and go, are shared by
# two processes, and a noisy one leaves the others their turn.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

# ---- what is known before ----

refuses() { # SENTENCE TEXT RELAY...
	local sentence=$1 text=$2
	shift 2
	printf 'relays:\n' >bad.yaml
	printf '  - {%s}\n' "$@" >>bad.yaml
	w check bad.yaml
	expect "$sentence" 1 "err:$text"
}

refuses "a pattern has a wildcard" "has no * and no ?" \
	"name: a, from: 'postgres://h/d', match: tenant_1, to: 'null:'"
refuses "a pattern has no brackets" "has no brackets, braces or slashes" \
	"name: a, from: 'postgres://h/d', match: 'tenant_[1]*', to: 'null:'"
refuses "the table has no schema then" "it names a schema" \
	"name: a, from: 'postgres://h/d#billing.outbox', match: 'tenant_*', to: 'null:'"
refuses "the table has no subscription then" "it names a subscription" \
	"name: a, from: 'postgres://h/d#outbox/billing', match: 'tenant_*', to: 'null:'"
refuses "two relays do not have one pattern" "relay 'a' has the same match" \
	"name: a, from: 'postgres://h/d', match: 'tenant_*', to: 'null:'" \
	"name: b, from: 'postgres://h/d', match: 'tenant_*', to: 'stdout:'"
refuses "the WAL is not read" "a relay with match reads tables" \
	"name: a, from: 'postgres://h/d', match: 'tenant_*', to: 'null:', source: wal"
refuses "connections has a limit" "connections is a number from 1 to 100, not '0'" \
	"name: a, from: 'postgres://h/d', match: 'tenant_*', to: 'null:', connections: 0"
refuses "connections belongs to a pattern" "connections is for a relay with match" \
	"name: a, from: 'postgres://h/d', to: 'null:', connections: 2"
refuses "{schema} belongs to a pattern" "{schema} stands for the schema of each outbox of a relay with match" \
	"name: a, from: 'postgres://h/d', to: 'file:{schema}.out'"

printf "server_connections: 3\nrelays:\n  - {name: a, from: 'postgres://u@h/d', match: 'a_*', to: 'null:'}
  - {name: b, from: 'postgres://h/e', match: 'b_*', to: 'null:'}\n" >bad.yaml
w check bad.yaml
expect "patterns on one server need connections" 1 "err:the number of relays with match on one server is 2" "err:write 4 or more"
sed -i 's#h/e#i/e#' bad.yaml
w check bad.yaml
expect "another server has others" 0
sed -i 's/: 3/: 1/' bad.yaml
w check bad.yaml
expect "one relay needs two" 1 "err:server_connections is a number from 2 to 10000, not '1'"

start_server

tenant() { # SCHEMA
	sql "CREATE SCHEMA \"$1\""
	"$wherry" create "$url#%22$1%22.outbox" >/dev/null 2>&1
}

not() {
	! "$@"
}

put() { # SCHEMA FROM TO
	sql "INSERT INTO \"$1\".outbox(topic, aggregate_id, partition_key, payload)
	     SELECT '$1', 'x', n % 3, json_build_object('n', n) FROM generate_series($2, $3) AS n"
}

connections() { # N: so many sessions of daemons
	answers "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" "$1"
}

# complete FILE N SCHEMA...: all messages 1 to N of each are there, and the first of each in the order of its key.
complete() {
	python3 - "$@" <<'END'
import json, sys
file, n, schemas = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
seen, last = set(), {}
for line in open(file):
    m = json.loads(line)
    body = m["payload"] if "payload" in m else m["body"]
    one = (m["topic"], body["n"] if isinstance(body, dict) else json.loads(body)["n"])
    if one in seen:
        continue
    seen.add(one)
    key = (one[0], one[1] % 3)
    assert last.get(key, 0) < one[1], f"{one} behind {last[key]}"
    last[key] = one[1]
sys.exit(not all((s, i) in seen for s in schemas for i in range(1, n + 1)))
END
}

# ---- outboxes that rest, come and go ----

tenant tenant_1
tenant 'tenant_B.2'
sql "CREATE SCHEMA tenant_none"
tenant other
for name in all twice nothing; do
	echo "  - {name: $name, from: '$url', to: 'file:$name.out', match: MATCH}" |
		sed "s/MATCH/$(case $name in all) echo "'tenant_*'" ;; twice) echo "'tenant_?'" ;; *) echo "'no_*'" ;; esac)/"
done >relays
printf 'http: {listen: 127.0.0.1:0}\nrelays:\n' | cat - relays >wherry.yaml
start_daemon wherry.yaml
check "each outbox of the schemas is found" until_true 10 grep -q 'relay=all event=matched outboxes=2 added=2 dropped=0' log
check "a pattern that finds nothing is said" until_true 10 grep -q 'relay=nothing event=matches-nothing match=no_' log
check "an outbox of two patterns is said, and the first has it" \
	until_true 10 grep -q 'relay=twice event=matched-twice schema=tenant_1 by=all' log
put tenant_1 1 100
put 'tenant_B.2' 1 100
put other 1 10
check "writers wake them" until_true 10 complete all.out 100 tenant_1 'tenant_B.2'
check "idle outboxes have one connection for each pattern" until_true 20 connections 3
is "$(wc -l <all.out) $(cat twice.out 2>/dev/null | wc -l)" "200 0"
result $? "each message is delivered once, and no other schema's" "$(wc -l all.out)"
check "a lease is given back" answers "SELECT count(*) FROM tenant_1.wherry_lease WHERE expires_at > now()" 0

w status "$url#tenant_1.outbox"
expect "status says that a daemon waits" 0 "out:all is well" "out:a daemon waits for messages" "no:no relay is running"
w doctor "$url#tenant_1.outbox" --verbose
out=$(grep ' relay ' <<<"$out")
expect "and so does the doctor" "$status" "out:ok " "out:a daemon waits to start a relay"
w status all
expect "the name of a pattern names no outbox" 2 "err:stands for the outboxes of all schemas that match 'tenant_*'"

tenant tenant_3
put tenant_3 1 10
check "a new schema is found" until_true 20 complete all.out 10 tenant_3
metrics "they are counted" \
	'v("wherry_matched_outboxes", relay="all") == 3 and v("wherry_matched_outboxes", relay="nothing") == 0
	 and v("wherry_delivered_total", relay="all") == 210 and v("wherry_matched_failing", relay="all") == 0'
get /readyz
expect "readyz says what they do" 200 "out:all ready: 3 outboxes, " "out:nothing ready: 0 outboxes"

w pause "$url#tenant_3.outbox"
put tenant_3 11 20
w resume "$url#tenant_3.outbox"
check "an operator who resumes one wakes it" until_true 10 complete all.out 20 tenant_3
sql "SET client_min_messages = error; DROP SCHEMA tenant_3 CASCADE"
check "a dropped schema is forgotten" until_true 20 grep -q 'relay=all event=matched outboxes=2 added=0 dropped=1' log
check "without an error" not grep -q 'level=error.*relay=all' log

sql "ALTER TABLE tenant_1.outbox_progress RENAME TO away"
sql "ALTER TABLE tenant_1.away RENAME TO outbox_progress"
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%wherry%' AND pid <> pg_backend_pid()" >/dev/null
put tenant_1 101 110
check "a connection that is lost is opened again" until_true 20 complete all.out 110 tenant_1
since=$(date +%s%N)
stop_daemon
[ $status = 0 ] && [ $(($(date +%s%N) - since)) -lt 5000000000 ]
result $? "it stops at once" "exit status $status"

# ---- relays that take turns ----

backends() {
	sql "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity
	     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
}

printf "relays:\n  - {name: all, from: '$url', match: 'tenant_*', connections: 1, to: 'file:turns.out'}\n" >wherry.yaml
start_daemon wherry.yaml
put tenant_1 111 120
check "a relay opens its connection" until_true 10 answers "SELECT high >= 120 FROM tenant_1.outbox_progress" t
before=$(backends)
for i in 1 2 3; do
	put tenant_1 $((i * 10 + 111)) $((i * 10 + 120))
	put 'tenant_B.2' $((i * 10 + 91)) $((i * 10 + 100))
done
check "the next ones deliver" until_true 10 answers "SELECT a.high >= 150 AND b.high >= 130
	FROM tenant_1.outbox_progress AS a, \"tenant_B.2\".outbox_progress AS b" t
is "$(backends) $(wc -l <turns.out)" "$before 70"
result $? "by the same connection, each message once" "$(backends) and not $before; $(wc -l <turns.out) messages"
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%wherry%' AND pid <> pg_backend_pid()" >/dev/null
put tenant_1 151 160
check "one that broke is replaced" until_true 10 answers "SELECT high >= 160 FROM tenant_1.outbox_progress" t
check "and that is no failure" not grep -q 'event=failed' log
stop_daemon

# ---- a destination for each ----

sql 'CREATE SCHEMA "tenant_%41"'
"$wherry" create "$url#%22tenant_%2541%22.outbox" >/dev/null 2>&1
printf "relays:\n  - {name: all, from: '$url', match: 'tenant_*', to: 'file:of-{schema}.out'}\n" >wherry.yaml
start_daemon wherry.yaml
put tenant_1 161 170
put 'tenant_B.2' 131 135
put 'tenant_%41' 1 10
lines() { # FILE N
	[ "$(wc -l <"$1" 2>/dev/null)" = "$2" ]
}
check "{schema} in 'to' is the schema of the outbox" until_true 10 lines of-tenant_1.out 10
check "of each" until_true 10 lines of-tenant_B.2.out 5
check "a name that could change the destination is refused" until_true 10 grep -q "event=failed schema=tenant_%41 why=.*cannot stand in" log
stop_daemon
sed -i 's/of-{schema}.out/percent.out/' wherry.yaml
start_daemon wherry.yaml
check "a percent sign in a schema's name is one" until_true 10 lines percent.out 10
stop_daemon
sql 'SET client_min_messages = error; DROP SCHEMA "tenant_%41" CASCADE'

# ---- one that is noisy ----

cat >wherry.yaml <<END
relays:
  - {name: all, from: '$url', match: 'tenant_*', connections: 1, to: 'exec:cat >>some.out; sleep 0.01', exec: {jobs: 1}}
END
start_daemon wherry.yaml
put tenant_1 171 2000
until_true 10 test -s some.out
put 'tenant_B.2' 136 136
check "a noisy outbox leaves another one its turn" until_true 15 answers \
	'SELECT high >= 136 FROM "tenant_B.2".outbox_progress' t
check "before it is done itself" not grep -q '"n" *: *2000' some.out
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null

# ---- connections of one server ----

tenant other_2
cat >wherry.yaml <<END
http: {listen: 127.0.0.1:0}
server_connections: 5
relays:
  - {name: tenants, from: '$url', match: 'tenant_*', to: 'exec:cat >>share.out; sleep 0.1', exec: {jobs: 1}}
  - {name: others, from: '$url', match: 'other*', to: 'exec:cat >>share.out; sleep 0.1', exec: {jobs: 1}}
END
start_daemon wherry.yaml
for schema in tenant_1 tenant_B.2 other other_2; do
	put "$schema" 3001 3200
done
metrics "patterns share the connections to a server" \
	'all(v("wherry_matched_awake", relay=r) == 1 and v("wherry_matched_waiting", relay=r) == 1 for r in ("tenants", "others"))'
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null

# ---- two processes, of which one is killed ----

rm -f log
printf "relays:\n  - {name: all, from: '$url', match: 'tenant_*', to: 'file:both.out', lease: 2s}\n" >wherry.yaml
tenant tenant_4
tenant tenant_5
start_one() { # LOG
	"$wherry" run wherry.yaml 2>"$1" &
	pids+=($!)
	until_true 20 grep -q 'event=matched' "$1"
}
start_one one.log
one=$!
one=${pids[-1]}
start_one two.log
two=${pids[-1]}
for i in 1 2 3 4 5 6; do
	put tenant_4 $((i * 100 - 99)) $((i * 100))
	put tenant_5 $((i * 100 - 99)) $((i * 100))
	command sleep 0.1
	[ $i != 3 ] || kill -KILL "$one"
done
wait "$one" 2>/dev/null
check "what a killed process had, another one delivers" until_true 30 complete both.out 600 tenant_4 tenant_5
put tenant_4 601 610
check "and is woken from then on" until_true 20 complete both.out 610 tenant_4
kill -TERM "$two"
wait "$two"
result $? "the other one stops in good order" "$(tail -n 3 two.log)"
finish
