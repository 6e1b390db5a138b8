-- layout: name=log names=qualified payloads=text,bytea message_ids=json ordered=yes columns=id,message_id,rv,topic,payload,!status progress=subscription,high,seen exception=subscription,id,state
--
-- The outbox as a log on SQL Server: a message is written once and never changed.  Its result is beside the
-- table, so that a producer pays for two indexes alone.
--
--     table            one row for each message
--     table_progress   the position of a subscription, or of its shares: what is below it was taken over
--     table_exception  one row for each message below or above the position that waits, failed or died
--
-- A message is pending if the position does not cover it.  If an exception has its id, that says its state: 0 it
-- waits, 1 it is tried alone, 2 its handler wrote that it is done, 3 it failed, 4 it is dead.  Otherwise it is
-- delivered.
--
-- A position is a row version, and not an id: mssql.log.sql.  Ids only name messages.  Statements of relays wait for an
-- owner who has changed or deleted a row; those of operators pass over rows that others have locked.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.report.sql

-- include: mssql.message.sql

-- include: mssql.positions.sql

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

-- part: sane
-- Condition: a relay can handle the row.  The payload is not checked, since its limit is a setting.
id > 0 AND id < 4611686018427387904 AND created_at >= '19700101' AND DATALENGTH(headers) <= 2097152

-- part: has_versions
-- Condition: an index begins with the row version; an administrator may have named it.
EXISTS (SELECT 1 FROM sys.index_columns AS x
        JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
        WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.key_ordinal = 1 AND c.name = N'rv')

-- include: mssql.enqueue.sql

-- include: mssql.marks.sql

-- name: migrate-1
{own_tables}
IF OBJECT_ID(N{'table}, N'U') IS NULL
BEGIN
  CREATE TABLE {table}(
    id             BIGINT IDENTITY(1, 1) NOT NULL PRIMARY KEY CLUSTERED,
    rv             ROWVERSION NOT NULL,
    message_id     NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT {new_message_id},
    topic          NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate_type NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'',
    aggregate_id   NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'',
    partition_key  NVARCHAR(1024) COLLATE Latin1_General_BIN2,
    headers        NVARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'{}',
    trace_id       NVARCHAR(255) COLLATE Latin1_General_BIN2,
    created_at     DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    CONSTRAINT {bare_sane} CHECK ({sane})
  );
  IF N'{payload_type}' = N'VARBINARY(MAX)'
    ALTER TABLE {table} ADD payload VARBINARY(MAX) NOT NULL;
  ELSE
    ALTER TABLE {table} ADD payload NVARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL;
  -- A business transaction that adds thousands of rows must keep row locks.
  ALTER TABLE {table} SET (LOCK_ESCALATION = DISABLE);
END;
IF NOT {has_versions}
  CREATE INDEX {bare_rv} ON {table}(rv);
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
-- The table may be a new one, after the old one was dropped by hand: its messages have ids that the old ones had.
DELETE x FROM (SELECT e.subscription, e.id FROM {table_exception} AS e
               WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = e.id)) AS i
JOIN {table_exception} AS x {by_seek} ON x.id = i.id AND x.subscription = i.subscription
{loop};
{stub_procedures}
{make_procedures}
-- It may have been dropped, since only others are read.
IF NOT EXISTS (SELECT 1 FROM {table_progress})
  INSERT INTO {table_progress}(subscription, high, seen) VALUES ({subscription}, 0, N'');
IF NOT EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = N{name})
  INSERT INTO {wherry_outbox}(name) VALUES (N{name});
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'log' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'log', N{name}, 1, 100);

-- name: indexes-missing
-- Number of missing indexes of the outbox, and of missing tables beside it.  A procedure of another version counts too.
SELECT CASE WHEN {has_versions} THEN 0 ELSE 1 END
  + (SELECT COUNT(*) FROM (VALUES (N{'table_progress}), (N{'table_exception})) AS w(name)
     WHERE OBJECT_ID(w.name, N'U') IS NULL)
  + {procedures_stale};

-- part: drop_consumers
DECLARE @of NVARCHAR(600) = (SELECT MIN(f.called) FROM {consume_procedures} AS f), @sql NVARCHAR(2000);
WHILE @of IS NOT NULL
BEGIN
  SET @sql = N'DROP PROCEDURE ' + @of;
  EXEC (@sql);
  SET @of = (SELECT MIN(f.called) FROM {consume_procedures} AS f);
END

-- name: drop
IF OBJECT_ID(N{'table_progress}, N'U') IS NOT NULL
  EXEC (N{'drop_consumers});
DROP TABLE {table};
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

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'log' AND name = :name;

-- name: columns
{column_names};

-- name: enqueue
{insertion};

-- name: enqueue-once
{insert_once};

-- part: make_unique
CREATE UNIQUE INDEX {bare_message_id} ON {table}(message_hash)

-- part: is_unique
EXISTS (SELECT 1 FROM sys.indexes AS i
        JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.key_ordinal = 1
        JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
        WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.is_unique = 1 AND c.name = N'message_hash')

-- name: add-unique
-- SQL Server ignores blanks at the end of a text when it compares, so ids are unique by their hashes.
IF COL_LENGTH(N{'table}, N'message_hash') IS NULL
  ALTER TABLE {table} ADD message_hash AS CAST(HASHBYTES('SHA2_256', message_id) AS BINARY(32)) PERSISTED NOT NULL;
IF NOT {is_unique}
  EXEC (N{'make_unique});

-- name: unique-ids
SELECT CASE WHEN {is_unique} THEN 1 ELSE 0 END;

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

-- include: mssql.subscription.sql
