#!/usr/bin/env bash
# Subscriptions of an outbox of the layout log, on SQLite and PostgreSQL.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"
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

# ---- a subscription that stands still keeps messages, whether it waits for any or not ----

run_sql() { # URL SQL
	case $1 in sqlite:*) sqlite3 "${1#sqlite:}" "$2" ;; *) sql "$2" ;; esac
}
keeps() { # URL NAME AGO
	w create "$1#kept" --layout log
	w create "$1#kept/nothing" --topics 'none.*'
	w enqueue "$1#kept" '{}' --topic t
	w relay "$1#kept" null: --until-empty --timeout 60s
	w status "$1#kept"
	expect "$2: for an hour it is not named" 0 "no:warning"
	run_sql "$1" "UPDATE kept SET created_at = created_at - $3; UPDATE kept_progress SET moved_at = moved_at - $3"
	w status "$1#kept"
	expect "$2: then status begins with it" 0 "out:warning     nobody has read subscription 'nothing' for 2h" "no:'relay'"
	w status "$1#kept/nothing"
	expect "$2: so does its own status" 0 "out:warning     nobody has read subscription 'nothing' for 2h"
	w doctor "$1#kept"
	expect "$2: the doctor names it" "$status" "out:warn  kept                subscription nothing has not moved for 2h" "out:no relay or consumer reads it" "no:subscription relay"
	w relay "$1#kept/nothing" null: --until-empty --timeout 60s
	w status "$1#kept"
	expect "$2: until it is read" 0 "no:warning"
	w doctor "$1#kept"
	expect "$2: in the doctor, too" "$status" "no:kept"
	w enqueue "$1#kept" '{}' --topic t
	run_sql "$1" "UPDATE kept SET created_at = created_at - $3; UPDATE kept_progress SET moved_at = moved_at - $3"
	w status "$1#kept"
	expect "$2: also the one of relays that name none" 0 "out:warning     nobody has read subscription 'relay' for 2h"
	# The daemon relays that one alone.
	printf '%s\n' "http: {listen: '127.0.0.1:0'}" "relays:" "  - {name: a, from: '$1#kept', to: 'null:'}" >"$2-kept.yaml"
	start_daemon "$2-kept.yaml"
	metrics "$2: metrics of a daemon have the subscription that nobody reads" \
		'v("wherry_subscription_kept_seconds", subscription="nothing") > 7000 and v("wherry_subscription_pending", subscription="nothing") == 0
		 and v("wherry_subscription_moved_seconds", subscription="nothing") > 7000 and v("wherry_subscription_led", subscription="nothing") == 0'
	metrics "$2: and no other" 'len(all_of("wherry_subscription_kept_seconds")) == 1'
	"$wherry" relay "$1#kept/nothing" null: 2>/dev/null &
	other=$!
	pids+=("$other")
	metrics "$2: until somebody does" \
		'v("wherry_subscription_kept_seconds", subscription="nothing") == 0 and v("wherry_subscription_led", subscription="nothing") == 1'
	kill "$daemon" "$other"
	wait "$daemon" "$other"
}
keeps sqlite:kept.db sqlite 7200000
keeps "$url" postgres "interval '2 hours'"
waits sqlite:few.db sqlite
check "sqlite: what handlers wrote is found among any number of dead messages" grep -q "(subscription=? AND state=? AND id<?)" <<<"$(sqlite3 few.db "
	EXPLAIN QUERY PLAN $(sed -n '/^-- name: forget-done/,/;/p' "$source_dir/src/outbox/sql/parts/sqlite.subscription.sql" | grep -v '^--' |
		sed "s/{table_exception}/few_exception/; s/{subscription}/'mails'/; s/{high}/7/")")"
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
