--
-- Statements that compare a log with what its destination holds, on PostgreSQL.  Files include it behind
-- postgres.subscription.sql and their part "kept", which keeps a purge from rows that are read.

-- part: state_of
-- State of the message t with the exception x; NULL: the subscription does not have its topic.
CASE WHEN NOT {its_topic:t} THEN NULL WHEN x.state IS NOT NULL THEN x.state
     WHEN EXISTS (SELECT 1 FROM {position} AS p WHERE {of_p:t} AND {uncovered}) THEN 0 ELSE 2 END

-- part: exception_of
LEFT JOIN LATERAL (SELECT e.state FROM {table_exception} AS e
                   WHERE e.subscription = {subscription} AND e.id = t.id OFFSET 0) AS x ON true

-- part: in_period
t.created_at >= '1970-01-01 00:00:00+00'::timestamptz + :since::bigint::float8 * interval '1 millisecond'
  AND t.created_at < '1970-01-01 00:00:00+00'::timestamptz + :end::bigint::float8 * interval '1 millisecond'

-- name: period
-- A page of all rows with their states.  Only those that were made in the period have a message id and a topic.
SELECT t.id, {state_of}, t.created_at,
  CASE WHEN {in_period} THEN t.message_id::text END, CASE WHEN {in_period} THEN t.topic END
FROM (SELECT {key_columns:e}, e.message_id, e.topic, e.created_at FROM {table} AS e
      WHERE e.id > :after::bigint ORDER BY e.id LIMIT :limit::bigint) AS t
{exception_of}
ORDER BY t.id;

-- name: period-rows
-- Messages by their numbers, without their bodies.
SELECT t.id, {state_of}, t.created_at, t.message_id::text, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key,
  t.headers
FROM (SELECT * FROM {table} AS e WHERE e.id = ANY ({ids})) AS t
{exception_of}
ORDER BY t.id;

-- name: deliver-again
-- Messages that were delivered, and nothing else, become pending.
INSERT INTO {table_exception} AS x (subscription, id)
SELECT {subscription}, t.id FROM {position} AS p CROSS JOIN LATERAL (
  SELECT {key_columns:e}, e.topic FROM {table} AS e WHERE e.id = ANY ({ids}) ORDER BY e.id {kept}) AS t
WHERE {of_p:t} AND NOT {uncovered} AND {its_topic:t}
ON CONFLICT (subscription, id) DO UPDATE SET state = 0, attempts = 0, next_retry_at = NULL, changed_at = {now},
  claim_token = '' WHERE x.state = 2;
