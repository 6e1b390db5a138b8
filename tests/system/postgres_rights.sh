#!/usr/bin/env bash
# Roles on PostgreSQL that may consume one subscription of an outbox: what they may, and what they may not.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

sql "CREATE ROLE consumer LOGIN; CREATE ROLE writer LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE pair LOGIN"
w create "$url" --grant consumer=consumer --grant writer=enqueuer
w create "$url#outbox/mails" --topics 'mail.*'

put() { # TOPIC PAYLOAD
	sql "SELECT wherry_enqueue('$1', '\"$2\"')" >/dev/null
}
as() { # ROLE SQL
	psql -X -q -A -t -v ON_ERROR_STOP=1 "postgres://$1@/postgres?host=$folder" -c "$2" 2>&1
}

w create "$url#outbox/orders" --topics 'order.*' --from now --grant clerk=consumer
expect "a role is given one subscription" 0
w create "$url#outbox/orders" --topics 'order.*' --grant clerk=relay
expect "but only to consume it" 2 "err:on one subscription write ROLE=consumer"
w create "$url#outbox/orders" --topics 'order.*' --grant nobody=consumer
expect "a role that is not there gets none" 1 "err:there is no role 'nobody'"
put order.a seven
put mail.a eight
check "it consumes its own messages" is "$(as clerk "SELECT payload FROM wherry_consume('orders')")" '"seven"'
check "once" is "$(as clerk "SELECT payload FROM wherry_consume('orders')")" ""
put order.b nine
as clerk "BEGIN; SELECT wherry_consume('orders'); ROLLBACK" >/dev/null
check "and again if it rolls back" is "$(as clerk "SELECT payload FROM wherry_consume('orders')")" '"nine"'

# Whatever it tries on another one, and on what all of them share, fails and changes nothing.
state() {
	sql "SELECT p.subscription, p.high, p.seen::text, p.topics, p.mask FROM outbox_progress AS p WHERE p.subscription <> 'orders' ORDER BY 1;
		SELECT * FROM outbox_exception WHERE subscription <> 'orders' ORDER BY 1, 2; SELECT count(*), max(tx::text::bigint) FROM outbox;
		SELECT count(*), max(expires_at) FROM wherry_lease; SELECT * FROM wherry_outbox ORDER BY 1"
}
consume_of() { # SUBSCRIPTION: the function of its consumers
	sql "SELECT concat('consume_', md5('outbox/$1'))"
}
w create "$url#outbox/mails" --topics 'mail.*' --grant pair=consumer
w create "$url#outbox/orders" --topics 'order.*' --grant pair=consumer
before=$(state)
refused=0 tries=0
for try in "SELECT wherry_consume('mails')" "SELECT wherry_consume('relay')" "SELECT wherry_consume('mails', 1, 'outbox')" \
	"SELECT * FROM $(consume_of mails)(1)" "SELECT high FROM outbox_progress" "SELECT * FROM outbox_exception" \
	"SELECT payload FROM outbox" "SELECT * FROM wherry_lease" "SELECT * FROM wherry_outbox" "TABLE wherry_schema" \
	"UPDATE outbox_progress SET high = 0 WHERE subscription = 'mails'" "UPDATE outbox_progress SET high = 1000" \
	"UPDATE outbox_progress SET subscription = 'mails' WHERE subscription = 'orders'" \
	"INSERT INTO outbox_progress(subscription, high, seen) VALUES ('mine', 0, '1:1:')" "DELETE FROM outbox_progress" \
	"INSERT INTO outbox_exception(subscription, id, state) VALUES ('mails', 1, 4)" "DELETE FROM outbox_exception" \
	"UPDATE outbox SET tx = '0'" "DELETE FROM outbox" "SELECT 1 FROM outbox FOR UPDATE" \
	"SELECT 1 FROM outbox_progress FOR UPDATE" "TRUNCATE outbox_exception" "BEGIN; LOCK TABLE outbox_progress IN SHARE MODE" \
	"BEGIN; LOCK TABLE outbox_exception" "BEGIN; LOCK TABLE outbox" "UPDATE wherry_lease SET expires_at = now() + '1 h'" \
	"INSERT INTO wherry_outbox(name, paused_at) VALUES ('outbox\\mails', now())" \
	"DROP FUNCTION $(consume_of orders)(integer)" "ALTER FUNCTION $(consume_of orders)(integer) RENAME TO x" \
	"CREATE OR REPLACE FUNCTION $(consume_of orders)(integer) RETURNS void LANGUAGE sql AS ''" \
	"CREATE TEMP TABLE outbox_progress(subscription text, high bigint); SELECT wherry_consume('mails')" \
	"SET search_path = pg_temp, public; CREATE TEMP TABLE wherry_outbox(name text); SELECT wherry_consume('mails')" \
	"SET ROLE consumer" "SELECT wherry_consume(concat('mails', chr(0)))" "SELECT wherry_consume('orders'' OR true--')" \
	"COPY outbox TO STDOUT" "SELECT nextval('outbox_id_seq')"; do
	tries=$((tries + 1))
	out=$(as clerk "$try") || refused=$((refused + 1))
	[[ $out == *"permission denied"* || $out == *"must be owner"* || $out == *"character"* ]] ||
		echo "# $try: $out"
done
as clerk "GRANT EXECUTE ON FUNCTION $(consume_of orders)(integer) TO PUBLIC" >/dev/null
check "all that it tries on others is refused" is "$refused" "$tries"
check "and changes nothing" is "$(state)" "$before"
check "who may write messages may not consume it" is \
	"$(as writer "SELECT * FROM $(consume_of orders)(1)")" \
	"ERROR:  permission denied for function $(consume_of orders)"
put order.c ten
check "a role with two subscriptions consumes both" is "$(as pair "SELECT payload FROM wherry_consume('orders') UNION ALL SELECT payload FROM wherry_consume('mails')")" $'"ten"\n"eight"'
w create "$url#outbox/orders" --topics 'order.*' --grant consumer=consumer
put order.d eleven
check "a role that had all of them has one" is "$(as consumer "SELECT payload FROM wherry_consume('orders')")" '"eleven"'
check "and no other" is "$(as consumer "SELECT wherry_consume('mails')" | head -1)" "ERROR:  permission denied for table outbox_progress"
w create "$url" --grant consumer=consumer --grant pair=enqueuer
check "rights on the outbox take the place of those on one" is "$(as pair "SELECT wherry_consume('orders')" | head -1)" "ERROR:  permission denied for table outbox_progress"
w create "$url#outbox/orders" --topics 'order.*' --grant pair=consumer
check "a role that writes messages may consume one, too" is "$(as pair "SELECT wherry_enqueue('order.e', '12') > 0")
$(as pair "SELECT payload FROM wherry_consume('orders')")" $'t\n12'
w drop "$url#outbox/orders" --yes
w create "$url#outbox/orders" --topics 'order.*'
check "the rights go with the subscription" is "$(as clerk "SELECT wherry_consume('orders')" | head -1)" \
	"ERROR:  permission denied for table outbox_progress"

# A table of another program, whose owner is not a superuser.
sql "CREATE ROLE shop LOGIN; GRANT CREATE ON SCHEMA public TO shop; SET ROLE shop;
	CREATE TABLE events(id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL)"
w adopt "$url#events" --yes
expect "a table is adopted" 0
w create "$url#events_log/one" --topics 'a.*' --grant clerk=consumer
expect "a role is given one subscription of it" 0
sql "INSERT INTO events(type, data) VALUES ('a.1', '1'), ('b.1', '2')"
check "it consumes that" is "$(as clerk "SELECT payload FROM wherry_consume('one', 10, 'events_log')")" 1
check "and cannot read the rest" is "$(as clerk "SELECT wherry_consume('relay', 10, 'events_log')" | head -1)" \
	"ERROR:  permission denied for table events_log_progress"
sql 'CREATE SCHEMA "Shop"'
w create "$url#Shop.box"
w create "$url#Shop.box/one" --grant clerk=consumer
expect "a role is given one in another schema" 0
sql "INSERT INTO \"Shop\".box(topic, payload) VALUES ('t', '3')"
check "and consumes it" is "$(as clerk "SELECT payload FROM \"Shop\".wherry_consume('one', 10, 'box')")" 3
w drop "$url#Shop.box" --yes
w drop "$url#events_log" --yes
w drop "$url" --yes
check "nothing is left of them" is "$(sql "SELECT proname FROM pg_proc WHERE prosecdef AND proname LIKE 'consume%'")" ""

stop_server
finish
