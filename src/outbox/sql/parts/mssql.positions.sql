--
-- The position and the exceptions of a subscription of a log on SQL Server.  Files include it behind
-- mssql.rows.sql.
--
-- Reads of both tables wait for relays and operators, who hold a row for milliseconds: a position or an exception that
-- was passed over would make a message look delivered.

-- include: mssql.identity.sql

-- part: subscription
N{topic}

-- part: its_topic
-- Condition: the subscription has the topic of the row.
((SELECT w.topics FROM {table_progress} AS w WHERE w.subscription = {subscription}) IS NULL
 OR EXISTS (SELECT 1 FROM {table_progress} AS w CROSS APPLY STRING_SPLIT({patterns:w}, N',') AS g
            WHERE w.subscription = {subscription} AND {.}topic LIKE g.value))

-- part: passed
-- Last row version that a subscription has passed.  A position of another table says nothing here: the relay reads this
-- one from its start.
CONVERT(BINARY(8), CAST(CASE WHEN {.}seen = {log_identity} THEN {.}high ELSE 0 END AS BIGINT))

-- part: position
(SELECT {passed:w} AS rv FROM {table_progress} AS w WHERE w.subscription = {subscription})

-- part: fresh
-- Ids of messages that the position does not cover.
SELECT t.id FROM {position} AS p JOIN {table} AS t {unlocked} ON t.rv > p.rv WHERE {its_topic:t}

-- part: exception_columns
-- An exception with its message, in the columns that commands show.
t.*, x.state AS status, x.attempts, 0 AS generation, x.next_retry_at, x.changed_at AS claimed_at,
  CAST(NULL AS DATETIME2(3)) AS processed_at, x.last_error

-- part: exceptional
SELECT {exception_columns}
FROM {table_exception} AS x JOIN {table} AS t {unlocked} ON t.id = x.id
WHERE x.subscription = {subscription}
