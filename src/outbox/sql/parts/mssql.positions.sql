--
-- The positions and the exceptions of a subscription of a log on SQL Server.  Files include it behind
-- mssql.rows.sql.
--
-- A subscription has one row of table_progress, for all 64 partitions of the keys.  If relays share them, it has
-- several, for separate partitions each.  A live relay has whole rows: they are divided when its share changes.
--
-- Reads of both tables wait for relays and operators, who hold a row for milliseconds: a position or an exception that
-- was passed over would make a message look delivered.

-- include: mssql.identity.sql

-- part: subscription
N{topic}

-- part: its_topic
-- Condition: the subscription has the topic of the row.  NULL: it cannot be read, and the message dies.
({.}topic IS NULL OR (SELECT TOP (1) w.topics FROM {table_progress} AS w WHERE w.subscription = {subscription}) IS NULL
 OR EXISTS (SELECT 1 FROM {table_progress} AS w CROSS APPLY STRING_SPLIT({patterns:w}, N',') AS g
            WHERE w.subscription = {subscription} AND {.}topic LIKE g.value))

-- part: partition
-- Partition of a message.
CAST(COALESCE(CAST(SUBSTRING({key:.}, 1, 1) AS BIGINT), {.}id) & 63 AS INT)

-- part: bit
-- Its bit in a mask.
(SELECT CASE b.n WHEN 63 THEN CAST(-9223372036854775808 AS BIGINT) ELSE POWER(CAST(2 AS BIGINT), b.n % 63) END
 FROM (SELECT {partition:.} AS n) AS b)

-- part: passed_at
-- Last row version that a subscription has passed.  A position of another table says nothing here: the relay reads this
-- one from its start.
CASE WHEN {.}seen = {log_identity} THEN {.}high ELSE 0 END

-- part: position
(SELECT CONVERT(BINARY(8), CAST({passed_at:w} AS BIGINT)) AS rv, w.mask
 FROM {table_progress} AS w WHERE w.subscription = {subscription})

-- part: of_p
-- Condition: the position p is that of the row's partition.
(p.mask = -1 OR p.mask & {bit:.} <> 0)

-- part: uncovered
-- Condition: the position does not cover the row.
EXISTS (SELECT 1 FROM {position} AS p WHERE {of_p:.} AND {.}rv > p.rv)

-- part: fresh
-- Ids of messages that the position does not cover.
SELECT t.id FROM {position} AS p JOIN {table} AS t {unlocked} ON t.rv > p.rv AND {of_p:t} WHERE {its_topic:t}

-- part: exception_columns
-- An exception with its message, in the columns that commands show.
t.*, x.state AS status, x.attempts, x.next_retry_at, x.changed_at AS claimed_at,
  CAST(NULL AS DATETIME2(3)) AS processed_at, x.last_error

-- part: exceptional
SELECT {exception_columns}
FROM {table_exception} AS x JOIN {table} AS t {unlocked} ON t.id = x.id
WHERE x.subscription = {subscription}
