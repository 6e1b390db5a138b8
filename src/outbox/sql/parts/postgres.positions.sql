--
-- The positions and the exceptions of a subscription of a log on PostgreSQL.
--
-- A subscription has one row of table_progress, for all 64 partitions of the keys.  If relays share them, it has
-- several, for separate partitions each.  A live relay has whole rows: they are divided when its share changes.

-- part: subscription
{topic}

-- part: patterns
-- Patterns of topics, "orders.*,billing", as those of LIKE.
string_to_array(replace(replace(replace({.}topics, '%', chr(92) || '%'), '_', chr(92) || '_'), '*', '%'), ',')

-- part: topics
(SELECT {patterns:w} FROM {table_progress} AS w WHERE w.subscription = {subscription} LIMIT 1)

-- part: its_topic
-- Condition: the subscription has the topic of the row.
coalesce({.}topic LIKE ANY ({topics}::text[]), true)

-- part: position
(SELECT p.high, p.seen, p.until, p.late, p.mask FROM {table_progress} AS p WHERE p.subscription = {subscription})

-- part: of_p
-- Condition: the position p is that of the row's partition.
(p.mask = -1::bigint OR p.mask >> {partition:.}::integer & 1::bigint = 1)

-- part: key_columns
-- Columns by which the conditions know a row.
{.}id, {.}tx, {.}aggregate_type, {.}aggregate_id, {.}partition_key

-- part: uncovered
-- Condition: the position p does not cover the row t.
(t.id > p.high OR NOT pg_visible_in_snapshot(t.tx, p.seen)
   AND (p.until IS NULL OR t.id > p.late OR NOT pg_visible_in_snapshot(t.tx, p.until)))

-- part: late_rows
-- Ids of messages below the position that it does not cover, found by the index on tx.
SELECT t.id FROM {position} AS p
CROSS JOIN LATERAL (
  SELECT e.id, e.tx FROM {table} AS e
  WHERE e.tx >= pg_snapshot_xmax(p.seen) AND e.id + 0 <= p.high AND {its_topic:e} AND {of_p:e}
  UNION ALL
  SELECT e.id, e.tx FROM pg_snapshot_xip(p.seen) AS open(tx)
  CROSS JOIN LATERAL (SELECT o.id, o.tx FROM {table} AS o
                      WHERE o.tx BETWEEN open.tx AND open.tx AND o.id + 0 <= p.high AND {its_topic:o} AND {of_p:o}
                      OFFSET 0) AS e) AS t
WHERE {uncovered}

-- part: some_late
-- The same among the first 10,000 rows that may be late: of a position that stands still these are all rows behind it.
SELECT t.id FROM {position} AS p
CROSS JOIN LATERAL (
  SELECT {key_columns:e} FROM (
    (SELECT o.id FROM {table} AS o WHERE o.tx >= pg_snapshot_xmax(p.seen) ORDER BY o.tx LIMIT 10000)
    UNION ALL
    (SELECT o.id FROM pg_snapshot_xip(p.seen) AS open(tx) CROSS JOIN LATERAL (
       SELECT n.id FROM {table} AS n WHERE n.tx BETWEEN open.tx AND open.tx ORDER BY n.tx LIMIT 10000) AS o)) AS i
  CROSS JOIN LATERAL (SELECT * FROM {table} AS n WHERE n.id = i.id AND i.id <= p.high AND {its_topic:n} OFFSET 0) AS e) AS t
WHERE {of_p:t} AND {uncovered}

-- part: fresh
-- Ids of messages above the position.
SELECT t.id FROM {position} AS p CROSS JOIN LATERAL (
  SELECT e.id FROM {table} AS e WHERE e.id > p.high AND {its_topic:e} AND {of_p:e} ORDER BY e.id OFFSET 0) AS t

-- part: first_fresh
-- The first of them, of each position.
SELECT t.id FROM {position} AS p CROSS JOIN LATERAL (
  SELECT e.id FROM {table} AS e WHERE e.id > p.high AND {its_topic:e} AND {of_p:e} ORDER BY e.id LIMIT 1) AS t

-- part: exceptional
-- Exceptions with their messages.
SELECT t.*, x.state AS status, x.attempts, x.next_retry_at, x.changed_at AS claimed_at,
       NULL::timestamptz AS processed_at, x.last_error
FROM {table_exception} AS x CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = x.id OFFSET 0) AS t
WHERE x.subscription = {subscription}
