-- layout: name=native names=qualified columns=target,name,hash,until_ms,active
--
-- The records of schedules on SQL Server.  Times are Unix milliseconds.
--
-- SQL Server ignores blanks at the end of a text when it compares.  So the primary key has the lengths of
-- the texts too.

-- include: mssql.sql

-- include: mssql.own.sql

-- name: migrate-1
{own_tables}
IF OBJECT_ID(N{'table}, N'U') IS NULL
  CREATE TABLE {table}(
    target   NVARCHAR(200) COLLATE Latin1_General_BIN2 NOT NULL,
    name     NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,
    hash     NVARCHAR(64) COLLATE Latin1_General_BIN2 NOT NULL,
    until_ms BIGINT NOT NULL DEFAULT 0    -- ticks were made up to that time
               CHECK (until_ms BETWEEN 0 AND 253402300799999),
    active   BIT NOT NULL DEFAULT 0,
    bytes    AS (DATALENGTH(target) * 1000000 + DATALENGTH(name) * 1000 + DATALENGTH(hash)) PERSISTED NOT NULL,
    PRIMARY KEY (target, name, hash, bytes)
  );
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'cron' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'cron', N{name}, 1, 100);

-- name: migrate-2
-- Columns that show the schedule to a person, who cannot read it from the hash.
IF COL_LENGTH(N{'table}, N'schedule') IS NULL ALTER TABLE {table} ADD schedule NVARCHAR(256) NULL;
IF COL_LENGTH(N{'table}, N'zone') IS NULL ALTER TABLE {table} ADD "zone" NVARCHAR(100) NULL;
IF COL_LENGTH(N{'table}, N'sends_to') IS NULL ALTER TABLE {table} ADD sends_to NVARCHAR(400) NULL;
UPDATE {wherry_schema} SET version = 2 WHERE model = N'cron' AND name = N{name};

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'cron' AND name = :name;

-- name: columns
{column_names};

-- name: drop
DROP TABLE {table};
DELETE FROM {wherry_schema} WHERE model = N'cron' AND name = N{name};

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- part: place
DECLARE @target NVARCHAR(200) = :target, @name NVARCHAR(100) = :name, @hash NVARCHAR(64) = :hash;

-- part: this
WHERE target = @target AND name = @name AND hash = @hash
  AND bytes = DATALENGTH(@target) * 1000000 + DATALENGTH(@name) * 1000 + DATALENGTH(@hash)

-- part: others
-- Other active schedules of this name.
WHERE target = @target AND name = @name AND active = 1
  AND bytes / 1000 = DATALENGTH(@target) * 1000 + DATALENGTH(@name)
  AND NOT (hash = @hash AND bytes % 1000 = DATALENGTH(@hash))

-- part: for_now
DECLARE @now BIGINT = COALESCE(CAST(:now AS BIGINT), {clock});

-- name: remember
-- If two programs begin at the same time, the second waits for the lock of the key that the first inserts.
-- The error for a key that exists must not end the caller's transaction, so XACT_ABORT is off; SQL Server
-- restores it at the end of a prepared statement.
SET XACT_ABORT OFF;
{place}
IF NOT EXISTS (SELECT 1 FROM {table} WITH (READCOMMITTEDLOCK) {this})
  BEGIN TRY
    INSERT INTO {table}(target, name, hash) VALUES (@target, @name, @hash);
  END TRY
  BEGIN CATCH
    IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
  END CATCH;

-- name: look
-- An update that changes nothing: its lock lasts until the transaction ends, so no other program makes
-- ticks of this schedule (several_that_fire_at_once_make_each_tick_once).  The row is read afterwards, since
-- on Babelfish the OUTPUT of an update that waited has the values from before the wait.
{place}
{for_now}
UPDATE {table} WITH (ROWLOCK) SET active = active {this};
SELECT until_ms, active, @now FROM {table} WITH (READCOMMITTEDLOCK) {this};

-- name: active
{place}
SELECT TOP (1) hash, until_ms FROM {table} {others};

-- name: advance
{place}
DECLARE @until BIGINT = :until, @schedule NVARCHAR(256) = :schedule, @zone NVARCHAR(100) = :zone,
  @sends_to NVARCHAR(400) = :sends_to;
UPDATE {table} WITH (ROWLOCK) SET until_ms = CASE WHEN until_ms > @until THEN until_ms ELSE @until END, active = 1,
  schedule = COALESCE(@schedule, schedule), "zone" = COALESCE(@zone, "zone"), sends_to = COALESCE(@sends_to, sends_to)
{this};

-- name: retire
-- Ticks after :until were removed before a consumer handled them, so they may be installed again.
{place}
DECLARE @until BIGINT = :until;
UPDATE {table} WITH (ROWLOCK) SET active = 0, until_ms = CASE WHEN until_ms < @until THEN until_ms ELSE @until END {this};

-- name: retire-others
{place}
UPDATE {table} WITH (ROWLOCK) SET active = 0 {others};

-- name: forget
-- All schedules of a name, for all targets.
DELETE FROM {table} WITH (ROWLOCK) WHERE name = :name;

-- name: list
-- waits: an entry that a transaction is firing is not left out
SELECT target, name, hash, until_ms, active, schedule, "zone", sends_to FROM {table} ORDER BY target, name, hash, bytes;
