-- layout: name=eventferry names=qualified ordered=yes order=aggregate fence=claim wakes=no body=jsonb message_id=uuid columns=id,message_id,topic,aggregate_type,aggregate_id,key,payload,headers,trace_id,status,attempts,claimed_at,next_retry_at,!claim_token
-- unused: error token
--
-- The table of the TypeScript library eventferry on PostgreSQL, as it publishes it: nothing
-- is added, and its producers and relays may work on it at the same time.
--
-- Rules of the library: the order is by aggregate_id, and a row is claimed only while no earlier
-- row of its aggregate is open.  So neither side claims a row behind one that the other has.  A
-- claim is status 1 and claimed_at.  It expires when claimed_at is older than the claimer's
-- timeout, which is not in the row.  Wherry renews claimed_at well before that while it holds a
-- row (a_claim_is_renewed_so_that_the_library_leaves_it_alone).
--
-- Additions to these rules: a claim also takes the run of rows behind the first of an aggregate.
-- No row is claimed while a later one of its aggregate is under a live claim.  Each
-- acknowledgement names the claimed_at that the claim wrote, so the acknowledgement of a lost
-- claim changes nothing (an_acknowledgement_of_a_lost_claim_changes_nothing_…).
--
-- The table cannot store a lease, a pause or the last error (meet.c),
-- and has no trigger that wakes relays (wakes=no), so relays poll it.
--
-- Its indexes: (id) and (aggregate_id, id) of open rows, those whose status is 0, 1 or 3.
-- Nothing finds claimed or failed rows among them but looking at all, so the common
-- statements look at the first 2000, where such rows are, and at all now and then.

-- part: now
statement_timestamp()

-- include: postgres.own.sql

-- name: migrate-1
-- The table as the library makes it.
{undistributed}
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

-- name: schema-version
-- The columns identify this layout, if no outbox of Wherry has the table's name.
SELECT 1, 100 WHERE 15 = (SELECT count(*) FROM pg_attribute
            WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid
              AND attname IN ('id', 'message_id', 'topic', 'aggregate_type', 'aggregate_id',
                'key', 'payload', 'headers', 'trace_id', 'status', 'attempts', 'claimed_at',
                'next_retry_at', 'created_at', 'processed_at') AND NOT attisdropped)
  AND NOT EXISTS (
    SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid
      AND attname = 'claim_token' AND NOT attisdropped);

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
-- The lock of wherry_enqueue() on the aggregate, which orders messages here: see postgres.enqueue.sql.
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
-- A text that is longer than its limit is not sent, with :long = -1 no text is.
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
  count(*) FILTER (WHERE status = 4), 0
FROM {table};

-- name: ready
SELECT count(*), coalesce(max({age}), 0)
FROM {table} AS c WHERE c.status IN (0, 1, 3) AND {due};

-- name: oldest-pending
-- Among the first 10,000 rows.
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

-- part: expired_before
-- Time of a claim that expires now.
statement_timestamp() - least(:lasts::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- part: claimed
-- Condition: the claim of c has expired.  A claim without a time, or with one that never comes, has expired.
CASE WHEN isfinite(c.claimed_at) AND c.claimed_at < {year_10000} THEN c.claimed_at
     ELSE '1970-01-01 00:00:00+00'::timestamptz END

-- part: open_c
-- Condition in the words of the indexes.
c.status IN (0, 1, 3)

-- part: unclaimed_behind
-- Condition: no later row of the aggregate of c is under a live claim, which is possible if c was
-- committed late.  Claimed rows are among the first of an aggregate.
NOT EXISTS (
  SELECT 1 FROM (
    SELECT b.status, b.claimed_at FROM {table} AS b
    WHERE b.aggregate_id::text = c.aggregate_id::text AND b.id > c.id AND b.status IN (0, 1, 3)
    ORDER BY b.id LIMIT 1000) AS behind
  WHERE behind.status = 1 AND behind.claimed_at > {expired_before}
    AND behind.claimed_at < {year_10000})

-- part: first
-- Condition: c is the first open row of its aggregate (the library's condition), and the condition above.
(:unordered::bigint <> 0 OR (NOT EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE b.aggregate_id::text = c.aggregate_id::text AND b.id < c.id AND b.status IN (0, 1, 3))
  AND {unclaimed_behind}))

-- part: first_expired
-- With :share rows that expired with c are claimed too.
(:unordered::bigint <> 0 OR (NOT EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE b.aggregate_id::text = c.aggregate_id::text AND b.id < c.id AND b.status IN (0, 1, 3)
    AND NOT (:share::bigint <> 0 AND b.status = 1
             AND b.claimed_at IS NOT DISTINCT FROM c.claimed_at))
  AND {unclaimed_behind}))

-- part: front
-- The first open rows, where claimed and failed ones mostly are; once in fifty times all open rows, to
-- find those that are far behind.
(SELECT * FROM {table} WHERE status IN (0, 1, 3) ORDER BY id
 LIMIT CASE WHEN random() < 0.98::float8 THEN 2000 END)

-- part: unit
-- Unit of c: the rows of its aggregate, which are claimed in their order.
CASE WHEN :unordered::bigint <> 0 THEN c.id::text ELSE c.aggregate_id END

-- part: whole_runs
-- Rows of "chosen" that were locked together with every chosen row before them in their unit.  If
-- another claimer has locked a row, the rows behind it are not claimed
-- (nothing_is_claimed_behind_a_row_that_another_claimer_has_locked).
(SELECT id FROM (
  SELECT id, bool_and(id IN (SELECT id FROM locked)) OVER (PARTITION BY unit ORDER BY id)
    AS whole
  FROM chosen) AS run
 WHERE run.whole)

-- part: mark
-- A claim's mark: claimed_at to the microsecond, as a number whatever the session's
-- settings; that of the last times there are is more than a bigint holds.
CASE WHEN isfinite(claimed_at)
     THEN round((extract(epoch FROM claimed_at) * 1000000.0)::numeric)::text
     ELSE claimed_at::text END

-- part: held
-- t is a row of these claims.  IS TRUE keeps the planner from joining the list row by row.
t.id = ANY (ARRAY(SELECT (claim->>2)::bigint FROM json_array_elements(:ids::json) AS claim))
  AND t.status = 1
  AND (t.id::text || ' ' || {mark} IN (
    SELECT (claim->>2) || ' ' || (claim->>1)
    FROM json_array_elements(:ids::json) AS claim)) IS TRUE

-- part: taken
-- Columns that a claim returns.
id, 0::bigint, attempts, created_at, 0::bigint,
  {texts}, {mark}

-- name: claim-end
-- Last id that one claim reads.
SELECT coalesce(max(id), 0), count(*) FROM (
  SELECT id FROM {table}
  WHERE status IN (0, 1, 3) AND id >= {from} ORDER BY id LIMIT :scan::bigint) AS p;

-- name: claim
-- Claim, in the order of ids, the first open rows of their aggregates, each with the run of pending
-- rows behind it, and lock them.  Other relays and the library skip locked rows, and so their
-- aggregates.  If a row of a run cannot be locked, the rows behind it are not claimed
-- (two_claims_never_hold_messages_of_one_key).
WITH looked AS (
  SELECT c.id, c.aggregate_id, c.status, {due} AS due,
    {unit} AS unit,
    c.status = 1 AND c.claimed_at > {expired_before} AND c.claimed_at < {year_10000} AS lives
  FROM (
    SELECT * FROM {table} AS c
    WHERE {open_c} AND c.id >= {from} AND c.id <= :upto::bigint
    ORDER BY c.id OFFSET 0) AS c), -- by the index on (id)
counted AS (
  SELECT *, row_number() OVER (PARTITION BY unit ORDER BY id) AS nth,
    bool_or(lives) OVER (PARTITION BY unit) AS held
  FROM looked),
runs AS (
  SELECT *, bool_and(status = 0 OR nth = 1 AND due)
              OVER (PARTITION BY unit ORDER BY id) AS goes
  FROM counted),
chosen AS MATERIALIZED (
  SELECT c.id, c.unit FROM runs AS c
  WHERE c.goes AND NOT c.held
    AND (:unordered::bigint <> 0 OR :after::bigint = '-9223372036854775808'::bigint
         OR :after::bigint < (
      SELECT b.id FROM {table} AS b
      WHERE b.aggregate_id::text = c.aggregate_id::text AND b.status IN (0, 1, 3)
      ORDER BY b.id LIMIT 1))
  ORDER BY c.id LIMIT :limit::bigint),
locked AS MATERIALIZED (
  SELECT c.id FROM {table} AS c
  WHERE c.id = ANY (ARRAY(SELECT id FROM chosen)) AND (c.status = 0 OR {due})
  FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE {table} AS t SET status = 1, claimed_at = {now}
  FROM {whole_runs} AS run
  WHERE t.id = run.id
  RETURNING t.*)
SELECT {taken} FROM taken ORDER BY id;

-- name: claim-due
-- Claim failed rows that are due, before pending ones.
WITH chosen AS MATERIALIZED (
  SELECT c.id FROM {table} AS c
  WHERE {due} AND c.id = ANY (ARRAY(
    SELECT c.id FROM {front} AS c WHERE {due} AND {first}
    ORDER BY c.next_retry_at NULLS FIRST, c.id LIMIT :limit::bigint))
  FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE {table} AS t SET status = 1, claimed_at = {now}
  FROM chosen WHERE t.id = chosen.id AND t.status = 3
  RETURNING t.*)
SELECT {taken} FROM taken ORDER BY id;

-- name: expired
-- Rows that were claimed together, by Wherry or by the library, have one claimed_at.
SELECT f.mark, (
  SELECT count(*) FROM {table} AS c
  WHERE {open_c} AND c.status = 1 AND {claimed} <= {expired_before}
    AND c.claimed_at IS NOT DISTINCT FROM f.claimed_at)
FROM (
  SELECT c.claimed_at, {mark} AS mark FROM {table} AS c
  WHERE {open_c} AND c.status = 1 AND {claimed} <= {expired_before} AND {first_expired}
  ORDER BY c.claimed_at NULLS FIRST, c.id LIMIT 1) AS f;

-- name: claim-share
-- No attempt is recorded, since only one of these rows can have crashed its program, if any did.  As
-- in "claim", several rows of one aggregate are claimed together or not at all.  The limit counts rows
-- that no transaction has locked (a_locked_share_of_expired_rows_holds_up_no_other_key).
WITH chosen AS MATERIALIZED (
  SELECT c.id, {unit} AS unit FROM {table} AS c
  WHERE {open_c} AND c.status = 1 AND {claimed} <= {expired_before}
    AND {mark} = :of::text AND {first_expired}),
locked AS MATERIALIZED (
  SELECT c.id FROM {table} AS c
  WHERE c.id = ANY (ARRAY(SELECT id FROM chosen)) AND c.status = 1
    AND {claimed} <= {expired_before}
  FOR UPDATE SKIP LOCKED),
taken AS (
  UPDATE {table} AS t SET claimed_at = {now}
  FROM (SELECT run.id FROM {whole_runs} AS run ORDER BY run.id LIMIT :limit::bigint) AS run
  WHERE t.id = run.id
  RETURNING t.*)
SELECT {taken} FROM taken ORDER BY id;

-- name: claim-expired
-- Claim one row whose claim has expired.  The attempt is recorded before it is made, so that a
-- message that crashes its program runs out of attempts.
WITH chosen AS MATERIALIZED (
  SELECT c.id FROM {table} AS c
  WHERE {open_c} AND c.status = 1 AND {claimed} <= {expired_before} AND {first_expired}
  ORDER BY c.claimed_at NULLS FIRST, c.id LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE {table} AS t SET claimed_at = {now}, attempts = least(t.attempts, 2147483646) + 1
FROM chosen WHERE t.id = chosen.id
RETURNING t.id, 1::bigint, attempts - 1, created_at, 0::bigint,
  {texts}, {mark};

-- name: claim-next
-- Milliseconds until the first claim expires, and until the first failed row is due.
SELECT ceil(extract(epoch FROM min({claimed}) FILTER (WHERE c.status = 1)
                          - ({expired_before})) * 1000.0)::bigint,
  ceil(extract(epoch FROM min(CASE WHEN isfinite(c.next_retry_at)
                                     AND c.next_retry_at < {year_10000} THEN c.next_retry_at
                                ELSE '1970-01-01 00:00:00+00' END)
                          FILTER (WHERE c.status = 3) - {now}) * 1000.0)::bigint
FROM {front} AS c;

-- name: extend
-- Extend claims.  An expired claim is not extended.  All rows get the same new mark.
UPDATE {table} AS t SET claimed_at = {now}
WHERE {held} AND t.claimed_at > {expired_before}
RETURNING t.id, {mark};

-- name: read-ids
-- Rows that were claimed without their texts.
SELECT id, status, attempts, created_at, 0::bigint,
  {texts}
FROM {table}
WHERE id = ANY (translate(:ids::text, '[]', '{}')::bigint[]) AND status IN (0, 1, 3)
ORDER BY id;

-- name: locked
-- Rows that another transaction has locked.  The statement waits for none (relay_locked_postgres_test.c).
WITH free AS MATERIALIZED (
  SELECT t.id FROM {table} AS t WHERE t.id = ANY (translate(:ids::text, '[]', '{}')::bigint[])
  FOR UPDATE SKIP LOCKED)
SELECT t.id FROM {table} AS t WHERE t.id = ANY (translate(:ids::text, '[]', '{}')::bigint[])
  AND NOT EXISTS (SELECT 1 FROM free AS f WHERE f.id = t.id);

-- name: done-mark
-- Change only rows that this claim holds.
UPDATE {table} AS t SET status = 2, processed_at = {now} WHERE {held};

-- name: fail
-- unused: message_id
-- claimed_at stays, as in the library.  The table cannot store :error.
UPDATE {table} SET status = CASE WHEN :dead::bigint <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN attempts BETWEEN :nth::integer - 1 AND :nth::integer
                       AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(attempts, 2147483646) + :count::integer END,
  next_retry_at = CASE WHEN :dead::bigint = 0 THEN
    {now} + least(:delay::bigint, 3153600000000)::float8 * interval '1 millisecond' END
WHERE id = :id AND status = 1 AND {mark} = :started::text;

-- name: requeue
UPDATE {table} AS t SET status = 0, next_retry_at = NULL, claimed_at = NULL WHERE {held};

-- name: try
-- unused: message_id
UPDATE {table} SET
  attempts = CASE WHEN attempts BETWEEN :nth::integer - 1 AND :nth::integer
                       AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(attempts, 2147483646) + 1 END
WHERE id = :id AND status = 1 AND {mark} = :started::text;

-- name: reap
UPDATE {table} SET status = 0, next_retry_at = NULL, claimed_at = NULL
WHERE status = 1 AND id = ANY (ARRAY(
  SELECT c.id FROM {table} AS c WHERE {open_c} AND c.status = 1
    AND {claimed:c} <= {now} - least(:timeout::bigint, 3153600000000)::float8 * interval '1 millisecond'
  FOR UPDATE SKIP LOCKED));

-- part: limited
-- States to match; -1: all.
LIMIT CASE WHEN :limit::bigint >= 0 THEN :limit::bigint END

-- part: ident
-- Message id, if the given text can be one.
CASE WHEN length(:ident::text) = 36 AND translate(lower(:ident::text), '0123456789abcdef', '')
          = '----' AND substr(:ident::text, 9, 1) || substr(:ident::text, 14, 1)
                       || substr(:ident::text, 19, 1) || substr(:ident::text, 24, 1) = '----'
     THEN :ident::text::uuid END

-- part: wanted
(:topic::text IS NULL OR topic::text = :topic::text)
  AND (:key::text IS NULL OR coalesce(nullif(key, ''), aggregate_id) = :key::text)
  AND (:ident::text IS NULL OR message_id = {ident} OR id = :number::bigint)
  AND id >= {from}

-- part: since_created
(:since::bigint = 0
  OR created_at >= statement_timestamp() - least(:since::bigint, 3153600000000)::float8 * interval '1 millisecond')

-- name: retry-dead
UPDATE {table} SET status = 0, attempts = 0, next_retry_at = NULL, claimed_at = NULL
WHERE status IN (3, 4) AND id = ANY (ARRAY(
  SELECT id FROM {table}
  WHERE (status = 4 AND :states::bigint & 16::bigint <> 0 OR status = 3 AND :states::bigint & 8::bigint <> 0)
    AND {wanted} AND {since_created}
  ORDER BY id {limited}));

-- name: discard
-- Delivered rows are not deleted.
DELETE FROM {table} WHERE status IN (0, 1, 3, 4)
  AND (:states::bigint = 0 OR :states::bigint >> status::integer & 1::bigint = 1) AND id = ANY (ARRAY(
  SELECT id FROM {table} WHERE message_id = {ident}
  UNION ALL
  SELECT id FROM {table} WHERE id = :number::bigint));

-- part: shown
-- next_retry_at is the time that the library wrote when the row failed.
id, status, attempts, created_at, claimed_at, next_retry_at, processed_at,
  {texts},
  NULL::text, 0::bigint, 0::bigint

-- part: asked
(:prefix::text IS NULL OR starts_with(topic::text, :prefix::text))
  AND (:older::bigint = 0
       OR created_at <= statement_timestamp() - least(:older::bigint, 3153600000000)::float8 * interval '1 millisecond')
  AND (:text::text IS NULL
       OR position(:text::text IN concat_ws(' ', topic, message_id, key, aggregate_id,
                                            payload::text)) > 0)

-- name: list
SELECT {shown} FROM {table}
WHERE (:states::integer >> status::integer) & 1 = 1 AND status <> 2 AND {wanted}
  AND {since_created} AND {asked}
ORDER BY id {limited};

-- name: list-any
SELECT {shown} FROM {table}
WHERE (:states::integer >> status::integer) & 1 = 1 AND {wanted} AND {since_created} AND {asked}
ORDER BY id {limited};

-- name: list-newest
SELECT {shown} FROM {table}
WHERE (:states::integer >> status::integer) & 1 = 1 AND status <> 2 AND {wanted}
  AND {since_created} AND {asked}
  AND id < :before::bigint
ORDER BY id DESC {limited};

-- name: list-any-newest
SELECT {shown} FROM {table}
WHERE (:states::integer >> status::integer) & 1 = 1 AND {wanted} AND {since_created} AND {asked}
  AND id < :before::bigint
ORDER BY id DESC {limited};

-- name: show
-- The row, with the lowest open row of the same aggregate before it.
SELECT c.id, c.status, c.attempts, c.created_at, c.claimed_at, c.next_retry_at,
  c.processed_at,
  {texts},
  NULL::text,
  (SELECT min(b.id) FROM {table} AS b
   WHERE b.status IN (0, 1, 3) AND b.id < c.id AND b.aggregate_id::text = c.aggregate_id::text),
  0::bigint
FROM {table} AS c
WHERE c.message_id = {ident} OR c.id = :number::bigint
ORDER BY c.id <> :number::bigint LIMIT 1;
