#!/usr/bin/env bash
# wherry adopt on PostgreSQL: tables of other programs, relayed where they are.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

sql "CREATE ROLE app LOGIN; CREATE ROLE relay LOGIN; CREATE ROLE other LOGIN"
as() { # ROLE SQL
	psql -X -q -A -t -v ON_ERROR_STOP=1 "postgres://$1@/postgres?host=$folder" -c "$2"
}
relay() { # OUTBOX [OPTION...]: delivers what is there
	rm -f got.ndjson
	w relay "$url#$1" file:got.ndjson --until-empty "${@:2}"
}
got() { # JQ TEXT: of each message that the last relay delivered
	is "$([ ! -e got.ndjson ] || jq -r "$1" got.ndjson | paste -sd' ')" "$2"
}
schema() { # TABLE
	pg_dump -s -t "$1" "$url" | grep -v '^\\\|^--\|^$'
}

# ---- a team's own table ----

sql "CREATE TABLE domain_events(event_no bigserial PRIMARY KEY, event_id uuid NOT NULL DEFAULT gen_random_uuid(),
	type varchar(100) NOT NULL, order_id integer, data jsonb NOT NULL, meta jsonb,
	occurred_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz);
GRANT INSERT ON domain_events TO app; GRANT USAGE ON SEQUENCE domain_events_event_no_seq TO app;
INSERT INTO domain_events(type, order_id, data, meta, published_at)
SELECT 'order.made', n % 3, jsonb_build_object('n', n), '{\"user\": \"eva\", \"deep\": {\"x\": 1}}', CASE WHEN n <= 7 THEN now() END
FROM generate_series(1, 10) AS n"
before=$(schema domain_events)
w adopt "$url#domain_events" --key order_id
expect "a plan says what is taken for what" 0 "out:  topic          type" "out:  body           data" \
	"out:when delivered published_at is set" "out:what is not delivered: 3 rows" "out:add --yes"
check "and changes nothing" is "$(schema domain_events)" "$before"
check "it is there as JSON, too" is "$("$wherry" adopt "$url#domain_events" --json | jq -r '[.outbox, .did, .columns.body, .undone, (.sql | length)] | @csv')" \
	'"domain_events_log","nothing","data",3,4'
w adopt "$url#domain_events" --key order_id --yes
expect "the table is adopted" 0 "out:domain_events_log"
w adopt "$url#domain_events" --key order_id --yes
expect "twice is fine" 0 "out:again"
w status "$url#domain_events_log"
expect "what is not delivered is pending" 0 "out:pending     3"
relay domain_events_log
expect "it is delivered" 0 "err:3 delivered"
check "with its fields" got '[.id, .topic, .key, .body.n, .headers.user, .headers.deep] | map(tostring) | join("/")' \
	'8/order.made/2/8/eva/{"x": 1} 9/order.made/0/9/eva/{"x": 1} 10/order.made/1/10/eva/{"x": 1}'
check "the message id is the event's" is "$(jq -r .message_id got.ndjson | head -n 1)" "$(sql "SELECT event_id FROM domain_events WHERE event_no = 8")"
check "and its rows say so" answers "SELECT count(*) FROM domain_events WHERE published_at IS NULL" 0
as app "INSERT INTO domain_events(type, order_id, data) VALUES ('order.paid', 3000000, '{\"n\": 11}')"
relay domain_events_log
check "its programs write as before" got '[.topic, .key, .body.n] | map(tostring) | join("/")' 'order.paid/3000000/11'
w relay "$url#domain_events_log" exec:false --until-empty --set retry.attempts=1
as app "INSERT INTO domain_events(type, data) VALUES ('order.lost', '{}')"
w relay "$url#domain_events_log" exec:false --until-empty --set retry.attempts=1
expect "a message dies" 3 "err:1 dead"
check "a dead one is not called published" answers "SELECT count(*) FROM domain_events WHERE published_at IS NULL" 1
w retry "$url#domain_events_log" --all
relay domain_events_log
check "it is tried again" got .topic order.lost
check "and is published" answers "SELECT count(*) FROM domain_events WHERE published_at IS NULL" 0

# ---- rows that are not in order ----

exec 5> >(exec psql -X -q "$url" >/dev/null)
echo "BEGIN; INSERT INTO domain_events(type, data) VALUES ('late', '{}');" >&5
until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" 1
as app "INSERT INTO domain_events(type, data) VALUES ('early', '{}')"
relay domain_events_log
check "a transaction that stays open holds up nobody" got .topic early
echo "COMMIT; SELECT 1;" >&5
exec 5>&-
until_true 20 answers "SELECT count(*) FROM domain_events WHERE type = 'late'" 1
relay domain_events_log
check "what it wrote comes when it commits" got .topic late
sql "DELETE FROM domain_events WHERE event_no = 2; INSERT INTO domain_events(event_no, type, data) VALUES (2, 'by hand', '{}'), (4000000, 'far', '{}')"
relay domain_events_log
check "an id by hand is not lost" is "$(jq -r .topic got.ndjson | sort | paste -sd' ')" "by hand far"
sql "DELETE FROM domain_events WHERE event_no IN (2, 4000000)"
sql "UPDATE domain_events SET data = '{\"n\": 0}'"
relay domain_events_log
check "what its owner changes is not delivered again" got .topic ""

# ---- operators, subscriptions, consumers ----

as app "INSERT INTO domain_events(type, data) VALUES ('a', '{}'), ('b', '{}')"
w discard "$url#domain_events_log" "$(sql "SELECT event_no FROM domain_events WHERE type = 'a'")" --yes
expect "a message is discarded" 0
relay domain_events_log
check "and not delivered" got .topic b
check "its row is there" answers "SELECT count(*) FROM domain_events WHERE type = 'a'" 1
w create "$url#domain_events_log/audit" --from now --topics 'audit.*'
as app "INSERT INTO domain_events(type, data) VALUES ('audit.x', '{\"n\": 1}')"
relay domain_events_log
check "one subscription is not all" answers "SELECT published_at IS NULL FROM domain_events WHERE type = 'audit.x'" t
check "consumers read it" answers "SELECT topic, payload FROM wherry_consume('audit', 10, 'domain_events_log')" 'audit.x|{"n": 1}'
relay domain_events_log
check "when all have it, it is published" answers "SELECT published_at IS NULL FROM domain_events WHERE type = 'audit.x'" f
w drop "$url#domain_events_log/audit" --yes
w enqueue "$url#domain_events_log" --topic x '{}'
expect "its owner writes it" 1 "err:which alone writes its messages"
sql "SELECT wherry_enqueue('x', '{}', outbox => 'domain_events_log')" 2>said
check "also in SQL" grep -q 'which alone writes its messages' said
w create "$url#domain_events_log" --grant relay=relay
as app "INSERT INTO domain_events(type, data) VALUES ('role', '{}')"
w relay "postgres://relay@/postgres?host=$folder#domain_events_log" null: --until-empty
expect "a relay needs rights on the view alone" 0 "err:1 delivered"
check "and writes what is done all the same" answers "SELECT published_at IS NULL FROM domain_events WHERE type = 'role'" f
as relay "UPDATE domain_events SET data = '{}'" 2>said
check "it may not write the table" grep -q "permission denied" said
w tables "$url"
expect "it is among the tables" 0 "out:domain_events_log"
w drop "$url#domain_events_log" --yes
expect "it is dropped" 0 "out:has its rows"
check "and the table is as it was" is "$(schema domain_events)" "$before"
check "nothing of it is left" answers "SELECT count(*) FROM pg_class WHERE relname ~ '^(wherry|domain_events_log)'" 0

# ---- other tables ----

sql "CREATE TABLE mails(id serial PRIMARY KEY, recipient text, body text, sent boolean NOT NULL DEFAULT false, created timestamp DEFAULT now());
INSERT INTO mails(recipient, body) VALUES ('a', 'eins'), ('b', NULL), (NULL, 'drei')"
w adopt "$url#mails"
expect "a topic that no column has is asked for" 2 "err:--topic =TEXT"
w adopt "$url#mails" --topic =mails --key recipient --yes
relay mails_log
check "the same topic in each message" got '[.topic, .key, .body] | map(tostring) | join("/")' 'mails/a/eins mails/b/ mails/null/drei'
check "a flag is set" answers "SELECT count(*) FROM mails WHERE sent" 3
w create "$url#mails_log/c"
check "ids of four bytes are consumed" answers "SELECT string_agg(id::text, ' ' ORDER BY id) FROM wherry_consume('c', 10, 'mails_log')" "1 2 3"
sql "CREATE TABLE keyed(id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type varchar(32), aggregate_id uuid, event_type text,
	payload json, status text NOT NULL DEFAULT 'NEW', created_at timestamptz DEFAULT now());
INSERT INTO keyed(aggregate_type, aggregate_id, event_type, payload) SELECT 'order', gen_random_uuid(), 't' || n, '{}' FROM generate_series(1, 3) AS n"
w adopt "$url#keyed" --done "status = 'SENT'" --yes
expect "a table without a number gets one" 0
relay keyed_log
check "in the order of its rows" got .topic "t1 t2 t3"
check "a state is set" answers "SELECT count(*) FROM keyed WHERE status = 'SENT'" 3
sql "CREATE TABLE gone(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text, payload bytea, created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO gone(type, payload) VALUES ('old', '\x00ff')"
sql "UPDATE gone SET created_at = now() - interval '1 hour'"
w adopt "$url#gone" --done delete --yes
sql "INSERT INTO gone(type, payload) VALUES ('new', 'x')"
relay gone_log --set outbox.retention=10m
check "bytes are delivered" got "[.body_base64, .body] | map(tostring) | join(\"/\")" "AP8=/null null/x"
check "what is older than the retention is deleted" answers "SELECT string_agg(type, ' ') FROM gone" new
sql "CREATE TABLE parted(id bigint, at date, type text, data json, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
INSERT INTO parted VALUES (1, '2026-01-01', 't', '{}')"
w adopt "$url#parted" --id id
expect "an id that is unique in a partition alone is refused" 2 "err:unique"
sql "CREATE SCHEMA \"Shop\"; CREATE TABLE \"Shop\".\"Events\"(\"Id\" bigserial PRIMARY KEY, \"Type\" text, \"Data\" json, \"O'K\" text);
INSERT INTO \"Shop\".\"Events\"(\"Type\", \"Data\", \"O'K\") VALUES ('x', '{}', 'k')"
w adopt "$url#Shop.Events" --key "O'K" --where "\"Type\" <> 'secret'" --body "(json_build_object('id', \"Id\"))" --yes
expect "names with capitals, in another schema" 0
sql "INSERT INTO \"Shop\".\"Events\"(\"Type\") VALUES ('secret'), ('y')"
relay Shop.Events_log
check "an expression and a condition" got '[.topic, .key, .body.id] | map(tostring) | join("/")' "x/k/1 y/null/3"

sql "CREATE TABLE copied(id bigserial PRIMARY KEY, topic text, key text, payload jsonb, event_id uuid, published_at timestamptz)"
w adopt "$url#copied" --yes
exec 5> >(exec psql -X -q "$url" >/dev/null)
echo "BEGIN; INSERT INTO copied(topic, payload, wherry_tx) VALUES ('null', '{}', NULL);" >&5
until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" 1
sql "INSERT INTO copied(topic, payload) VALUES ('first', '{}')"
relay copied_log
echo "COMMIT; SELECT 1;" >&5
exec 5>&-
until_true 20 answers "SELECT count(*) FROM copied WHERE topic = 'null'" 1
sql "CREATE TABLE stage(LIKE copied INCLUDING DEFAULTS); INSERT INTO stage(topic, payload) VALUES ('staged', '{}')"
sql "INSERT INTO copied(topic, payload) VALUES ('second', '{}')"
relay copied_log
check "a row that names no transaction is not lost" got '"\(.topic)/\(.message_id)"' "null/1 second/4"
sql "INSERT INTO copied SELECT * FROM stage"
relay copied_log
check "nor one that names another one" got .topic staged
sql "ALTER TABLE copied RENAME published_at TO sent_at; INSERT INTO copied(topic, payload) VALUES ('unmarked', '{}')"
relay copied_log
expect "a row that cannot be marked is delivered once" 0 "err:event=not-marked" "err:1 delivered"
relay copied_log
expect "and not again" 0 "err:0 delivered"
w adopt "$url#copied" --done sent_at --yes
relay copied_log
check "adopted again, it is marked" answers "SELECT count(*) FROM copied WHERE sent_at IS NULL" 0
w adopt "$url#copied" --topic "(nocol || 'x')"
expect "an expression that fails is seen before" 1 "err:these expressions cannot be read"

w create "$url#taken_log"
sql "SELECT wherry_enqueue('t', '{}', outbox => 'taken_log'); CREATE TABLE taken(id bigserial PRIMARY KEY, type text, data json)" >/dev/null
w adopt "$url#taken" --yes
expect "another outbox keeps its name" 2 "err:choose another name"
relay taken_log
check "and its position and messages" got .topic t
check "the table is as it was" answers "SELECT count(*) FROM pg_attribute WHERE attrelid = 'taken'::regclass AND attname LIKE 'wherry%'" 0
w adopt "$url#taken" --done "data = data || '{}', type = 'x'"
expect "a mark that depends on itself is refused" 2 "err:cannot depend on the column"
w adopt "$url#taken" --as taken_2 --done "type = 'x', data = nothing()"
expect "so is one that the server does not take" 1 "err:--done"
sql "CREATE TABLE owned(id bigserial PRIMARY KEY, type text, data json, meta text, who text, sent_at timestamptz); ALTER TABLE owned OWNER TO app;
	CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.who := current_user; RETURN new; END';
	CREATE TRIGGER spy BEFORE UPDATE ON owned FOR EACH ROW EXECUTE FUNCTION spy();
	INSERT INTO owned(type, data, meta) VALUES ('a', '{}', 'no json'), ('b', '{}', '{\"x\": 1}')"
w adopt "$url#owned" --where "type <> 'c'" --yes
w create "$url#owned_log" --grant relay=relay --grant other=operator
sql "INSERT INTO owned(type, data) VALUES ('c', '{}')"
rm -f got.ndjson
w relay "postgres://relay@/postgres?host=$folder#owned_log" file:got.ndjson --until-empty
check "headers that are no JSON are left out" got '"\(.topic)/\(.headers.x)"' "a/null b/1"
check "marking has the rights of the table's owner" answers "SELECT DISTINCT who FROM owned WHERE sent_at IS NOT NULL" app
as relay "SELECT owned_log_delivered(ARRAY[3])" >/dev/null
check "and only rows of the outbox" answers "SELECT sent_at IS NULL FROM owned WHERE type = 'c'" t
as other "INSERT INTO owned_log(id, tx) VALUES (50, '1')" 2>/dev/null
check "an operator adds no row to the table" answers "SELECT count(*) FROM owned" 3
exec 5> >(exec psql -X -q "$url" >/dev/null)
sql "INSERT INTO owned(type, data) VALUES ('d', '{}')"
relay owned_log
sql "UPDATE owned SET sent_at = NULL WHERE type IN ('a', 'd')"
echo "BEGIN; SELECT * FROM owned WHERE type = 'a' FOR UPDATE;" >&5
until_true 20 answers "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'" 1
relay owned_log
check "a row that its owner has locked holds up no other" answers "SELECT string_agg(type, ' ' ORDER BY id) FROM owned WHERE sent_at IS NULL" "a c"
exec 5>&-

# ---- tables of known programs ----

known() { # NAME COLUMNS: it is recognised and what one row has is delivered
	sql "CREATE TABLE \"$1\"($2)"
	w adopt "$url#$1"
	expect "$1 is known" 0 "out:it looks like"
}
known OutboxMessage '"SequenceNumber" bigserial PRIMARY KEY, "EnqueueTime" timestamptz, "SentTime" timestamptz NOT NULL, "Headers" text,
	"Properties" text, "InboxMessageId" uuid, "InboxConsumerId" uuid, "OutboxId" uuid, "MessageId" uuid NOT NULL,
	"ContentType" varchar(256) NOT NULL, "MessageType" text NOT NULL, "Body" text NOT NULL, "ConversationId" uuid,
	"CorrelationId" uuid, "InitiatorId" uuid, "RequestId" uuid, "SourceAddress" varchar(256), "DestinationAddress" varchar(256),
	"ResponseAddress" varchar(256), "FaultAddress" varchar(256), "ExpirationTime" timestamptz'
sql "INSERT INTO \"OutboxMessage\"(\"SentTime\", \"Headers\", \"MessageId\", \"ContentType\", \"MessageType\", \"Body\")
	VALUES (now(), '{\"a\":\"b\"}', gen_random_uuid(), 'application/json', 'urn:message:Shop:OrderMade', '{\"n\":1}')"
w adopt "$url#OutboxMessage" --yes
relay OutboxMessage_log
check "its messages are delivered" got '[.topic, .headers.a, .body.n] | map(tostring) | join("/")' "urn:message:Shop:OrderMade/b/1"
known published '"Id" bigint PRIMARY KEY, "Version" varchar(20) NOT NULL, "Name" varchar(200) NOT NULL, "Content" text, "Retries" integer NOT NULL,
	"Added" timestamp NOT NULL, "ExpiresAt" timestamp, "StatusName" varchar(50) NOT NULL'
sql "INSERT INTO published VALUES (7000000000000000001, 'v1', 'order.made', '{\"Value\":{}}', 0, now(), NULL, 'Scheduled'),
	(6000000000000000001, 'v1', 'order.old', '{}', 0, now(), now(), 'Succeeded')"
w adopt "$url#published" --yes
relay published_log
check "only what was not sent" got .topic order.made
check "and then it was" answers "SELECT count(*) FROM published WHERE \"StatusName\" = 'Succeeded'" 2
sql "INSERT INTO published VALUES (5, 'v1', 'lower', '{}', 0, now(), NULL, 'Scheduled')"
relay published_log
check "an id that does not grow is read" got .topic lower
w create "$url#ferry" --layout eventferry
sql "INSERT INTO ferry(topic, aggregate_type, aggregate_id, key, payload, headers, status, processed_at) VALUES
	('order.old', 'order', '1', 'k', '{}', '{}', 2, now()), ('order.made', 'order', '7', 'k', '{\"n\":1}', '{\"a\":\"b\"}', 0, NULL)"
w adopt "$url#ferry"
expect "eventferry's table is known" 0 "out:it looks like the table of eventferry" "out:stop eventferry's relays first"
w adopt "$url#ferry" --yes
relay ferry_log
check "what its relays have not delivered is delivered" got '[.topic, .key, .headers.a, .body.n] | map(tostring) | join("/")' "order.made/7/b/1"
check "and done as they say it" answers "SELECT count(*) FROM ferry WHERE status = 2 AND processed_at IS NOT NULL" 2
known wolverine_outgoing_envelopes 'id uuid PRIMARY KEY, owner_id integer NOT NULL, destination varchar NOT NULL, deliver_by timestamptz,
	body bytea NOT NULL, attempts integer DEFAULT 0, message_type varchar NOT NULL'
known event_publication 'id uuid PRIMARY KEY, listener_id text NOT NULL, event_type text NOT NULL, serialized_event text NOT NULL,
	publication_date timestamptz NOT NULL, completion_date timestamptz'
sql "INSERT INTO event_publication VALUES (gen_random_uuid(), 'kafka', 'shop.Made', '{}', now(), NULL), (gen_random_uuid(), 'mail', 'shop.Made', '{}', now(), NULL)"
w adopt "$url#event_publication" --where "listener_id = 'kafka'" --yes
relay event_publication_log
check "one listener's" got .topic shop.Made
check "are completed" answers "SELECT listener_id FROM event_publication WHERE completion_date IS NOT NULL" kafka
w drop "$url#event_publication_log" --yes
sql "DROP TABLE event_publication"
known event_publication 'id uuid NOT NULL, listener_id text NOT NULL, event_type text NOT NULL, serialized_event text NOT NULL,
	publication_date timestamptz NOT NULL, completion_date timestamptz, status text, completion_attempts int,
	last_resubmission_date timestamptz, PRIMARY KEY (id)'
sql "INSERT INTO event_publication VALUES (gen_random_uuid(), 'kafka', 'shop.Made', '{}', now(), NULL, 'PUBLISHED', 1), (gen_random_uuid(), 'mail', 'shop.Made', '{}', now(), NULL, 'PUBLISHED', 1)"
w adopt "$url#event_publication" --where "listener_id = 'kafka'" --yes
relay event_publication_log
check "those of version 2 have a status, too" answers "SELECT string_agg(concat(listener_id, status, completion_date IS NOT NULL), ' ' ORDER BY listener_id) FROM event_publication" \
	"kafkaCOMPLETEDt mailPUBLISHEDf"
known outboxevent 'id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb'
known transactional 'id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL, message_type text NOT NULL, segment text,
	concurrency text NOT NULL DEFAULT $$sequential$$, payload jsonb NOT NULL, metadata jsonb, locked_until timestamptz NOT NULL DEFAULT to_timestamp(0),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(), processed_at timestamptz, abandoned_at timestamptz,
	started_attempts smallint NOT NULL DEFAULT 0, finished_attempts smallint NOT NULL DEFAULT 0'

# Tables as the migrations of libraries make them, which are not known by name: watermill-sql's, and django-outbox-pattern's.
sql "CREATE TABLE watermill_orders(\"offset\" bigserial, uuid varchar(36) NOT NULL, created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
	payload json DEFAULT NULL, metadata json DEFAULT NULL, transaction_id xid8 NOT NULL, PRIMARY KEY (transaction_id, \"offset\"))"
w adopt "$url#watermill_orders" --topic =orders --key "(metadata->>'key')" --yes
sql "INSERT INTO watermill_orders(uuid, payload, metadata, transaction_id) VALUES ('u1', '{\"n\": 1}', '{\"key\": \"k\"}', pg_current_xact_id()), ('u2', NULL, NULL, pg_current_xact_id())"
relay watermill_orders_log
check "watermill's table is relayed" got '[.message_id, .topic, .key, .headers.key, (.body | tostring)] | map(tostring) | join("/")' \
	'u1/orders/k/k/{"n":1} u2/orders/null/null/null'
sql "CREATE TABLE outbox_published(id uuid PRIMARY KEY, version varchar(100), destination varchar(255) NOT NULL, body jsonb NOT NULL,
	added timestamptz NOT NULL, expires_at timestamptz NOT NULL, retry integer NOT NULL CHECK (retry >= 0), status integer NOT NULL, headers jsonb NOT NULL)"
w adopt "$url#outbox_published" --created-at added --done "status = 2" --yes
sql "INSERT INTO outbox_published VALUES (gen_random_uuid(), NULL, '/topic/a', '{\"n\": 1}', now(), now(), 0, 1, '{\"h\": \"x\"}')"
relay outbox_published_log
check "so is that of django-outbox-pattern" got '[.topic, .body.n, .headers.h] | map(tostring) | join("/")' "/topic/a/1/x"
check "and its status set" answers "SELECT status FROM outbox_published" 2

# ---- a table that is not the same any more ----

sql "CREATE TABLE fresh(id bigserial PRIMARY KEY, type text, data json)"
w adopt "$url#fresh" --yes
sql "INSERT INTO fresh(type, data) SELECT 'a' || n, '{}' FROM generate_series(1, 3) AS n"
relay fresh_log
sql "TRUNCATE fresh RESTART IDENTITY; INSERT INTO fresh(type, data) SELECT 'b' || n, '{}' FROM generate_series(1, 3) AS n"
relay fresh_log
check "ids that begin again after TRUNCATE are new" got .topic "b1 b2 b3"
sql "DROP TABLE fresh CASCADE; CREATE TABLE fresh(id bigserial PRIMARY KEY, type text, data json);
	INSERT INTO fresh(type, data) SELECT 'c' || n, '{}' FROM generate_series(1, 3) AS n"
relay fresh_log
expect "a table that was dropped is missed" 1 "err:fresh_log"
w adopt "$url#fresh" --yes
relay fresh_log
check "its successor is read from its start" got .topic "c1 c2 c3"
sql "ALTER TABLE fresh DROP COLUMN data" 2>said
check "a column that is read is not dropped by mistake" grep -q "depend on it" said
w adopt "$url#fresh" --body "(data::text)" --yes
expect "another type of the body needs another outbox" 2 "err:drop it, and adopt the table again"
sql "DROP INDEX fresh_wherry_tx"
w doctor "$url#fresh_log"
expect "the doctor misses its index" 1 "out:no index that begins with its column wherry_tx"
sql "DROP TRIGGER fresh_log_wake ON fresh"
w doctor "$url#fresh_log"
expect "and its trigger" 1 "out:fresh has no trigger"
w adopt "$url#fresh" --yes
w doctor "$url#fresh_log"
[[ $out != *wherry_tx* && $out != *"no trigger"* ]]
result $? "adopting again repairs both" "$out"
sql "INSERT INTO fresh(type, data) VALUES ('d', '{}')"
relay fresh_log
check "and goes on where it was" got .topic d
sql "INSERT INTO fresh(type, data) VALUES ('e', '{}')"
pg_dump -t 'fresh*' -t 'wherry*' "$url" >dump.sql
sql "CREATE DATABASE copy"
for _ in $(seq 50); do sql "SELECT pg_current_xact_id()" >/dev/null; done
copy="postgres://wherry@/copy?host=$folder"
psql -X -q "$copy" -c "CREATE FUNCTION wherry_wake() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'" >/dev/null
psql -X -q "$copy" -f dump.sql >restored 2>&1
w create "$copy#fresh_log"
w relay "$copy#fresh_log" file:got2.ndjson --until-empty
check "a restored table goes on, too" is "$(jq -r .topic got2.ndjson | paste -sd' ')" e

# ---- what is refused ----

sql "CREATE TABLE refused(id bigint, code text UNIQUE NOT NULL, type text, data json, shape point); CREATE VIEW seen AS SELECT 1 AS id;
	CREATE TABLE foreigner(id bigserial PRIMARY KEY, type text, data json); ALTER TABLE foreigner OWNER TO other"
refused() { # WHAT TEXT [OPTION...]
	w adopt "$url#${table-refused}" "${@:3}" --yes
	expect "$1" 2 "err:$2"
}
refused "a column that is not there" "no such column" --key nobody
refused "an id that is not unique" "unique" --id id
refused "an id that is a text" "an id is an integer" --id code
refused "a body of a strange type" "no such column" --body shape2
refused "a time that is not one" "neither a time nor a boolean" --done code
refused "a done that is not a column" "no column" --done "nobody = 1"
refused "undone, where rows do not say it" "--from undone" --from undone
refused "the name of the table for the outbox" "needs another one" --as refused
refused "another schema" "is in the schema of its table" --as shop.refused_log
table=seen refused "a view" "is not a table"
w adopt "$url#nowhere"
expect "no table" 1 "err:there is no table 'nowhere'"
w adopt "postgres://app@/postgres?host=$folder#foreigner" --yes
expect "a table of somebody else" 1 "err:belongs to other"
w create "$url#box" --layout log
w adopt "$url#box"
expect "an outbox of Wherry's own" 2 "err:relay it as it is"
w create "$url#new" --layout adopted
expect "the layout is not created" 2 "err:wherry adopt"
check "nothing was changed" answers "SELECT count(*) FROM pg_class WHERE relname LIKE 'refused\_%' AND relname <> 'refused_code_key'" 0

finish
