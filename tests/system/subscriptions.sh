#!/usr/bin/env bash
# Subscriptions of an outbox of the layout log, on SQLite and PostgreSQL.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/subscriptions.bash
. "$source_dir/tests/system/subscriptions.bash"

start_server

all sqlite:shop.db sqlite
all "$url" postgres

# ---- a relay for each subscription in one process, and a consumer in plain SQL, as the guide has it ----

together() { # URL NAME
	w create "$1#outbox" --layout log
	w create "$1#outbox/audit" --topics 'orders.*,billing' --from now
	printf '%s\n' "relays:" "  - {name: all, from: '$1#outbox', to: 'file:$2.all'}" \
		"  - {name: audit, from: '$1#outbox/audit', to: 'file:$2.audit'}" >"$2.yaml"
	w check "$2.yaml"
	expect "$2: a file names subscriptions" 0 "out:2 relays, fine"
	printf '{"n":%d}\n' 1 2 3 | "$wherry" enqueue --lines "$1#outbox" --topic billing >/dev/null
	printf '{"n":%d}\n' 4 | "$wherry" enqueue --lines "$1#outbox" --topic other >/dev/null
	"$wherry" run "$2.yaml" 2>"$2.log" &
	daemon=$!
	pids+=("$daemon")
	check "$2: one relay delivers all" until_true 20 lines "$2.all" 4
	check "$2: the other the topics of its subscription" until_true 20 lines "$2.audit" 3
	w status "$1#outbox"
	expect "$2: status names the relay of each" 0 "out:subscription  audit, topics orders.*,billing: 0 pending, 0 failed, 0 dead; relay audit@"
	kill "$daemon"
	wait "$daemon"
}
together sqlite:both.db sqlite
together "$url" postgres
check "postgres: no more than those" is "$(cat sqlite.audit postgres.audit | wc -l)" 6

# ---- status of the outbox speaks of what waits in another subscription, also if the one of relays that name none is gone ----

waits() { # URL NAME
	w create "$1#few" --layout log
	w create "$1#few/mails"
	w enqueue "$1#few" '{}' --topic t
	w relay "$1#few" null: --until-empty --timeout 60s
	w status "$1#few"
	expect "$2: nobody says that all is delivered while another subscription waits" 0 "no:every message" \
		"out:no message has waited for long" "out:subscription  mails: 1 pending"
	w drop "$1#few/relay" --yes
	w status "$1#few"
	expect "$2: nor without the subscription of relays" 0 "no:every message" "out:subscription  mails: 1 pending"
	w pause "$1#few/mails"
	w status "$1#few"
	expect "$2: status warns of a pause" 0 "out:warning     subscription 'mails' is paused"
	w resume "$1#few/mails"
	w relay "$1#few/mails" 'exec:exit 65' --until-empty --timeout 60s
	w status "$1#few"
	expect "$2: and of the dead" 0 "out:1 message is dead in subscription 'mails'"
}
waits sqlite:few.db sqlite
waits "$url" postgres

# ---- relays that share the keys of two subscriptions ----

w create "$url#shared" --layout log --partitions
w create "$url#shared/audit"
psql -X -q -h "$folder" -U wherry postgres -c "INSERT INTO shared(topic, partition_key, payload)
	SELECT 't', i % 100, to_json(i) FROM generate_series(1, 500) AS i"
for one in shared.1 shared.2 shared/audit.1 shared/audit.2; do
	"$wherry" relay "$url#${one%.*}" "file:${one/\//-}.out" 2>"${one/\//-}.log" &
	pids+=("$!")
	sharing+=("$!")
done
all_of() { # NAME
	[ "$(cat "$1".[12].out 2>/dev/null | sort -u | wc -l)" -ge 500 ]
}
check "relays that share an outbox deliver all" until_true 20 all_of shared
check "and those that share a subscription of it" until_true 20 all_of shared-audit
w status "$url#shared/audit"
expect "status names their leases" 0 "out:done        500"
check "leases of both subscriptions" answers \
	"SELECT string_agg(outbox || ' ' || n, ', ' ORDER BY outbox) FROM (SELECT outbox, count(*) AS n FROM wherry_lease
	 WHERE starts_with(outbox, 'shared') AND expires_at > now() GROUP BY outbox) AS l" 'shared 2, shared\audit 2'
kill "${sharing[@]}"
wait "${sharing[@]}"
w status "$url#shared/audit"
expect "their leases end" 0 "out:done        500" "no:lease for"

sed -n '/^```sql/,/^```/p' "$source_dir/docs/guide/subscriptions.md" | sed '/^```/d; s/--.*//; s/= 42/= 6/' >consume.sql
printf '{"n":%d}\n' 5 6 | "$wherry" enqueue --lines sqlite:both.db#outbox --topic orders.a >/dev/null
w status sqlite:both.db#outbox/audit
expect "messages are pending" 0 "out:pending     2"
check "statements of the guide consume them" is "$(sqlite3 both.db <consume.sql | cut -d'|' -f1 | tr '\n' ' ')" "5 6 "
check "once" is "$(sqlite3 both.db <consume.sql)" ""
w status sqlite:both.db#outbox/audit
expect "and status knows" 0 "out:pending     0"

stop_server
finish
