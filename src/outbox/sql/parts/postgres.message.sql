--
-- Parts that the layouts log and adopted share: the columns of a row that relays and
-- operators read, within limits, conditions on messages, and statements that are the same on each of them.

-- include: postgres.partition.sql

-- part: payload_fits
-- Condition: the payload is within its limit.  PostgreSQL knows the length of a text without reading it.
-- An array holds its elements without compression, and binary JSON is at most four times as long as its
-- text.  Only below that it is converted, since 10 bytes of jsonb may become 131,072 digits
-- (tests/system/postgres_expands.sh).  A compressed value takes at least a 90th of its length.
CASE WHEN pg_catalog.pg_typeof(payload)::oid = 'text'::regtype::oid
     THEN octet_length(payload::text) <= :body::bigint
     WHEN pg_catalog.pg_column_size(payload) > :body::bigint / 90 AND pg_catalog.pg_column_size(ARRAY[payload])
          > CASE WHEN pg_catalog.pg_typeof(payload)::oid = 'jsonb'::regtype::oid THEN 4 ELSE 1 END
            * :body::bigint + 100 THEN false
     WHEN pg_catalog.pg_typeof(payload)::oid = 'jsonb'::regtype::oid
     THEN octet_length(payload::text) <= :body::bigint
     ELSE true END

-- part: texts
-- A value over its limit is not sent whole: of a text the beginning, one character longer than the
-- limit; of headers the same as a JSON text; of a payload nothing (a_row_that_is_too_long_dies_alone).
-- So no text within its limit is taken for a long one (ordinary_texts_are_delivered_as_they_are).
-- JSON is at most 90 times as long as its compressed form, so only large values are decompressed.  With
-- :long = -1 the only text is plain ASCII that identifies the row, and headers and payload are not
-- converted: so a relay can find the row that cannot be converted to UTF-8, or is too long as text
-- (a_row_that_the_server_cannot_send_dies_alone).
CASE WHEN octet_length(message_id) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(message_id) <= 1000 AND message_id !~ '[^ -~]'
     THEN message_id ELSE left(message_id, :long::integer + 1) END,
CASE WHEN octet_length(topic) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(topic) <= 1000 AND topic !~ '[^ -~]'
     THEN topic ELSE left(topic, :long::integer + 1) END,
CASE WHEN octet_length(aggregate_type) <= :long::bigint THEN aggregate_type
     ELSE left(aggregate_type, :long::integer + 1) END,
CASE WHEN octet_length(aggregate_id) <= :long::bigint THEN aggregate_id
     ELSE left(aggregate_id, :long::integer + 1) END,
CASE WHEN octet_length(partition_key) <= :long::bigint THEN partition_key
     ELSE left(partition_key, :long::integer + 1) END,
CASE WHEN :long::bigint < 0 THEN pg_catalog.to_json(''::text)
     WHEN pg_catalog.pg_column_size(headers) <= :long::bigint / 90 THEN headers
     WHEN octet_length(headers::text) <= :long::bigint THEN headers
     ELSE pg_catalog.to_json(left(headers::text, :long::integer + 1)) END,
CASE WHEN octet_length(trace_id) <= :long::bigint THEN trace_id
     ELSE left(trace_id, :long::integer + 1) END,
CASE WHEN :long::bigint < 0 THEN NULL
     WHEN {payload_fits} THEN payload END

-- part: quick_texts
-- The same columns if all of them may be sent: one condition is cheaper than eight.
CASE WHEN fine THEN message_id
     WHEN octet_length(message_id) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(message_id) <= 1000 AND message_id !~ '[^ -~]'
     THEN message_id ELSE left(message_id, :long::integer + 1) END,
CASE WHEN fine THEN topic
     WHEN octet_length(topic) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(topic) <= 1000 AND topic !~ '[^ -~]'
     THEN topic ELSE left(topic, :long::integer + 1) END,
CASE WHEN fine THEN aggregate_type
     WHEN octet_length(aggregate_type) <= :long::bigint THEN aggregate_type
     ELSE left(aggregate_type, :long::integer + 1) END,
CASE WHEN fine THEN aggregate_id
     WHEN octet_length(aggregate_id) <= :long::bigint THEN aggregate_id
     ELSE left(aggregate_id, :long::integer + 1) END,
CASE WHEN fine THEN partition_key
     WHEN octet_length(partition_key) <= :long::bigint THEN partition_key
     ELSE left(partition_key, :long::integer + 1) END,
CASE WHEN fine THEN headers
     WHEN :long::bigint < 0 THEN pg_catalog.to_json(''::text)
     WHEN pg_catalog.pg_column_size(headers) <= :long::bigint / 90 THEN headers
     WHEN octet_length(headers::text) <= :long::bigint THEN headers
     ELSE pg_catalog.to_json(left(headers::text, :long::integer + 1)) END,
CASE WHEN fine THEN trace_id
     WHEN octet_length(trace_id) <= :long::bigint THEN trace_id
     ELSE left(trace_id, :long::integer + 1) END

-- part: quick_payload
CASE WHEN fine THEN payload
     WHEN :long::bigint < 0 THEN NULL
     WHEN {payload_fits} THEN payload END

-- part: fine
-- Condition: all texts of a row and its payload may be sent.
CASE WHEN octet_length(message_id)::bigint + octet_length(topic) + octet_length(aggregate_type)
            + octet_length(aggregate_id) + coalesce(octet_length(partition_key), 0)
            + coalesce(octet_length(trace_id), 0) <= :long::bigint
          AND pg_catalog.pg_column_size(headers) <= :long::bigint / 90
     THEN {payload_fits} ELSE false END AS fine

-- part: error_text
CASE WHEN octet_length(last_error) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(last_error) <= 1000 AND last_error !~ '[^ -~]'
     THEN last_error ELSE left(last_error, :long::integer + 1) END

-- part: key_texts
-- Like "texts", for the key only.
CASE WHEN octet_length(aggregate_type) <= :long::bigint THEN aggregate_type
     ELSE left(aggregate_type, :long::integer + 1) END,
CASE WHEN octet_length(aggregate_id) <= :long::bigint THEN aggregate_id
     ELSE left(aggregate_id, :long::integer + 1) END,
CASE WHEN octet_length(partition_key) <= :long::bigint THEN partition_key
     ELSE left(partition_key, :long::integer + 1) END

-- part: due_in
-- Milliseconds until the row may be tried again.
CASE WHEN next_retry_at > statement_timestamp()
          AND next_retry_at < '10000-01-01 00:00:00+00'::timestamptz
     THEN ceil(extract(epoch FROM next_retry_at - statement_timestamp()) * 1000.0)::bigint
     ELSE 0::bigint END

-- part: ids
-- A list "[1,2]" as an array.
translate(:ids::text, '[]', '{}')::bigint[]

-- part: quick_columns
id, status, attempts, created_at,
       {due_in},
       {quick_texts}, {quick_payload}

-- part: limited
-- States to match; -1: all.
LIMIT CASE WHEN :limit::bigint >= 0 THEN :limit::bigint END

-- part: topic_and_key
(:topic::text IS NULL OR topic = :topic::text)
  AND (:key::text IS NULL OR coalesce(nullif(partition_key, ''), aggregate_id) = :key::text)

-- part: since_created
(:since::bigint = 0
  OR created_at >= statement_timestamp() - least(:since::bigint, 3153600000000)::float8 * interval '1 millisecond')

-- part: asked
-- A payload of bytes is searched by its hexadecimal digits.
{topic_and_key} AND {since_created}
  AND (:prefix::text IS NULL OR starts_with(topic, :prefix::text))
  AND (:older::bigint = 0
       OR created_at <= statement_timestamp() - least(:older::bigint, 3153600000000)::float8 * interval '1 millisecond')
  AND (:text::text IS NULL
       OR position(:text::text IN concat_ws(' ', topic, message_id, partition_key, aggregate_id,
                                            last_error, payload::text)) > 0
       OR payload::text ~ (E'^\\\\x(..)*' || encode(pg_catalog.convert_to(:text::text, 'UTF8'), 'hex')))

-- part: shown
status, attempts, created_at, claimed_at, next_retry_at, processed_at,
       {texts},
       {error_text}, 0::bigint, 0::bigint

-- part: after_delay
statement_timestamp() + least(:delay::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- part: this
-- Condition: the row is this message, and not another that has its id now.
(:message_id::text IS NULL OR message_id = :message_id::text)

-- name: wake-key
-- Number of the table, for the lock that a sleeping relay holds and for the names of the channels that
-- wake it.
SELECT {'table}::regclass::oid::bigint;

-- name: payload-type
SELECT atttypid::regtype::text FROM pg_attribute
WHERE attrelid = to_regclass({'table})::oid AND attname = 'payload' AND NOT attisdropped;

-- part: key_to_lock
-- The key by which a message is locked; NULL: it has none.
CASE WHEN {.}key OPERATOR(pg_catalog.<>) '' THEN '=' OPERATOR(pg_catalog.||) {.}key
     WHEN {.}aggregate_type OPERATOR(pg_catalog.<>) '' OR {.}aggregate_id OPERATOR(pg_catalog.<>) ''
     THEN pg_catalog.length(coalesce({.}aggregate_type, ''))::pg_catalog.text OPERATOR(pg_catalog.||) ':'
       OPERATOR(pg_catalog.||) coalesce({.}aggregate_type, '') OPERATOR(pg_catalog.||) coalesce({.}aggregate_id, '') END

-- name: lock-key
-- Lock the key before the id is taken.  If two transactions write one key under this lock, the second
-- waits for the first, and its id is higher (transactions_that_lock_a_key_commit_in_id_order).  The
-- functions wherry_enqueue() and wherry_enqueue_many() take the same lock.  In all three all names are qualified, since
-- they run in transactions of the application, with its search path
-- (enqueueing_is_safe_though_pg_catalog_comes_last).
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(
  o.k COLLATE pg_catalog."C", {'table}::pg_catalog.regclass::pg_catalog.oid::bigint))
FROM (SELECT {key_to_lock:m} FROM (VALUES (:key::pg_catalog.text, :aggregate_type::pg_catalog.text,
  :aggregate_id::pg_catalog.text)) AS m(key, aggregate_type, aggregate_id)) AS o(k)
WHERE o.k IS NOT NULL;
