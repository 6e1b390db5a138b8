#!/usr/bin/env bash
# Rows on PostgreSQL whose times are infinite, or far from now: no command, no metric and no SQL function fails because of them.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

start_server wal_level=logical
times=(infinity -infinity "294276-12-31 UTC" "4713-01-01 UTC BC")

# works NAME STATUS... -- COMMAND...: it ends with one of these, and names no fault of a time.
works() {
	local name=$1 wanted=" "
	shift
	while [ "$1" != -- ]; do
		wanted+="$1 "
		shift
	done
	w "${@:2}"
	[[ $wanted == *" $status "* ]] && [[ $out$err != *infinit* && $out$err != *"out of range"* && $out$err != *"could not"* ]]
	result $? "$name: ${*:2:1} ${*:4}" "a time may be at fault"
}

# rows SOURCE TIME: messages 1 to 6 are delivered, failed, dead, tried alone, pending, and failed and due; 9 is late, 11 and 12
# were not read.
rows() {
	local put="INSERT INTO $1(id, topic, payload, created_at) SELECT i, 't', '{}', '$2' FROM"
	sql "$put generate_series(1, 6) AS i"
	sql "DELETE FROM ${box}_progress WHERE subscription <> 'relay';
		UPDATE ${box}_progress SET high = 10, seen = pg_current_snapshot(), moved_at = now() - interval '2 hours';
		DELETE FROM ${box}_exception;
		INSERT INTO ${box}_exception(subscription, id, state, attempts, next_retry_at, changed_at, last_error) VALUES
		('relay', 2, 3, 1, '$2', '$2', 'why'), ('relay', 3, 4, 1, NULL, '$2', 'why'), ('relay', 4, 1, 1, NULL, '$2', NULL),
		('relay', 5, 0, 0, NULL, '$2', NULL), ('relay', 6, 3, 1, now() - interval '1 minute', '$2', 'why')"
	sql "$put (VALUES (9), (11), (12)) AS v(i)"
}

# commands NAME URL: with the rows above.
commands() {
	sql "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, suspects)
		VALUES ('$box', 0, 'log', 'me', 1, now() + interval '1 hour', 0, 0, 1, 0)"
	works "$1" 0 1 -- status "$2"
	works "$1" 0 1 -- status "$2" --json
	json "$1: each is counted in its state" 'd["pending"] == 4 and d["processing"] == 1 and d["failed"] == 2
		and d["dead"] == 1 and d["done"] == 1 and len(d["subscriptions"]) == 2'
	works "$1" 0 1 -- doctor "$2" --verbose
	for id in 2 3 5 9 11; do
		works "$1" 0 1 -- doctor "$2" $id
		works "$1" 0 -- show "$2" $id
	done
	sql "DELETE FROM wherry_lease WHERE outbox = '$box'"
	works "$1" 0 1 -- doctor "$2" --json
	works "$1" 0 -- list "$2" --state pending --json
	json "$1: and listed" '[m["id"] for m in l] == [12, 11, 9, 5]'
	for how in --all "--since 1h" "--state failed" "--state dead"; do
		# shellcheck disable=SC2086
		works "$1" 0 -- list "$2" $how
	done
	works "$1" 0 -- status "$2/audit" --json
	works "$1" 0 -- retry "$2" --all
	works "$1" 0 -- retry "$2" --all --state failed
	works "$1" 0 -- purge "$2" --older-than 0 --dry-run
	works "$1" 0 -- purge "$2" --older-than 1h --yes
	works "$1" 0 -- seek "$2/audit" 2026-01-01T00:00:00Z
	works "$1" 0 -- seek "$2/audit" start
	works "$1" 0 -- discard "$2" 2 --yes
	sql "SELECT count(*) FROM wherry_consume('audit', 100, '$box')" >"$tmp/.said" 2>&1
	result $? "$1: wherry_consume()" "$(cat "$tmp/.said")"
	cat >>wherry.yaml <<-END
		  - {name: $box, from: '$2', to: 'null:'}
	END
	works "$1" 0 -- pause "$2"
	boxes+=("$box")
}

printf 'http: {listen: 127.0.0.1:0}\nrelays:\n' >wherry.yaml
boxes=()
for i in "${!times[@]}"; do
	box=log$i
	"$wherry" create "$url#$box" >/dev/null
	rows "$box" "${times[$i]}"
	"$wherry" create "$url#$box/audit" --from start >/dev/null
	commands "a log, ${times[$i]}" "$url#$box"

	sql "CREATE TABLE events$i(id bigint PRIMARY KEY, topic text, payload json, created_at timestamptz)"
	box=events${i}_log
	"$wherry" adopt "$url#events$i" --done nothing --yes >/dev/null
	rows "events$i" "${times[$i]}"
	"$wherry" create "$url#$box/audit" --from start >/dev/null
	commands "an adopted table, ${times[$i]}" "$url#$box"
done

# ---- Debezium's table: times are those of the dead messages beside it ----

"$wherry" create "$url#routed" --layout debezium --stream >/dev/null
for i in "${!times[@]}"; do
	sql "INSERT INTO routed SELECT gen_random_uuid(), 'order', '7', 'Made', '{}'"
	works "debezium, ${times[$i]}" 0 1 2 3 4 -- relay "$url#routed" 'exec:exit 65' --until-empty --timeout 30s
	sql "UPDATE wherry_dead SET created_at = '${times[$i]}', died_at = '${times[$i]}';
		UPDATE wherry_stream SET written_at = '${times[$i]}'"
	for command in status doctor list; do
		works "debezium, ${times[$i]}" 0 1 -- $command "$url#routed"
		works "debezium, ${times[$i]}" 0 1 -- $command "$url#routed" --json
	done
done

# ---- queues ----

for i in "${!times[@]}"; do
	box=jobs$i at=${times[$i]}
	w create "$url#$box" --kind queue
	sql "INSERT INTO $box(body, state, available_at, expires_at, created_at, lease_token) VALUES
		('1', 0, NULL, NULL, '$at', NULL), ('2', 1, '$at', NULL, '$at', 'token'), ('3', 3, '$at', NULL, '$at', NULL),
		('4', 4, NULL, NULL, '$at', NULL), ('5', 0, NULL, '$at', '$at', NULL), ('6', 3, now(), '$at', '$at', NULL)"
	for command in status doctor list; do
		works "a queue, $at" 0 1 -- $command "$url#$box"
		works "a queue, $at" 0 1 -- $command "$url#$box" --json
	done
	for id in 1 2 3 4 5 6; do
		works "a queue, $at" 0 -- show "$url#$box" $id
	done
	sql "BEGIN; SELECT wherry_queue_length('$box'), count(*) FROM wherry_receive('$box', 10); ROLLBACK;
		BEGIN; SELECT count(*) FROM wherry_receive('$box', 10, NULL); ROLLBACK;
		BEGIN; SELECT wherry_extend('$box', 2, 'token', '1 minute'); ROLLBACK;
		BEGIN; SELECT wherry_nack('$box', 2, 'token'); ROLLBACK;
		BEGIN; SELECT wherry_dead_letter('$box', 2, 'token', 'why'); ROLLBACK;
		BEGIN; SELECT wherry_ack('$box', 2, 'token'); SELECT wherry_cancel('$box', 3); ROLLBACK;" >"$tmp/.said" 2>&1
	result $? "a queue, $at: the SQL functions" "$(cat "$tmp/.said")"
	works "a queue, $at" 0 1 -- receive "$url#$box"
	works "a queue, $at" 0 1 -- receive "$url#$box" --wait 50ms --lease 1s --json
	works "a queue, $at" 0 -- retry "$url#$box" --all
	sql "INSERT INTO $box(body, created_at) VALUES ('7', '$at')"
done

# ---- metrics ----

cat >>wherry.yaml <<END
  - {name: jobs, from: '$url#jobs0', to: 'null:'}
END
"$wherry" pause "$url#jobs0" >/dev/null
start_daemon wherry.yaml
for box in "${boxes[@]}"; do
	metrics "$box: metrics count what waits, and say how long it does" \
		'v("wherry_outbox_pending", relay="'"$box"'") > 0 and v("wherry_outbox_oldest_ready_seconds", relay="'"$box"'") >= 0
		 and any(l.get("relay") == "'"$box"'" and n >= 0 for l, n in all_of("wherry_subscription_kept_seconds"))'
done
metrics "a queue: metrics" 'v("wherry_outbox_pending", relay="jobs") >= 0'
stop_daemon
for box in "${boxes[@]}"; do
	w resume "$url#$box"
	works "$box" 0 1 2 3 4 5 6 7 8 -- relay "$url#$box" null: --until-empty --timeout 30s
	w status "$url#$box" --json
	json "$box: nothing is left" 'd["pending"] + d["failed"] + d["processing"] == 0'
done
stop_server
finish
