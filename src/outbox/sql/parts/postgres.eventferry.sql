--
-- Parts that both layouts of the table of eventferry share: its definition, and statements that do not
-- depend on which programs write to it.

-- part: eventferry_table
-- The table as the library makes it.
CREATE TABLE IF NOT EXISTS {table}(
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  message_id     uuid NOT NULL DEFAULT gen_random_uuid(),
  topic          varchar(255) NOT NULL,
  aggregate_type varchar(255) NOT NULL,
  aggregate_id   varchar(255) NOT NULL,
  key            text,
  payload        jsonb NOT NULL,
  headers        jsonb NOT NULL DEFAULT '{}'::jsonb,
  trace_id       varchar(64),
  status         smallint NOT NULL DEFAULT 0,
  attempts       integer NOT NULL DEFAULT 0,
  next_retry_at  timestamptz,
  claimed_at     timestamptz,
  created_at     timestamptz NOT NULL DEFAULT now(),
  processed_at   timestamptz,
  CONSTRAINT {uq_table_message_id} UNIQUE (message_id)
);
CREATE INDEX IF NOT EXISTS {idx_table_ready} ON {table}(id) WHERE status IN (0, 1, 3);
CREATE INDEX IF NOT EXISTS {idx_table_agg_order} ON {table}(aggregate_id, id)
  WHERE status IN (0, 1, 3);

-- part: is_eventferry
-- The columns identify this layout, if no native outbox, which has them too, has the table's name.
15 = (SELECT count(*) FROM pg_attribute
            WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid
              AND attname IN ('id', 'message_id', 'topic', 'aggregate_type', 'aggregate_id',
                'key', 'payload', 'headers', 'trace_id', 'status', 'attempts', 'claimed_at',
                'next_retry_at', 'created_at', 'processed_at') AND NOT attisdropped)
  AND NOT EXISTS (
    SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid
      AND attname = 'claim_token' AND NOT attisdropped)

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid AND attnum > 0
  AND NOT attisdropped;

-- name: enqueue
-- A message without an aggregate id gets one: its key, or else its message id, with which it waits for no
-- other message.
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, key, headers, trace_id,
                    payload)
VALUES (:message_id::uuid, :topic, :aggregate_type,
        coalesce(nullif(:aggregate_id::text, ''), :key::text, :message_id::uuid::text),
        :key::text, :headers, :trace_id, :payload)
ON CONFLICT DO NOTHING RETURNING id;

-- name: lock-key
-- The lock of wherry_enqueue() on the aggregate, which orders messages here: see native.postgres.sql.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(
  k COLLATE pg_catalog."C", {'table}::pg_catalog.regclass::pg_catalog.oid::bigint))
FROM (SELECT '=' OPERATOR(pg_catalog.||)
  CASE WHEN :aggregate_id::text OPERATOR(pg_catalog.<>) '' THEN :aggregate_id::text
       ELSE :key::text END) AS o(k)
WHERE k IS NOT NULL;

-- part: age
-- Milliseconds since a row was made; NULL if its time is infinite.
(extract(epoch FROM statement_timestamp() - CASE WHEN isfinite(created_at) THEN created_at END) * 1000.0)::bigint

-- part: year_10000
-- Limit of times.  Only a person can have written a later or infinite time, and a row that waited for it
-- would hold its aggregate back for ever (a_time_that_never_comes_holds_nothing_back).
'10000-01-01 00:00:00+00'::timestamptz

-- part: due
-- Condition: c has failed and may be tried again.
(c.status = 3 AND (c.next_retry_at IS NULL OR c.next_retry_at <= statement_timestamp()
                   OR c.next_retry_at >= {year_10000}))

-- part: texts
-- As in native.postgres.sql: what is longer than its limit is not sent, with :long = -1 no text is.
-- Numbers of few bytes may be long texts in JSON: it is converted to learn its length, but not what in
-- binary form, of which an array holds it all, is over four times the limit.
message_id::text,
CASE WHEN octet_length(topic::text) <= :long::bigint THEN topic
     ELSE left(topic::text, :long::integer + 1) END,
CASE WHEN octet_length(aggregate_type::text) <= :long::bigint THEN aggregate_type
     ELSE left(aggregate_type::text, :long::integer + 1) END,
CASE WHEN octet_length(aggregate_id::text) <= :long::bigint THEN aggregate_id
     ELSE left(aggregate_id::text, :long::integer + 1) END,
CASE WHEN octet_length(key) <= :long::bigint THEN key
     ELSE left(key, :long::integer + 1) END,
CASE WHEN :long::bigint < 0 THEN pg_catalog.to_jsonb(''::text)
     WHEN pg_catalog.pg_column_size(headers) > :long::bigint / 90
          AND pg_catalog.pg_column_size(ARRAY[headers]) > 4 * :long::bigint + 100
     THEN pg_catalog.to_jsonb(repeat('x', :long::integer + 1))
     WHEN octet_length(headers::text) <= :long::bigint THEN headers
     ELSE pg_catalog.to_jsonb(left(headers::text, :long::integer + 1)) END,
CASE WHEN octet_length(trace_id::text) <= :long::bigint THEN trace_id
     ELSE left(trace_id::text, :long::integer + 1) END,
CASE WHEN :long::bigint < 0 THEN NULL
     WHEN pg_catalog.pg_column_size(payload) > :body::bigint / 90
          AND pg_catalog.pg_column_size(ARRAY[payload]) > 4 * :body::bigint + 100 THEN NULL
     WHEN octet_length(payload::text) <= :body::bigint THEN payload END

-- part: from
-- First id behind :after.  A claim begins with the lowest possible id in :after, and then this is that id
-- (rows_with_the_lowest_and_the_highest_id_there_are_are_delivered).
least(:after::bigint, 9223372036854775806)
  + (:after::bigint > '-9223372036854775808'::bigint)::integer

-- name: open-upto
SELECT count(*) FROM (
  SELECT 1 FROM {table} WHERE status IN (0, 1, 3) AND id <= :upto::bigint LIMIT 1) AS upto;

-- name: last-open
SELECT coalesce((SELECT id FROM {table} WHERE status IN (0, 1, 3)
                 ORDER BY id DESC LIMIT 1), 0);

-- part: old_enough
processed_at <= statement_timestamp() - least(:age::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- name: purge
DELETE FROM {table} WHERE status = 2 AND id = ANY (ARRAY(
  SELECT id FROM {table} WHERE status = 2 AND {old_enough}
  LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- name: purge-count
SELECT count(*) FROM {table} WHERE status = 2 AND {old_enough};

-- name: count
SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 1),
  count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
  count(*) FILTER (WHERE status = 4)
FROM {table};

-- name: ready
SELECT count(*), coalesce(max({age}), 0)
FROM {table} AS c WHERE c.status IN (0, 1, 3) AND {due};

-- name: oldest-pending
-- As in native.postgres.sql, among the first 10,000 rows.
SELECT {age}
FROM {table} AS c
WHERE c.status IN (0, 1, 3) AND c.status = 0 AND (NOT EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE b.aggregate_id::text = c.aggregate_id::text AND b.id < c.id
    AND b.status IN (0, 1, 3) AND b.status = 3 AND b.next_retry_at > {now}
    AND b.next_retry_at < {year_10000} OFFSET 0)
  OR c.id >= coalesce((SELECT id FROM {table} WHERE status IN (0, 1, 3) AND status = 0
                       ORDER BY id LIMIT 1 OFFSET 10000), 9223372036854775807))
ORDER BY c.id LIMIT 1;
