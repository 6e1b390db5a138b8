--
-- The positions and the exceptions of a subscription of a log on PostgreSQL.
--
-- A subscription has one row of table_progress, for all 64 partitions of the keys.  If relays share them, it has
-- several, for separate partitions each.  A live relay has whole rows: they are divided when its share changes.

-- part: age
-- Milliseconds since a time.  A program may have written any, and PostgreSQL cannot subtract infinite ones, so it is cut to the
-- years that Wherry writes (tests/system/postgres_odd_times.sh).
floor(extract(epoch FROM statement_timestamp() - greatest(least({.}at, '10000-01-01 00:00:00+00'::timestamptz),
  '1970-01-01 00:00:00+00'::timestamptz)) * 1000.0)::bigint

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
-- Every row is of a position that is whole: of all topics and all partitions.
(SELECT p.high, p.seen, p.until, p.late, p.mask, p.mask = -1::bigint AND p.topics IS NULL AS whole
 FROM {table_progress} AS p WHERE p.subscription = {subscription})

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

-- part: uncovered_exception
-- Condition: the position p does not cover the message of the exception x, whose row is t.  If the row is not there, it
-- was deleted, or it came by the WAL and its transaction is not visible yet.  That one began before the exception was
-- written, so the position does not cover the message unless it sees all that is older than the exception.
CASE WHEN t.id IS NULL THEN age(x.xmin) <= age(pg_snapshot_xmin(p.seen)::xid) ELSE {of_p:t} AND {uncovered} END

-- part: of_whole
-- Condition: the row of this id is of the position p and of the subscription.  If the position is whole, no row is read.
(p.whole OR EXISTS (SELECT 1 FROM {table} AS e WHERE e.id = t.id AND {its_topic:e} AND {of_p:e} OFFSET 0))

-- part: late_of_open
-- Rows below the position of transactions that were open when it was read.
SELECT o.id, o.tx FROM pg_snapshot_xip(p.seen) AS open(tx)
CROSS JOIN LATERAL (SELECT e.id, e.tx FROM {table} AS e
                    WHERE e.tx BETWEEN open.tx AND open.tx AND e.id + 0 <= p.high OFFSET 0) AS o

-- part: late_rows
-- Ids of messages below the position that it does not cover, found by the index on tx alone: the position may stand
-- still, and then the index has all rows behind it.
SELECT t.id FROM {position} AS p
CROSS JOIN LATERAL (
  SELECT e.id, e.tx FROM {table} AS e WHERE e.tx >= pg_snapshot_xmax(p.seen) AND e.id + 0 <= p.high
  UNION ALL
  {late_of_open}) AS t
WHERE {uncovered} AND {of_whole}

-- part: some_late
-- The same, among the first 10,000 rows of later transactions: of a position that stands still these wrote all rows behind it.
SELECT t.id FROM {position} AS p
CROSS JOIN LATERAL (
  SELECT i.id, i.tx FROM (
    SELECT o.id, o.tx FROM {table} AS o WHERE o.tx >= pg_snapshot_xmax(p.seen) ORDER BY o.tx LIMIT 10000) AS i
  WHERE i.id <= p.high
  UNION ALL
  {late_of_open}) AS t
WHERE {uncovered} AND {of_whole}

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
SELECT t.*, x.state AS status, x.attempts, x.next_retry_at,
       CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at,
       NULL::timestamptz AS processed_at, x.last_error
FROM {table_exception} AS x CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = x.id OFFSET 0) AS t
WHERE x.subscription = {subscription}
