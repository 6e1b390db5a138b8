#!/usr/bin/env bash
# The consumer of a Kafka topic: each message takes effect once, though it is delivered twice, and
# the consumer is killed.
#
# Writes TAP.

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"
# shellcheck source=tests/system/kafka.bash
. "$(dirname "$0")/kafka.bash"

find_languages
if [ -n "${lacks[Python]}" ] || ! bin/python3 -c 'import confluent_kafka' 2>/dev/null; then
	printf '1..1\nok 1 - a consumer of Kafka # SKIP no psycopg, or no confluent_kafka\n'
	exit 0
fi
start_kafka 1
start_shop_server
in_database postgres 'CREATE DATABASE shop' 2>createdb.err
shop=postgres://wherry@127.0.0.1:$server_port/shop

# ---- each message is in the topic twice ----

w create "$shop"
w create --kind inbox "$shop"
in_database shop 'CREATE TABLE shipments(order_id bigint NOT NULL)'
in_database shop "SELECT count(wherry_enqueue('orders', format('{\"order\": %s}', n), key => (n % 7)::text))
	FROM generate_series(1, 200) AS n" >sent
w relay "$shop" "kafka://$broker" --until-empty --timeout 60s
expect "a relay delivers to Kafka" 0 "err:200 delivered"
w seek "$shop" start # as after a crash
w relay "$shop" "kafka://$broker" --until-empty --timeout 60s
expect "and again" 0 "err:200 delivered"
out=$(read_back orders)
json "each message is there twice" \
	"len(l) == 400 and len({m['headers']['message-id'] for m in l}) == 200"

# ---- the consumer ----

consumer=(bin/python3 examples/postgres/consumer.py "$shop" "$broker" orders)

# It is killed twice, amid its work: the broker answers late.
kafka rtt 20
for some in 20 60; do
	"${consumer[@]}" >killed.out 2>killed.err </dev/null 9>&- 8>&- &
	pid=$!
	until_true 60 answers_in shop "SELECT count(*) >= $some FROM shipments" t
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
done
kafka rtt 0
out=$(timeout 120 "${consumer[@]}" --until-empty 2>.err </dev/null 9>&- 8>&-)
status=$? err=$(cat .err)
expect "a consumer that was killed goes on" 0 "out:seen before"
check "each order is shipped once" answers_in shop \
	"SELECT count(*) || ' ' || count(DISTINCT order_id) FROM shipments" '200 200'
check "and each id is in the inbox" answers_in shop \
	"SELECT count(*) FROM inbox WHERE consumer = 'shipping'" 200
out=$(timeout 120 "${consumer[@]}" --until-empty 2>.err </dev/null 9>&- 8>&-)
status=$? err=$(cat .err)
expect "once more, there is nothing to consume: offsets were committed" 0 "is:"

# ---- what another producer wrote, and what fails ----

printf '{"order": 300}\n' | kcat -b "$broker" -t orders -P
printf 'no order\n' | kcat -b "$broker" -t refused -P
out=$(timeout 120 "${consumer[@]}" --until-empty 2>.err </dev/null 9>&- 8>&-)
status=$? err=$(cat .err)
expect "a message without an id is known by its place" 0 "is:shipped"
out=$(timeout 120 bin/python3 examples/postgres/consumer.py "$shop" "$broker" refused 2>.err </dev/null 9>&- 8>&-)
status=$? err=$(cat .err)
expect "a message that fails ends the program" 1 "err:JSONDecodeError"
check "and is not in the inbox" answers_in shop \
	"SELECT count(*) FROM inbox WHERE message_id LIKE 'refused%'" 0

stop_server
finish
