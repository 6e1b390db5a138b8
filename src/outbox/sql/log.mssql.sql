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

-- part: identified
N{'table}

-- include: mssql.positions.sql

-- include: mssql.source.sql

-- include: mssql.enqueue.sql

-- include: mssql.marks.sql

-- include: mssql.beside.sql

-- part: sane
-- Condition: a relay can handle the row.  The payload is not checked, since its limit is a setting.
id > 0 AND id < 4611686018427387904 AND created_at >= '19700101' AND DATALENGTH(headers) <= 2097152

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
{progress_table}
{exception_table}
{stub_procedures}
{make_procedures}
{begin_subscriptions}

-- name: indexes-missing
-- Number of missing indexes of the outbox, and of missing tables beside it.  A procedure of another version counts too.
SELECT CASE WHEN {has_versions} THEN 0 ELSE 1 END
  + (SELECT COUNT(*) FROM (VALUES (N{'table_progress}), (N{'table_exception})) AS w(name)
     WHERE OBJECT_ID(w.name, N'U') IS NULL)
  + {procedures_stale};

-- name: drop
DROP TABLE {table};
{unregister}

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = N'log' AND name = :name AND NOT {is_view};

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

-- include: mssql.subscription.sql

-- part: last_passed
-- Rows above this id need not be read: the highest id of the last 1,000 rows that every subscription has passed.
COALESCE((SELECT MAX(l.id) FROM (
  SELECT TOP (1000) e.id FROM {table} AS e {unlocked} WHERE e.rv <= {passed_by_all} ORDER BY e.rv DESC) AS l), 0)

-- part: is_young
-- Condition: the row is younger than the age.  A time of more than a day ahead says nothing about that, or one row with
-- such a time, which may be dead, would keep all rows after it.
{.}created_at > {old} AND {.}created_at <= DATEADD(DAY, 1, SYSUTCDATETIME())

-- part: passed
-- Messages that every subscription has passed and that are not exceptions.  If the first row is too young, none is read.
SELECT t.id, CASE WHEN {is_young:t} THEN 1 ELSE 0 END AS is_young FROM {table} AS t {unlocked}
WHERE t.id > :after AND t.id <= {last_passed} AND t.rv <= {passed_by_all}
  AND NOT EXISTS (SELECT 1 FROM (
    SELECT TOP (1) f.created_at FROM {table} AS f {unlocked} WHERE f.id > :after ORDER BY f.id) AS y WHERE {is_young:y})
  AND NOT EXISTS (SELECT 1 FROM {table_progress} AS p JOIN {table_exception} AS x
                    ON x.id = t.id AND x.subscription = p.subscription WHERE x.state <> 2)

-- name: purge
-- Of these those that are older than the age, up to the first one that is younger.  So it reads no more rows than it may
-- delete, and exceptions, which it leaves: the next batch begins behind the last row of this one (:after).  A message that
-- its owner changed meanwhile is to be delivered again, and stays.
DECLARE @gone TABLE (id BIGINT NOT NULL);
{some}
SELECT w.id FROM (
  SELECT c.id, MIN(CASE WHEN c.is_young = 1 THEN c.id END) OVER () AS young
  FROM (SELECT TOP (:limit) o.id, o.is_young FROM ({passed}) AS o ORDER BY o.id) AS c) AS w
WHERE w.young IS NULL OR w.id < w.young;
DELETE t OUTPUT deleted.id INTO @gone(id)
FROM {some_rows} WHERE t.rv <= {passed_by_all}
{loop};
SET NOCOUNT OFF;
SELECT s.id, CASE WHEN g.id IS NULL THEN 1 ELSE 0 END FROM @some AS s LEFT JOIN @gone AS g ON g.id = s.id;

-- name: purge-count
SELECT COUNT_BIG(*) FROM ({passed}) AS o WHERE o.id < COALESCE(
  (SELECT TOP (1) c.id FROM ({passed}) AS c WHERE c.is_young = 1 ORDER BY c.id), 9223372036854775807);

-- name: discard
-- Delivered messages are not deleted.  A relay that has the message in flight finds no exception of it.  The messages go
-- first: without them the exceptions say nothing.
{not_delivered};
{of_some}
DELETE t FROM {some_rows}
{loop};
SET NOCOUNT ON;
DELETE x FROM {some_exceptions}
{loop};
SET NOCOUNT OFF;
