--
-- Statements that compare a log with what its destination holds, on SQLite.  Files include it behind
-- sqlite.subscription.sql.

-- part: state_of
-- State of the message t with the exception x; NULL: the subscription does not have its topic.
CASE WHEN {its_topic:t} THEN coalesce(x.state, CASE WHEN t.id > {high} THEN 0 ELSE 2 END) END

-- name: period
-- A page of all rows with their states.  Only those that were made in the period have a message id and a topic.
SELECT t.id, {state_of}, t.created_at,
  CASE WHEN t.created_at >= :since AND t.created_at < :end THEN t.message_id END,
  CASE WHEN t.created_at >= :since AND t.created_at < :end THEN t.topic END
FROM (SELECT * FROM {table} AS e WHERE e.id > :after ORDER BY e.id LIMIT :limit) AS t
LEFT JOIN {table_exception} AS x ON x.subscription = {subscription} AND x.id = t.id
ORDER BY t.id;

-- name: period-rows
-- Messages by their numbers, without their bodies.
SELECT t.id, {state_of}, t.created_at, t.message_id, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key, t.headers
FROM {table} AS t LEFT JOIN {table_exception} AS x ON x.subscription = {subscription} AND x.id = t.id
WHERE t.id IN (SELECT value FROM json_each(:ids)) ORDER BY t.id;

-- name: deliver-again
-- Messages that were delivered, and nothing else, become pending.
INSERT INTO {table_exception}(subscription, id, changed_at)
SELECT {subscription}, t.id, (SELECT ms FROM wherry_clock) FROM {table} AS t
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND t.id <= {high} AND {its_topic:t}
ON CONFLICT (subscription, id) DO UPDATE SET state = 0, attempts = 0, next_retry_at = NULL,
  changed_at = excluded.changed_at, claim_token = '' WHERE state = 2;
