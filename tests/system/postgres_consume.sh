#!/usr/bin/env bash
# wherry_consume() on PostgreSQL: consumers that read a subscription in their own transaction.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

sql "CREATE ROLE consumer LOGIN; CREATE ROLE writer LOGIN"
w create "$url" --grant consumer=consumer --grant writer=enqueuer
w create "$url#outbox/mails" --topics 'mail.*,100%'
expect "a subscription is made" 0

has() { # WHAT TEXT PART...: the text has each part
	local part
	why=
	for part in "${@:3}"; do
		[[ $2 == *"$part"* ]] || why+="no '$part' in: $2; "
	done
	[ -z "$why" ]
	result $? "$1" "$why"
}
as_consumer() { # SQL
	psql -X -q -A -t -v ON_ERROR_STOP=1 "postgres://consumer@/postgres?host=$folder" -c "$1"
}
put() { # TOPIC PAYLOAD [KEY]
	sql "SELECT wherry_enqueue('$1', '\"$2\"', key => nullif('${3-}', ''))" >/dev/null
}
consumed() { # WHAT [ARGUMENTS]: payloads of the next messages are WHAT
	is "$(as_consumer "SELECT string_agg(payload, ' ' ORDER BY id) FROM wherry_consume(${2-'mails'})")" "$1"
}

# ---- the position ----

check "nothing is there" consumed ""
put mail.a one k
put other two k
put 100% three k
put 1000 four k
put mail.b five k
check "messages of its topics come in their order" consumed '"one" "three"' "'mails', 2"
check "once" consumed '"five"'
check "and no more" consumed ""
check "another subscription has all of them" consumed '"one" "two" "three" "four" "five"' "'relay'"
put mail.a six
as_consumer "BEGIN; SELECT wherry_consume('mails'); ROLLBACK" >/dev/null
check "what was rolled back comes again" consumed '"six"'
check "all columns are returned" is "$(sql "SELECT wherry_enqueue('mail.c', '{\"a\":1}', key => 'k', message_id => 'm', headers => '{\"h\":\"1\"}',
	aggregate_type => 't', aggregate_id => '7', trace_id => 'x') > 0" >/dev/null
	as_consumer "SELECT message_id, topic, key, headers, payload, bytes IS NULL, aggregate_type, aggregate_id, trace_id,
	created_at > now() - interval '1 minute' FROM wherry_consume('mails')")" 'm|mail.c|k|{"h":"1"}|{"a":1}|t|t|7|x|t'
w status "$url#outbox/mails"
expect "status counts what is pending" 0 "out:pending     0"
for type in text bytea jsonb; do
	w create "$url#box_$type" --payload $type
	sql "SELECT wherry_enqueue('t', 'null'::json, outbox => 'box_$type')" >/dev/null
	column=payload
	[ $type != bytea ] || column="convert_from(bytes, 'UTF8')"
	check "a payload of type $type is returned" is "$(sql "SELECT $column FROM wherry_consume('relay', 1, 'box_$type')")" null
done

# ---- turns ----

for n in 1 2 3 4 5 6; do put mail.x "$n"; done
mkfifo "$tmp/first"
psql -X -q -A -t "postgres://consumer@/postgres?host=$folder" <"$tmp/first" >"$tmp/first.out" 2>&1 &
exec 8>"$tmp/first"
echo "BEGIN; SELECT payload FROM wherry_consume('mails', 2);" >&8
until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" 1
as_consumer "SELECT payload FROM wherry_consume('mails', 2)" >"$tmp/second.out" &
second=$!
until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'" 1
result $? "a second consumer waits for the first" ""
echo "COMMIT;" >&8
wait "$second"
check "and then has the messages behind it" is "$(cat "$tmp/second.out")" $'"3"\n"4"'
echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 'begun' FROM pg_class LIMIT 1;" >&8
until_true 20 grep -q begun "$tmp/first.out"
check "a third has others" consumed '"5"' "'mails', 1"
echo "SELECT payload FROM wherry_consume('mails', 1);" >&8
echo "ROLLBACK; SELECT 'ended';" >&8
until_true 20 grep -q ended "$tmp/first.out"
check "a transaction that cannot see its position fails" grep -q "could not serialize" "$tmp/first.out"
check "and loses nothing" consumed '"6"' "'mails', 1"
exec 8>&-

# ---- beside relays ----

put mail.y dies
put mail.y stays
w relay "$url#outbox/mails" 'exec:grep -q stays || exit 65' --until-empty --timeout 60s
expect "a relay goes on from there" 3
put mail.y late
check "dead messages are left out" consumed '"late"'
w retry "$url#outbox/mails" --all
expect "until they are retried" 0 "out:1 message is pending again"
check "then they come" consumed '"dies"'
check "once" consumed ""
sql "INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, suspects)
	VALUES ('outbox\\mails', 0, 'log', 'r', 1, now() + interval '1 hour', 1, 0, 1, 0) ON CONFLICT (outbox, number)
	DO UPDATE SET expires_at = now() + interval '1 hour'"
out=$(as_consumer "SELECT wherry_consume('mails')" 2>&1)
has "while a relay reads, a consumer is told" "$out" "a relay reads subscription 'mails' of outbox 'outbox'"
sql "UPDATE wherry_lease SET expires_at = '1970-01-01'"
sql "UPDATE outbox_progress SET mask = 1 WHERE subscription = 'mails'"
out=$(as_consumer "SELECT wherry_consume('mails')" 2>&1)
has "and of positions of relays that shared it" "$out" "has several positions"
sql "UPDATE outbox_progress SET mask = -1 WHERE subscription = 'mails'"
put mail.z paused
w pause "$url#outbox/mails"
check "a pause holds consumers up" consumed ""
w resume "$url#outbox/mails"
check "until it ends" consumed '"paused"'
w seek "$url#outbox/mails" "$(sql "SELECT max(id) FROM outbox")"
expect "seek goes back" 0 "is:1 message is pending in subscription 'mails' of outbox 'outbox'"
check "and it comes again" consumed '"paused"'

# A relay that begins while a consumer's transaction is open waits for it, and delivers nothing that it consumed.
w create "$url#turns"
sql "SELECT wherry_enqueue('t', to_json(i), outbox => 'turns') FROM generate_series(1, 3) AS i" >/dev/null
mkfifo "$tmp/turns"
psql -X -q -A -t "postgres://wherry@/postgres?host=$folder" <"$tmp/turns" >"$tmp/turns.out" 2>&1 &
exec 8>"$tmp/turns"
echo "BEGIN; SELECT 'consumed ' || count(*) FROM wherry_consume('relay', 2, 'turns');" >&8
until_true 20 grep -q 'consumed 2' "$tmp/turns.out"
"$wherry" relay "$url#turns" "file:$tmp/turned" --until-empty --timeout 60s 2>"$tmp/turned.err" &
relay=$!
check "a relay waits for a consumer" until_true 20 answers \
	"SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'" t
echo "COMMIT;" >&8
exec 8>&-
wait "$relay"
result $? "and ends" "$(cat "$tmp/turned.err")"
check "and delivers what it has left" is "$(wc -l <"$tmp/turned") $(grep -c '"id":3' "$tmp/turned")" '1 1'

# ---- one bad row ----

sql "INSERT INTO outbox(topic, payload) SELECT 'mail.big', CASE i WHEN 2 THEN to_json(repeat('x', 68000000)) ELSE to_json(i) END
	FROM generate_series(1, 3) AS i"
check "a payload over the limit dies alone" consumed '1 3'
w list "$url#outbox/mails" --state dead
expect "and says why" 0 "out:the payload is over its limit of 67108864 bytes"
sql "SELECT wherry_enqueue('mail.text', to_json('Zażółć'::text)), wherry_enqueue('mail.text', to_json('plain'::text))" >/dev/null
check "so does a text that the client's encoding lacks" is \
	"$(PGCLIENTENCODING=LATIN1 as_consumer "SELECT payload FROM wherry_consume('mails')")" '"plain"'

# ---- a table from another server ----

# Its transactions have higher numbers than those of this server.  A message whose transaction was open when one
# subscription was read is unread there alone.
shift_numbers() {
	local c
	sql "UPDATE outbox SET tx = (tx::text::bigint + 1000000)::text::xid8 WHERE tx <> '0'"
	for c in seen until; do
		sql "UPDATE outbox_progress SET $c = concat(pg_snapshot_xmin($c)::text::bigint + 1000000, ':',
			pg_snapshot_xmax($c)::text::bigint + 1000000, ':', (SELECT string_agg((x::text::bigint + 1000000)::text, ','
			ORDER BY x) FROM pg_snapshot_xip($c) AS x))::pg_snapshot WHERE $c IS NOT NULL"
	done
}
relay_all() {
	w relay "$url" "file:$tmp/all" --until-empty --timeout 60s
}
for reader in consumer relay; do
	relay_all
	mkfifo "$tmp/writer"
	psql -X -q -A -t "postgres://wherry@/postgres?host=$folder" <"$tmp/writer" >/dev/null 2>&1 &
	writer=$!
	exec 8>"$tmp/writer"
	echo "BEGIN; INSERT INTO outbox(topic, payload) VALUES ('mail.l', '\"late for $reader\"');" >&8
	until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" 1
	put mail.m "behind it"
	if [ $reader = consumer ]; then
		check "a message behind an open one is consumed" consumed '"behind it"'
	else
		relay_all
		expect "a message behind an open one is relayed" 0 "err:1 delivered"
	fi
	echo "COMMIT;" >&8
	exec 8>&-
	wait "$writer"
	rm "$tmp/writer"
	if [ $reader = consumer ]; then
		relay_all
		shift_numbers
		relay_all
		expect "a relay that finds the table on another server says so" 0 "err:event=log-restored" "err:0 delivered"
		check "what only a consumer had not read is consumed" consumed '"late for consumer"'
	else
		as_consumer "SELECT wherry_consume('mails')" >/dev/null
		shift_numbers
		check "a consumer finds nothing new there" consumed ""
		relay_all
		expect "what only a relay had not read is relayed" 0 "err:1 delivered" "no:event=log-restored"
		check "that message" grep -q "late for relay" "$tmp/all"
	fi
	put mail.n next
	check "then all goes on" consumed '"next"'
done

# ---- words ----

says() { # WHAT SQL TEXT...
	local out
	out=$(as_consumer "$2" 2>&1)
	has "$1" "$out" "${@:3}"
}
says "a subscription that is not there" "SELECT wherry_consume('none')" "outbox 'outbox' has no subscription 'none'" "\`wherry create @outbox/none\`"
says "no subscription" "SELECT wherry_consume(NULL)" "outbox 'outbox' has no subscription NULL"
says "an outbox that is not there" "SELECT wherry_consume('relay', 1, 'none')" "there is no outbox 'none'"
says "no messages" "SELECT wherry_consume('relay', 0)" "n is 0, and must be 1 or more"

stop_server
finish
