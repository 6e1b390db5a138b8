-- layout: name=native names=qualified columns=consumer,message_id,accepted_at
--
-- The inbox on SQL Server.  Times are DATETIME2, UTC, which the driver reads as Unix milliseconds.
--
-- SQL Server ignores blanks at the end of a text when it compares, whatever the collation, and has
-- no index of keys above 1,700 bytes.  So the key is made of hashes, which it compares byte for
-- byte (ids_compare_byte_for_byte).

-- include: mssql.sql

-- include: mssql.own.sql

-- part: no_accepted
-- Condition: no index begins with accepted_at.
NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS i
  JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
  WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.key_ordinal = 1 AND c.name = N'accepted_at')

-- part: procedure_purge
-- Procedure for every language.  It runs in the caller's transaction and with the caller's rights.
ALTER PROCEDURE {wherry_inbox_purge} @older_than_ms BIGINT, @inbox NVARCHAR(4000) = N'inbox', @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @box NVARCHAR(400) = (SELECT N{'schema.} + QUOTENAME(i.name, N'"') FROM {wherry_schema} AS i
    WHERE i.model = N'inbox' AND i.name = @inbox);
  DECLARE @why NVARCHAR(300) = CONCAT(N'there is no inbox ', @inbox, N': create it with wherry create --kind inbox');
  IF @box IS NULL
    THROW 50208, @why, 1;
  IF ISNULL(@older_than_ms, -1) < 0
    THROW 50213, N'@older_than_ms must be 0 or more', 1;
  DECLARE @before DATETIME2(3) = DATEADD(MILLISECOND, -CAST(@older_than_ms % 86400000 AS INT), DATEADD(DAY,
    -CAST(CASE WHEN @older_than_ms < 3153600000000 THEN @older_than_ms ELSE 3153600000000 END / 86400000 AS INT), SYSUTCDATETIME()));
  -- As in "purge-accepted", rows that another transaction has locked are skipped.
  DECLARE @gone BIGINT = 1, @sql NVARCHAR(MAX) = N'DELETE t FROM (
    SELECT TOP (1000) consumer_hash, message_hash FROM ' + @box + N' WITH (READPAST, READCOMMITTEDLOCK, UPDLOCK, ROWLOCK)
    WHERE accepted_at <= @before ORDER BY accepted_at) AS d JOIN ' + @box + N' AS t {by_seek}
    ON t.consumer_hash = d.consumer_hash AND t.message_hash = d.message_hash {loop}; SET @gone = @@ROWCOUNT;';
  SET @n = 0;
  WHILE @gone > 0
  BEGIN
    EXEC sp_executesql @sql, N'@before DATETIME2(3), @gone BIGINT OUTPUT', @before, @gone OUTPUT;
    SET @n = @n + @gone;
  END;
END;

-- part: make_procedures
EXEC (N{'procedure_purge});

-- part: own_procedures
(VALUES (N'wherry_inbox_purge'))

-- part: procedures_text
N{'make_procedures}

-- include: mssql.marks.sql

-- name: migrate-1
{own_tables}
IF OBJECT_ID(N{'table}, N'U') IS NULL
  CREATE TABLE {table}(
    consumer      NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'',
    message_id    NVARCHAR(1024) COLLATE Latin1_General_BIN2 NOT NULL
                    CHECK (DATALENGTH(message_id) > 0),
    accepted_at   DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    consumer_hash AS CAST(HASHBYTES('SHA2_256', consumer) AS BINARY(32)) PERSISTED NOT NULL,
    message_hash  AS CAST(HASHBYTES('SHA2_256', message_id) AS BINARY(32)) PERSISTED NOT NULL,
    PRIMARY KEY (consumer_hash, message_hash)
  );
IF {no_accepted}
  CREATE INDEX {bare_accepted} ON {table}(accepted_at);
{stub_procedures}
{make_procedures}
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'inbox' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'inbox', N{name}, 1, 100);

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'inbox' AND name = :name;

-- name: columns
{column_names};

-- name: indexes-missing
-- If a procedure is missing or of another version, the inbox needs to be made again.
SELECT CASE WHEN {no_accepted} THEN 1 ELSE 0 END + {procedures_stale};

-- name: drop
DROP TABLE {table};
DELETE FROM {wherry_schema} WHERE model = N'inbox' AND name = N{name};
-- When the last inbox is dropped, drop the functions and procedures that only inboxes share.
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'inbox')
  DROP PROCEDURE IF EXISTS {wherry_inbox_purge};

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: accept
-- If the statement inserts no row, the message was accepted before.  If another transaction that
-- accepted the message is open, the INSERT waits for its lock of the key until it ends.
-- The error for a key that exists must not end the caller's transaction, so XACT_ABORT is off; SQL
-- Server restores it at the end of a prepared statement.
SET XACT_ABORT OFF;
BEGIN TRY
  INSERT INTO {table}(consumer, message_id) VALUES (:consumer, :message_id);
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH;

-- name: accept-many
-- Returns the ids that are new.  HOLDLOCK locks the key of an id that does not exist until the
-- transaction ends, and UPDLOCK makes a second transaction wait for it.  The ids are read in one order,
-- so that two transactions do not wait for each other.
DECLARE @new TABLE(id NVARCHAR(1024) COLLATE Latin1_General_BIN2 NOT NULL);
INSERT INTO {table}(consumer, message_id) OUTPUT inserted.message_id INTO @new
SELECT :consumer, d.id FROM (
  SELECT TOP (2147483647) MIN(j.value) AS id
  FROM OPENJSON(:ids) AS j
  WHERE NOT EXISTS (SELECT 1 FROM {table} WITH (UPDLOCK, HOLDLOCK)
                    WHERE consumer_hash = HASHBYTES('SHA2_256', :consumer)
                      AND message_hash = HASHBYTES('SHA2_256', j.value))
  GROUP BY HASHBYTES('SHA2_256', j.value)
  ORDER BY HASHBYTES('SHA2_256', j.value)) AS d;
SELECT id FROM @new;

-- name: forget
DELETE FROM {table}
WHERE consumer_hash = HASHBYTES('SHA2_256', :consumer)
  AND message_hash = HASHBYTES('SHA2_256', :message_id);

-- name: purge-accepted
-- DATEADD takes 32 bits, so days and milliseconds of a day are added separately.  READPAST skips rows of
-- open transactions, and READCOMMITTEDLOCK lets it do so in a database with READ_COMMITTED_SNAPSHOT.
DELETE t FROM (
  SELECT TOP (:limit) consumer_hash, message_hash
  FROM {table} WITH (READPAST, READCOMMITTEDLOCK, UPDLOCK, ROWLOCK)
  WHERE accepted_at <= DATEADD(MILLISECOND, CAST(-(:age % 86400000) AS INT), DATEADD(DAY,
    CAST(-(CASE WHEN :age < 3153600000000 THEN :age ELSE 3153600000000 END / 86400000) AS INT),
    SYSUTCDATETIME()))
  ORDER BY accepted_at) AS d JOIN {table} AS t {by_seek}
ON t.consumer_hash = d.consumer_hash AND t.message_hash = d.message_hash
{loop};

-- name: count-old
-- The number of ids that "purge-accepted" would delete.
SELECT COUNT_BIG(*) FROM {table} WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK)
WHERE accepted_at <= DATEADD(MILLISECOND, CAST(-(:age % 86400000) AS INT), DATEADD(DAY,
  CAST(-(CASE WHEN :age < 3153600000000 THEN :age ELSE 3153600000000 END / 86400000) AS INT),
  SYSUTCDATETIME()));

-- name: count
SELECT COUNT_BIG(*),
       COALESCE(MAX(CASE WHEN accepted_at < SYSUTCDATETIME()
                         THEN DATEDIFF_BIG(MILLISECOND, accepted_at, SYSUTCDATETIME())
                         ELSE 0 END), 0)
FROM {table} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK);
