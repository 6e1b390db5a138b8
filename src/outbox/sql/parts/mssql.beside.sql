--
-- Leases, positions and exceptions, which an outbox that is read behind a position has beside its table, on SQL Server.  Files
-- include it behind mssql.message.sql, mssql.positions.sql and their part "marked_done".

-- part: ends
-- An id that the position does not cover, if any.
0, COALESCE((SELECT MAX(t.id) FROM {position} AS p CROSS APPLY (
     SELECT TOP (1) e.id FROM {table} AS e {unlocked} WHERE e.rv > p.rv ORDER BY e.rv DESC) AS t), 0)

-- include: mssql.lease.sql

-- part: share_engine
N'log'

-- part: share_ends
{ends}

-- include: mssql.shares.sql

-- part: progress_table
IF OBJECT_ID(N{'table_progress}, N'U') IS NULL
  CREATE TABLE {table_progress}(
    subscription NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL,
    mask     BIGINT NOT NULL DEFAULT -1,  -- a bit for each partition of the keys; together the rows of a subscription have all
    high     BIGINT NOT NULL,        -- the last row version that was read
    seen     NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,  -- the table that it is of
    topics   NVARCHAR(1000) COLLATE Latin1_General_BIN2,  -- patterns, "orders.*,billing"; NULL: all topics
    shared   BIT NOT NULL DEFAULT 0,  -- relays that begin share the partitions
    moved_at DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    PRIMARY KEY (subscription, mask)
  );

-- part: exception_table
IF OBJECT_ID(N{'table_exception}, N'U') IS NULL
BEGIN
  CREATE TABLE {table_exception}(
    subscription  NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL,
    id            BIGINT NOT NULL,
    state         TINYINT NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    attempts      INT NOT NULL DEFAULT 0,
    next_retry_at DATETIME2(3),
    changed_at    DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    claim_token   NVARCHAR(64) COLLATE Latin1_General_BIN2,
    last_error    NVARCHAR(MAX) COLLATE Latin1_General_BIN2,
    PRIMARY KEY (subscription, id)
  );
  -- Thousands of messages of one subscription may wait, and relays of others must go on.
  ALTER TABLE {table_exception} SET (LOCK_ESCALATION = DISABLE);
END;

-- part: begin_subscriptions
-- The table may be a new one, after the old one was dropped by hand: its messages have ids that the old ones had.
DELETE x FROM (SELECT e.subscription, e.id FROM {table_exception} AS e
               WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = e.id)) AS i
JOIN {table_exception} AS x {by_seek} ON x.id = i.id AND x.subscription = i.subscription
{loop};
-- It may have been dropped, since only others are read.
IF NOT EXISTS (SELECT 1 FROM {table_progress})
  INSERT INTO {table_progress}(subscription, high, seen) VALUES ({subscription}, 0, N'');
IF NOT EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = N{name})
  INSERT INTO {wherry_outbox}(name) VALUES (N{name});
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'log' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'log', N{name}, 1, 100);

-- part: drop_consumers
DECLARE @of NVARCHAR(600) = (SELECT MIN(f.called) FROM {consume_procedures} AS f), @sql NVARCHAR(2000);
WHILE @of IS NOT NULL
BEGIN
  SET @sql = N'DROP PROCEDURE ' + @of;
  EXEC (@sql);
  SET @of = (SELECT MIN(f.called) FROM {consume_procedures} AS f);
END

-- part: unregister
IF OBJECT_ID(N{'table_progress}, N'U') IS NOT NULL
  EXEC (N{'drop_consumers});
DROP TABLE IF EXISTS {table_progress};
DROP TABLE IF EXISTS {table_exception};
DELETE FROM {wherry_outbox} WHERE name = N{name} OR LEFT(name, LEN(N{name}) + 1) = N{name} + N'\';
DELETE FROM {wherry_lease} WHERE outbox = N{name} OR LEFT(outbox, LEN(N{name}) + 1) = N{name} + N'\';
DELETE FROM {wherry_schema} WHERE model = N'log' AND name = N{name};

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: schema-exists
{has_schema};

-- name: columns
{column_names};

-- part: is_dead
EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = {.}id AND x.state = 4)

-- part: mine
-- Condition: the row is of the caller's partitions, and their positions do not cover it, which may differ (:mixed).
CASE WHEN :mixed <> 0 THEN CASE WHEN EXISTS (
       SELECT 1 FROM {position} AS p WHERE p.mask & ~:mask = 0 AND {of_p:.} AND {.}rv > p.rv) THEN 1 ELSE 0 END
     WHEN :mask = -1 THEN 1 WHEN :mask & {bit:.} <> 0 THEN 1 ELSE 0 END = 1

-- part: wanted_here
-- Condition: the subscription has the topic.  A message that is dead stays so, although its owner changed it.
{its_topic:t} AND NOT {is_dead:t}

-- part: message
CASE WHEN {wanted_here} AND {mine:t} THEN t.id END, 0, 0, created_at, 0, {texts}

-- include: mssql.log.sql

-- name: log-ids
-- New messages, by their ids: of a look that met a row which the server cannot send.
SELECT CASE WHEN {wanted_here} THEN t.id END, 0, 0, created_at, 0, {texts}
FROM {table} AS t WHERE t.id IN (SELECT CAST(value AS BIGINT) FROM OPENJSON(:ids)) ORDER BY t.id;

-- name: add-partitions
-- Relays that begin afterwards share the partitions of a subscription, also of one that is made later.
UPDATE p SET shared = 1
FROM (SELECT w.subscription, w.mask FROM {table_progress} AS w WHERE w.shared = 0) AS i
JOIN {table_progress} AS p {by_seek} ON p.subscription = i.subscription AND p.mask = i.mask
{loop};

-- name: partitions-ready
SELECT COUNT(*) FROM {table_progress} WHERE subscription = {subscription} AND shared = 1;
