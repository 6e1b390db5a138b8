--
-- The position and the exceptions of a subscription of a log on SQLite.

-- part: subscription
{topic}

-- part: globs
-- Patterns of topics, "orders.*,billing", as a list of those of GLOB.
('["' || replace(replace(replace({.}topics, '[', '[[]'), '?', '[?]'), ',', '","') || '"]')

-- part: its_topic
-- Condition: the subscription has the topic of the row.  NULL: it cannot be read, and the message dies.
({.}topic IS NULL OR (SELECT w.topics FROM {table_progress} AS w WHERE w.subscription = {subscription}) IS NULL
 OR EXISTS (SELECT 1 FROM json_each((SELECT {globs:w} FROM {table_progress} AS w
                                     WHERE w.subscription = {subscription})) AS g
            WHERE {.}topic GLOB g.value))

-- part: high
(SELECT p.high FROM {table_progress} AS p WHERE p.subscription = {subscription})

-- part: exceptional
-- Exceptions with their messages.
SELECT t.id, x.state AS status, x.attempts, t.created_at,
       CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at,
       x.next_retry_at, NULL AS processed_at, t.message_id, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key,
       t.headers, t.trace_id, t.payload, x.last_error
FROM {table_exception} AS x CROSS JOIN {table} AS t ON t.id = x.id
WHERE x.subscription = {subscription}
