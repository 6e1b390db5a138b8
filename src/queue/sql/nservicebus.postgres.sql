-- layout: name=nservicebus names=qualified payloads=bytea fields=headers wakes=no columns=id,expires,headers,body,seq,!state
-- unused: correlation_id reply_to topic
--
-- The queues of NServiceBus on PostgreSQL, as its transport creates them: "NAME" with the messages
-- that are ready, "NAME.Delayed" with those that are delayed, and "SubscriptionRouting".  Nothing
-- is added to these tables, and NServiceBus endpoints may work on them at the same time.
--
-- These tables have no columns for a lease.  Receiving in a transaction deletes the row, as NServiceBus
-- does.  Receiving under a lease moves the row to Wherry's own table NAME_received: state 1 leased,
-- 3 waits for another attempt, 4 dead; available_at has the meaning of the native layout.  So only
-- Wherry's receivers see a message that is leased or has failed.
--
-- Receivers take due messages from "NAME.Delayed" themselves, so no process has to move them.  An
-- endpoint of NServiceBus that shares the tables may move them too.
--
-- The id of a message in NAME is its seq; that of a delayed one is 2^62 plus the first 62 bits of its uuid.
-- Times without a zone are UTC.  "NAME.Delayed".due is a point in time, as NServiceBus means it in
-- sessions whose time zone is UTC.
--
-- Statements up to "dead-letter" run in transactions of the application, with its search path:
-- their functions and operators are qualified (receiving_is_safe_though_pg_catalog_comes_last).

-- part: now
pg_catalog.statement_timestamp()

-- part: until
({now} OPERATOR(pg_catalog.+) (least(:lasts::bigint, 3153600000000)::double precision
  OPERATOR(pg_catalog.*) interval '1 millisecond'))

-- part: after_delay
({now} OPERATOR(pg_catalog.+) (least(:delay::bigint, 3153600000000)::double precision
  OPERATOR(pg_catalog.*) interval '1 millisecond'))

-- part: ids
pg_catalog.translate(:ids::pg_catalog.text, '[]', '{}')::bigint[]

-- part: timed
state OPERATOR(pg_catalog.=) ANY (ARRAY[1, 3])

-- part: number
-- Id of a delayed message.
(((('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.replace({.}id::pg_catalog.text, '-', ''), 1, 16))::bit(64)::bigint
   OPERATOR(pg_catalog.>>) 2) OPERATOR(pg_catalog.&) 4611686018427387903)
 OPERATOR(pg_catalog.|) 4611686018427387904)

-- part: sent_at
-- Time when a message was sent, from its headers; NULL: they have no time, or a malformed one.
(CASE WHEN {.}headers OPERATOR(pg_catalog.~) '"NServiceBus\.TimeSent":"(19[7-9]\d|2\d\d\d)-(0[1-9]|1[0-2])-([0-2]\d|3[01]) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d:\d+ Z"'
  THEN (((pg_catalog.substring({.}headers, '"NServiceBus\.TimeSent":"(\d+-\d+)') OPERATOR(pg_catalog.||) '-01')::timestamp
         OPERATOR(pg_catalog.+) ((pg_catalog.substring({.}headers, '"NServiceBus\.TimeSent":"\d+-\d+-(\d+)')::double precision
           OPERATOR(pg_catalog.-) 1::double precision) OPERATOR(pg_catalog.*) interval '1 day')
         OPERATOR(pg_catalog.+) pg_catalog.substring({.}headers, '"NServiceBus\.TimeSent":"\S+ (\d+:\d+:\d+)')::interval)
        AT TIME ZONE 'UTC') END)

-- part: expiry
-- Time when a row of the queue expires, between 1970 and 10000; NULL: never.
(CASE WHEN {.}expires OPERATOR(pg_catalog.<) '10000-01-01'::timestamp
      THEN greatest({.}expires, '1970-01-01'::timestamp) AT TIME ZONE 'UTC' END)

-- part: due_at
-- Time when a delayed row is due, cut to these years: a row that is never due waits until 10000.
greatest(least({.}due, '10000-01-01 00:00:00+00'::pg_catalog.timestamptz), '1970-01-01 00:00:00+00'::pg_catalog.timestamptz)

-- part: available
-- Time when a received message is due again, cut to these years.
greatest(least({.}available_at, '10000-01-01 00:00:00+00'::pg_catalog.timestamptz), '1970-01-01 00:00:00+00'::pg_catalog.timestamptz)

-- part: is_there
(SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute
 WHERE attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({'table})::pg_catalog.oid AND NOT attisdropped
   AND attname OPERATOR(pg_catalog.=) ANY (ARRAY['id', 'expires', 'headers', 'body', 'seq']::pg_catalog.name[]))

-- name: migrate-lock
-- If two programs migrate at the same time, the second waits and then finds the work done.
SELECT pg_advisory_xact_lock(7810779305);

-- name: owners
-- Wherry's table of the queue, if it belongs to another owner.
SELECT 'table ' || c.relname::pg_catalog.text, c.relowner::regrole::pg_catalog.text
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_roles AS me ON me.rolname = current_user
WHERE c.oid = to_regclass({'table_received})::pg_catalog.oid AND c.relowner <> me.oid
  AND NOT CASE WHEN me.rolsuper
    THEN pg_has_role(c.relowner, n.nspowner, 'MEMBER')
         OR (SELECT rolsuper FROM pg_roles WHERE oid = c.relowner)
    ELSE pg_has_role(c.relowner, 'USAGE') END;

-- part: make_delayed
CREATE TABLE IF NOT EXISTS {table.Delayed}(
  Id uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
  Headers text NOT NULL,
  Body bytea,
  Due timestamptz NOT NULL
) WITH (fillfactor = 100);

-- part: make_due
CREATE INDEX IF NOT EXISTS {bare.Delayed_Due} ON {table.Delayed}(Due);

-- part: make_subscriptions
CREATE TABLE IF NOT EXISTS {schema.}"SubscriptionRouting"(
  QueueAddress varchar(200) NOT NULL,
  Endpoint varchar(200) NOT NULL,
  Topic varchar(200) NOT NULL,
  PRIMARY KEY (Endpoint, Topic)
) WITH (fillfactor = 100);

-- part: make_received
CREATE TABLE IF NOT EXISTS {table_received}(
  id           bigint NOT NULL,
  row_id       uuid NOT NULL,
  state        smallint NOT NULL CHECK (state = 1 OR state = 3 OR state = 4),
  attempts     integer NOT NULL CHECK (attempts BETWEEN 0 AND 1000000000),
  max_attempts integer,           -- it dies after so many; NULL: the receiver says how many
  available_at timestamptz CHECK (state = 4 OR available_at IS NOT NULL),
  expires_at   timestamptz,
  lease_token  text CHECK (state <> 1 OR lease_token IS NOT NULL),
  created_at   timestamptz,
  last_error   text,
  headers      text NOT NULL,
  body         bytea,
  PRIMARY KEY (id, row_id)   -- a sequence that was set back gives out an id again
) WITH (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 10000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 2000
);

-- part: make_timed
CREATE INDEX IF NOT EXISTS {bare_received_timed} ON {table_received}(available_at, id) WHERE {timed};

-- part: make_dead
CREATE INDEX IF NOT EXISTS {bare_received_dead} ON {table_received}(id) WHERE state = 4;

-- include: postgres.citus.sql

-- name: migrate-1
-- The column seq is a bigint: an int4 would end the queue at its 2,147,483,647th message.
{undistributed}
CREATE TABLE IF NOT EXISTS {table}(
  Id uuid NOT NULL PRIMARY KEY,
  Expires timestamp,
  Headers text NOT NULL,
  Body bytea,
  Seq bigserial NOT NULL UNIQUE
);
{make_delayed}
{make_due}
{make_subscriptions}
{make_received}
{make_timed}
{make_dead}

-- name: schema-version
SELECT 1, 100 WHERE {is_there} OPERATOR(pg_catalog.=) 5;

-- name: columns
SELECT attname::pg_catalog.text FROM pg_attribute
WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::pg_catalog.text))::pg_catalog.oid AND attnum > 0 AND NOT attisdropped;

-- name: indexes-missing
SELECT count(*)
FROM unnest(ARRAY[{'table.Delayed}, {'table_received}, {'table_received_timed}, {'table_received_dead},
                  {'schema.} || '"SubscriptionRouting"']) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: payload-type
SELECT atttypid::pg_catalog.regtype::pg_catalog.text FROM pg_attribute
WHERE attrelid = to_regclass({'table})::pg_catalog.oid AND attname = 'body' AND NOT attisdropped;

-- part: stamped
-- Headers, with the time of the database's clock added as the time of sending unless they have one.
CASE WHEN pg_catalog.strpos({.}headers, '"NServiceBus.TimeSent":') OPERATOR(pg_catalog.>) 0 THEN {.}headers
  ELSE pg_catalog.concat(pg_catalog.left({.}headers, -1), CASE WHEN {.}headers OPERATOR(pg_catalog.=) '{}' THEN '' ELSE ',' END,
    '"NServiceBus.TimeSent":"', pg_catalog.to_char({now} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS:US'), ' Z"}') END

-- part: expires_after
-- Time :ttl milliseconds from now; NULL: never.
CASE WHEN {.}ttl OPERATOR(pg_catalog.>) 0
     THEN ({now} AT TIME ZONE 'UTC') OPERATOR(pg_catalog.+)
          (least({.}ttl, 3153600000000)::double precision OPERATOR(pg_catalog.*) interval '1 millisecond') END

-- name: send
-- unused: message_id delay
INSERT INTO {table}(id, expires, headers, body)
SELECT pg_catalog.gen_random_uuid(), {expires_after:m}, {stamped:m}, m.body
FROM (SELECT :headers::pg_catalog.text AS headers, :body::pg_catalog.bytea AS body, :ttl::bigint AS ttl) AS m
RETURNING seq::bigint;

-- name: send-many
-- unused: message_id delay
INSERT INTO {table}(id, expires, headers, body)
SELECT pg_catalog.gen_random_uuid(), {expires_after:m}, {stamped:m}, m.body::pg_catalog.bytea
FROM ROWS FROM (pg_catalog.unnest(:headers::pg_catalog.text[]), pg_catalog.unnest(:body::pg_catalog.text[]),
  pg_catalog.unnest(:ttl::bigint[])) WITH ORDINALITY AS m(headers, body, ttl, nth)
ORDER BY m.nth
RETURNING seq::bigint;

-- name: send-delayed
-- The number identifies the row until a receiver takes it or an endpoint moves it.
INSERT INTO {table.Delayed}(id, headers, body, due)
SELECT pg_catalog.gen_random_uuid(), {stamped:m}, m.body, {after_delay}
FROM (SELECT :headers::pg_catalog.text AS headers, :body::pg_catalog.bytea AS body) AS m
RETURNING {number};

-- part: bits
-- Bits of a delayed message's number, as the first 16 digits of its uuid.
pg_catalog.lpad(pg_catalog.to_hex((:id::bigint OPERATOR(pg_catalog.&) 4611686018427387903) OPERATOR(pg_catalog.<<) 2), 16, '0')

-- part: by_bits
:id::bigint OPERATOR(pg_catalog.>=) 4611686018427387904
  AND id OPERATOR(pg_catalog.>=) ({bits} OPERATOR(pg_catalog.||) '0000000000000000')::pg_catalog.uuid
  AND id OPERATOR(pg_catalog.<=) (pg_catalog.concat(pg_catalog.left({bits}, 15),
    pg_catalog.to_hex((:id::bigint OPERATOR(pg_catalog.&) 3) OPERATOR(pg_catalog.<<) 2 OPERATOR(pg_catalog.|) 3::bigint),
    'ffffffffffffffff'))::pg_catalog.uuid

-- name: cancel
-- A delayed message keeps its uuid when an endpoint of NServiceBus moves it.
WITH ready AS (
  DELETE FROM {table} WHERE seq OPERATOR(pg_catalog.=) :id::bigint OR ({by_bits}) RETURNING 1),
later AS (
  DELETE FROM {table.Delayed} WHERE {by_bits} RETURNING 1)
SELECT (SELECT pg_catalog.count(*) FROM ready) OPERATOR(pg_catalog.+) (SELECT pg_catalog.count(*) FROM later);

-- part: picked
-- Rows that a receive takes.  With :full: due rows that were received before (1: first, 2: last), delayed rows that are
-- due, and ready rows of any number; else ready rows above a number.  Rows that other transactions have locked are skipped.
WITH due_first AS MATERIALIZED (
  SELECT id, row_id FROM {table_received}
  WHERE :full::bigint OPERATOR(pg_catalog.=) 1 AND {timed}
    AND available_at OPERATOR(pg_catalog.<=) {now}
  ORDER BY available_at, id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
later AS MATERIALIZED (
  SELECT id FROM {table.Delayed}
  WHERE :full::bigint OPERATOR(pg_catalog.<>) 0 AND due OPERATOR(pg_catalog.<=) {now}
  ORDER BY due LIMIT :limit::bigint OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM due_first)
  FOR UPDATE SKIP LOCKED),
ready AS MATERIALIZED (
  SELECT id FROM {table}
  WHERE seq OPERATOR(pg_catalog.>=) CASE WHEN :full::bigint OPERATOR(pg_catalog.<>) 0 THEN -9223372036854775808
    WHEN :after::bigint OPERATOR(pg_catalog.<) 9223372036854775807 THEN :after::bigint OPERATOR(pg_catalog.+) 1
    ELSE :after::bigint END
  ORDER BY seq LIMIT :limit::bigint OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM due_first)
    OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM later)
  FOR UPDATE SKIP LOCKED),
due_last AS MATERIALIZED (
  SELECT id, row_id FROM {table_received}
  WHERE :full::bigint OPERATOR(pg_catalog.=) 2 AND {timed}
    AND available_at OPERATOR(pg_catalog.<=) {now}
  ORDER BY available_at, id LIMIT :limit::bigint OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM later)
    OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM ready)
  FOR UPDATE SKIP LOCKED),
due AS (SELECT id, row_id FROM due_first UNION ALL SELECT id, row_id FROM due_last),
moved AS (
  DELETE FROM {table.Delayed} WHERE id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT id FROM later))
  RETURNING id, headers, body),
gone AS (
  DELETE FROM {table} WHERE id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT id FROM ready))
  RETURNING id, {expiry} AS expires_at, headers, body, seq::bigint AS seq),
fresh AS (
  SELECT {number:m} AS id, m.id AS row_id, NULL::pg_catalog.timestamptz AS expires_at, {sent_at:m} AS created_at,
    m.headers, m.body FROM moved AS m
  UNION ALL
  SELECT g.seq, g.id, g.expires_at, {sent_at:g}, g.headers, g.body FROM gone AS g)

-- part: is_expired
(expires_at IS NOT NULL AND expires_at OPERATOR(pg_catalog.<=) {now})

-- part: shown
-- A message that was received before it expired does not expire afterwards.
id, state, attempts, created_at, available_at, expires_at, expired, row_id::pg_catalog.text, NULL::pg_catalog.text, NULL::pg_catalog.text,
  NULL::pg_catalog.text, headers, last_error, body

-- part: both
-- Rows that were received before, and new ones.
got AS (
  SELECT id, state, attempts, created_at, available_at, expires_at, 0 AS expired, row_id, headers, last_error, body FROM again
  UNION ALL
  SELECT id, state, attempts, created_at, available_at, expires_at, 0, row_id, headers, last_error, body FROM kept
  UNION ALL
  SELECT id, 0::smallint, 0, created_at, NULL, expires_at, 1, row_id, ''::pg_catalog.text, NULL, NULL FROM fresh WHERE {is_expired})
SELECT {shown}, (SELECT pg_catalog.count(*) FROM due) OPERATOR(pg_catalog.+) (SELECT pg_catalog.count(*) FROM later)
FROM got ORDER BY id

-- part: dies
-- Condition: the message has had all its attempts.  The receiver sets the number, or else the last receiver did.
coalesce(attempts OPERATOR(pg_catalog.>) 0 AND attempts OPERATOR(pg_catalog.>=)
  CASE WHEN :most::bigint OPERATOR(pg_catalog.>) 0 THEN :most::bigint ELSE max_attempts END, false)

-- part: allowed
CASE WHEN :most::bigint OPERATOR(pg_catalog.>) 0 THEN :most::bigint::integer

-- part: is_due
-- If the sequence gave a number out again, two rows have it, and another receiver may have leased one of them
-- (a_number_that_was_given_out_again_does_not_end_a_lease).
id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT id FROM due))
  AND ROW(id, row_id) OPERATOR(pg_catalog.=) ANY (SELECT id, row_id FROM due)

-- name: receive
-- Lease messages.  One statement moves them, so a message is always in one of the tables.  Expired
-- messages are deleted, and returned as expired.  A message whose number and uuid a received one has gets
-- another uuid, or it would make each receive fail.
{picked},
again AS (
  UPDATE {table_received} SET
    state = CASE WHEN {dies} THEN 4 ELSE 1 END,
    last_error = CASE WHEN state OPERATOR(pg_catalog.=) 1 THEN 'its lease expired before it was acknowledged'
                      ELSE last_error END,
    attempts = CASE WHEN {dies} THEN attempts ELSE least(greatest(attempts, 0), 999999999) OPERATOR(pg_catalog.+) 1 END,
    max_attempts = {allowed} ELSE max_attempts END,
    lease_token = CASE WHEN NOT {dies} THEN :token::pg_catalog.text END,
    available_at = CASE WHEN NOT {dies} THEN {until} END
  WHERE {is_due}
  RETURNING *),
kept AS (
  INSERT INTO {table_received}(id, row_id, state, attempts, available_at, expires_at, lease_token,
                               max_attempts, created_at, headers, body)
  SELECT id, CASE WHEN EXISTS (SELECT 1 FROM {table_received} AS r WHERE r.id OPERATOR(pg_catalog.=) fresh.id
                                 AND r.row_id OPERATOR(pg_catalog.=) fresh.row_id)
                  THEN pg_catalog.gen_random_uuid() ELSE row_id END,
    1, 1, {until}, expires_at, :token::pg_catalog.text, {allowed} END, created_at, headers, body
  FROM fresh WHERE NOT {is_expired}
  RETURNING *),
{both};

-- name: take
-- Delete messages and return them, in the open transaction or in a separate one.
{picked},
again AS (
  DELETE FROM {table_received} WHERE {is_due}
  RETURNING *),
kept AS (
  SELECT id, 0::smallint AS state, 0 AS attempts, created_at, NULL::pg_catalog.timestamptz AS available_at, expires_at, row_id,
    headers, NULL::pg_catalog.text AS last_error, body FROM fresh WHERE NOT {is_expired}),
{both};

-- name: make-dead
-- Insert a message that was deleted and cannot be handled again, as dead.  Its uuid may be another, as in "receive".
INSERT INTO {table_received}(id, row_id, state, attempts, created_at, last_error, headers, body)
VALUES (:id,
  CASE WHEN EXISTS (SELECT 1 FROM {table_received} AS r WHERE r.id OPERATOR(pg_catalog.=) :id::bigint
                      AND r.row_id OPERATOR(pg_catalog.=) :message_id::pg_catalog.text::pg_catalog.uuid)
       THEN pg_catalog.gen_random_uuid() ELSE :message_id::pg_catalog.text::pg_catalog.uuid END, 4, :attempts,
  CASE WHEN :created::bigint OPERATOR(pg_catalog.>) 0
       THEN pg_catalog.to_timestamp(:created::double precision OPERATOR(pg_catalog./) 1000.0::double precision) END,
  :error, :headers::pg_catalog.text, :body::pg_catalog.bytea);

-- part: own
id OPERATOR(pg_catalog.=) ANY ({ids}) AND lease_token OPERATOR(pg_catalog.=) :token::pg_catalog.text
  AND state OPERATOR(pg_catalog.=) 1

-- name: ack
DELETE FROM {table_received} WHERE {own};

-- part: spent
-- Condition: this was the last attempt.
coalesce(greatest(attempts OPERATOR(pg_catalog.-) :back::integer, 0) OPERATOR(pg_catalog.>=) max_attempts, false)

-- name: nack
-- A message that is given back stays in Wherry's table, which has its attempts.  After its last attempt it
-- becomes dead.
UPDATE {table_received} SET state = CASE WHEN {spent} THEN 4 ELSE 3 END,
  available_at = CASE WHEN {spent} THEN NULL
    WHEN :delay::bigint OPERATOR(pg_catalog.>) 0 THEN {after_delay} ELSE {now} END,
  attempts = greatest(attempts OPERATOR(pg_catalog.-) :back::integer, 0),
  lease_token = NULL, last_error = coalesce(:error::pg_catalog.text, last_error,
    CASE WHEN {spent} THEN 'it was given back after its last attempt' END)
WHERE {own};

-- name: extend-lease
UPDATE {table_received} SET available_at = {until} WHERE {own};

-- name: dead-letter
UPDATE {table_received} SET state = 4, lease_token = NULL, available_at = NULL, last_error = :error::pg_catalog.text
WHERE {own};

-- name: expire
-- unused: token
DELETE FROM {table} WHERE id = ANY (ARRAY(
  SELECT id FROM {table} WHERE expires <= {now} AT TIME ZONE 'UTC'
  LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- name: expire-head
-- Delete expired messages among the first rows, since no index finds the others.
DELETE FROM {table} WHERE id = ANY (ARRAY(
  SELECT id FROM {table}
  WHERE id = ANY (ARRAY(
    SELECT id FROM (SELECT id, expires FROM {table} ORDER BY seq LIMIT :limit::bigint) AS first
    WHERE expires <= {now} AT TIME ZONE 'UTC'))
  FOR UPDATE SKIP LOCKED));

-- name: peek
-- A read without locks and writes.
SELECT {shown} FROM (
  SELECT *, 0 AS expired FROM (
    SELECT seq::bigint AS id, 0 AS state, 0 AS attempts, {sent_at:t} AS created_at, NULL::pg_catalog.timestamptz AS available_at,
      {expiry:t} AS expires_at, t.id AS row_id, headers, NULL::pg_catalog.text AS last_error, body
    FROM {table} AS t WHERE seq > :after::bigint AND :states::integer & 1 = 1
    ORDER BY seq LIMIT :limit::bigint) AS ready
  UNION ALL
  SELECT id, state, attempts, created_at, available_at, expires_at, row_id, headers, last_error, body, 0
  FROM {table_received} WHERE id > :after::bigint AND (:states::integer >> state::integer) & 1 = 1
  UNION ALL
  SELECT {number:d}, 3, 0, {sent_at:d}, {due_at:d}, NULL, d.id, headers, NULL, body, 0
  FROM {table.Delayed} AS d WHERE {number:d} > :after::bigint AND (:states::integer >> 3) & 1 = 1) AS every
ORDER BY id LIMIT :limit::bigint;

-- name: show
SELECT {shown} FROM (
  SELECT seq::bigint AS id, 0 AS state, 0 AS attempts, {sent_at:t} AS created_at, NULL::pg_catalog.timestamptz AS available_at,
    {expiry:t} AS expires_at, t.id AS row_id, headers, NULL::pg_catalog.text AS last_error, body, 0 AS expired
  FROM {table} AS t WHERE seq = :id::bigint
  UNION ALL
  SELECT id, state, attempts, created_at, available_at, expires_at, row_id, headers, last_error, body, 0
  FROM {table_received} WHERE id = :id::bigint
  UNION ALL
  SELECT {number:d}, 3, 0, {sent_at:d}, {due_at:d}, NULL, d.id, headers, NULL, body, 0
  FROM {table.Delayed} AS d WHERE {number:d} = :id::bigint) AS every;

-- name: count
SELECT (SELECT count(*) FROM {table}),
       (SELECT count(*) FROM {table_received} WHERE {timed} AND state + 0 = 1),
       (SELECT count(*) FROM {table_received} WHERE {timed} AND state + 0 = 3)
     + (SELECT count(*) FROM {table.Delayed}),
       (SELECT count(*) FROM {table_received} WHERE state = 4),
       coalesce((SELECT greatest(extract(epoch FROM {now} - {sent_at:t}) * 1000.0, 0)::bigint
                 FROM (SELECT headers FROM {table} ORDER BY seq LIMIT 1) AS t), 0),
       (SELECT count(*) FROM {table} WHERE expires <= {now} AT TIME ZONE 'UTC');

-- name: estimate
SELECT pg_stat_get_live_tuples({'table}::pg_catalog.regclass::pg_catalog.oid) + pg_stat_get_live_tuples({'table_received}::pg_catalog.regclass::pg_catalog.oid)
  + pg_stat_get_live_tuples({'table.Delayed}::pg_catalog.regclass::pg_catalog.oid);

-- part: left
CASE WHEN {.}at IS NOT NULL THEN greatest(ceil(extract(epoch FROM {.}at - {now}) * 1000.0), 0)::bigint END

-- name: next-due
SELECT coalesce((SELECT 0::bigint FROM {table} ORDER BY seq LIMIT 1),
                (SELECT {left:n} FROM (
                   SELECT least((SELECT {available:r} FROM {table_received} AS r WHERE {timed} ORDER BY available_at LIMIT 1),
                                (SELECT {due_at:d} FROM {table.Delayed} AS d ORDER BY due LIMIT 1)) AS at) AS n), -1);

-- part: seq_ends
-- The sequence ends at 2^31.
EXISTS (SELECT 1 FROM pg_sequence AS q
        WHERE q.seqrelid = to_regclass(pg_get_serial_sequence({'table}, 'seq'))::pg_catalog.oid AND q.seqmax < 4294967296)

-- name: inspect
-- Faults of the tables, each with the SQL that repairs it.
SELECT concat(t.what, ' ', t.name, ' is missing'), rtrim(t.sql, chr(10))
FROM (VALUES ('the table', {'table.Delayed}, {'make_delayed}), ('the index', {'schema.} || quote_ident({name} || '.Delayed_Due'), {'make_due}),
             ('the table', {'schema.} || '"SubscriptionRouting"', {'make_subscriptions}),
             ('the table', {'table_received}, {'make_received}), ('the index', {'table_received_timed}, {'make_timed}),
             ('the index', {'table_received_dead}, {'make_dead})) AS t(what, name, sql)
WHERE to_regclass(t.name) IS NULL
UNION ALL
SELECT concat('the column ', c.name, ' of ', c.place, ' has the type ', format_type(a.atttypid, NULL), ' and not ', c.type,
              CASE WHEN c.name = 'seq' THEN ': the queue ends at message 2147483647' END),
  concat('ALTER TABLE ', c.place, ' ALTER COLUMN ', c.name, ' TYPE ', c.type, ';')
FROM (VALUES ({'table}, 'id', 'uuid'), ({'table}, 'expires', 'timestamp without time zone'), ({'table}, 'headers', 'text'),
             ({'table}, 'body', 'bytea'), ({'table}, 'seq', 'bigint'), ({'table.Delayed}, 'id', 'uuid'),
             ({'table.Delayed}, 'headers', 'text'), ({'table.Delayed}, 'body', 'bytea'),
             ({'table.Delayed}, 'due', 'timestamp with time zone')) AS c(place, name, type)
JOIN pg_attribute AS a ON a.attrelid = to_regclass(c.place)::pg_catalog.oid AND a.attname::pg_catalog.text = c.name AND NOT a.attisdropped
WHERE format_type(a.atttypid, NULL) <> c.type
UNION ALL
SELECT concat('the sequence of ', {'table}, ' ends at 2147483647'),
  concat('ALTER SEQUENCE ', pg_get_serial_sequence({'table}, 'seq'), ' AS bigint;')
WHERE {seq_ends}
UNION ALL
SELECT concat('the next seq is ', s.next, ', which is not above the last, ', s.last, ': senders fail'),
  concat('SELECT setval(', quote_literal(s.seq), ', ', s.last, ');')
FROM (SELECT pg_get_serial_sequence({'table}, 'seq') AS seq, (SELECT max(seq) FROM {table}) AS last,
        coalesce(pg_sequence_last_value(pg_get_serial_sequence({'table}, 'seq')::pg_catalog.regclass), 0) + 1 AS next) AS s
WHERE s.next <= s.last AND has_sequence_privilege(s.seq, 'SELECT, USAGE')
UNION ALL
SELECT concat('no unique index of ', {'table}, ' is on ', c.name), concat('CREATE UNIQUE INDEX ON ', {'table}, '(', c.name, ');')
FROM (VALUES ('id'), ('seq')) AS c(name)
WHERE NOT EXISTS (
  SELECT 1 FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
  WHERE x.indrelid = to_regclass({'table})::pg_catalog.oid AND x.indnatts = 1 AND x.indisunique AND x.indisvalid AND a.attname::pg_catalog.text = c.name);

-- name: retry-dead
-- Move dead messages to their old places in the queue, where they do not expire.  A message that was
-- delayed has no old place.  One whose uuid is in the queue, or of two with one uuid the second, gets another.
WITH back AS (
  DELETE FROM {table_received}
  WHERE state + 0 = 4 AND id = ANY (ARRAY(
    SELECT id FROM {table_received} WHERE state = 4 AND (:id::bigint = 0 OR id = :id::bigint)
    ORDER BY id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
  RETURNING *)
INSERT INTO {table}(id, headers, body, seq)
SELECT CASE WHEN nth_of_uuid > 1 OR EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = back.row_id)
            THEN gen_random_uuid() ELSE row_id END, headers, body,
  CASE WHEN id < 4611686018427387904 AND nth_of_id = 1
         AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.seq = back.id)
       THEN id ELSE nextval(pg_get_serial_sequence({'table}, 'seq')) END
FROM (SELECT *, row_number() OVER (PARTITION BY id) AS nth_of_id,
        row_number() OVER (PARTITION BY row_id) AS nth_of_uuid FROM back) AS back ORDER BY id;

-- name: discard
-- Delete a message from any of the tables.  A receiver that has leased it cannot acknowledge it afterwards.
WITH ready AS (DELETE FROM {table} WHERE seq = :id::bigint RETURNING 1),
received AS (DELETE FROM {table_received} WHERE id = :id::bigint RETURNING 1),
later AS (DELETE FROM {table.Delayed} AS d WHERE {number:d} = :id::bigint RETURNING 1)
SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM received) + (SELECT count(*) FROM later);

-- name: purge-states
WITH ready AS (
  DELETE FROM {table} WHERE id = ANY (ARRAY(
    SELECT id FROM {table} WHERE :states::integer & 1 = 1 ORDER BY seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
  RETURNING 1),
received AS (
  DELETE FROM {table_received} WHERE state <> 1 AND id = ANY (ARRAY(
    SELECT id FROM {table_received} WHERE state <> 1 AND (:states::integer >> state::integer) & 1 = 1
    ORDER BY id LIMIT :limit::bigint - (SELECT count(*) FROM ready) FOR UPDATE SKIP LOCKED))
  RETURNING 1),
later AS (
  DELETE FROM {table.Delayed} WHERE id = ANY (ARRAY(
    SELECT id FROM {table.Delayed} WHERE (:states::integer >> 3) & 1 = 1
    LIMIT :limit::bigint - (SELECT count(*) FROM ready) - (SELECT count(*) FROM received) FOR UPDATE SKIP LOCKED))
  RETURNING 1)
SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM received) + (SELECT count(*) FROM later);
