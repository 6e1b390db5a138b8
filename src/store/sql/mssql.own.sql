--
-- Tables of Wherry's own on SQL Server, which every model shares.

-- part: column_names
-- Columns of an existing table; no rows if the table does not exist.
SELECT c.name FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(N{'schema.} + QUOTENAME(:name))

-- part: has_schema
SELECT CASE WHEN OBJECT_ID(N{'wherry_schema}, N'U') IS NULL THEN 0 ELSE 1 END

-- name: migrate-lock
-- If two programs migrate at the same time, the second waits and then finds the work done.  The lock ends
-- with the transaction.
DECLARE @granted INT;
EXEC @granted = sp_getapplock @Resource = N'wherry_migrate', @LockMode = 'Exclusive',
                              @LockOwner = 'Transaction';
IF @granted < 0
  THROW 51222, N'another program makes tables here, for longer than the lock timeout', 1;

-- name: owners
-- A table with the name of one of Wherry's tables that has another owner.  On SQL Server the owner of the
-- schema owns its tables, unless principal_id names another owner.
SELECT N'table ' + t.name, USER_NAME(t.principal_id)
FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = :schema AND t.principal_id <> s.principal_id
  AND t.object_id IN (OBJECT_ID(N{'table}, N'U'), OBJECT_ID(N{'table_archive}, N'U'),
                      OBJECT_ID(N{'table_dead}, N'U'), OBJECT_ID(N{'table_progress}, N'U'),
                      OBJECT_ID(N{'table_exception}, N'U'),
                      OBJECT_ID(N{'wherry_schema}, N'U'), OBJECT_ID(N{'wherry_outbox}, N'U'),
                      OBJECT_ID(N{'wherry_lease}, N'U'));

-- part: table_of_row
-- A queue that shares its table is called TABLE:KIND, and a subscription TABLE\NAME.  HAS_PERMS_BY_NAME of a TDS
-- server at hand finds no name of another collation than the database's.
N{'schema.} + QUOTENAME(CASE WHEN SUBSTRING(r.name, LEN(r.name) - 32, 1) = N':' THEN LEFT(r.name, LEN(r.name) - 33)
                        WHEN CHARINDEX(N'\', r.name) > 0 THEN LEFT(r.name, CHARINDEX(N'\', r.name) - 1)
                        ELSE r.name END)

-- part: deny_others
-- In a trigger.  A row of a table that all tables of a schema share names one of these tables.  A role may write it
-- if it may delete rows of the named table, as relays, receivers and operators may; a sender may not
-- (no_user_writes_rows_of_another_table).  A role that may write wherry_schema, such as the owner, may write all.
IF COALESCE(HAS_PERMS_BY_NAME(N{'wherry_schema}, N'OBJECT', N'DELETE'), 0) = 0 AND EXISTS (
  SELECT 1 FROM @names AS r WHERE COALESCE(HAS_PERMS_BY_NAME({table_of_row}, N'OBJECT', N'DELETE'), 0) = 0)
  THROW 51229, N'permission denied: only a role that may delete rows of a table may write the rows that Wherry keeps for it', 1;

-- part: names
SET NOCOUNT ON;
DECLARE @names TABLE (name NVARCHAR(128) COLLATE DATABASE_DEFAULT NOT NULL);
INSERT INTO @names(name)

-- part: own_lease
CREATE TRIGGER {wherry_own_lease} ON {wherry_lease} AFTER INSERT, UPDATE, DELETE AS
BEGIN
  {names} SELECT outbox FROM inserted UNION SELECT outbox FROM deleted;
  {deny_others}
END

-- part: own_outbox
CREATE TRIGGER {wherry_own_outbox} ON {wherry_outbox} AFTER INSERT, UPDATE, DELETE AS
BEGIN
  {names} SELECT name FROM inserted UNION SELECT name FROM deleted;
  {deny_others}
END

-- part: own_tables
-- Wherry's own tables: tables and their versions, the clock, requests of operators, and leases.
IF OBJECT_ID(N{'wherry_schema}, N'U') IS NULL
  CREATE TABLE {wherry_schema}(
    model       NVARCHAR(20) COLLATE Latin1_General_BIN2 NOT NULL,
    name        NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL,
    version     INT NOT NULL,
    min_program INT NOT NULL,   -- the oldest program that may still run
    PRIMARY KEY (model, name)
  );
IF OBJECT_ID(N{'wherry_clock}, N'V') IS NULL
  EXEC(N'CREATE VIEW ' + N{'wherry_clock} + N'(ms) AS
         SELECT DATEDIFF_BIG(MILLISECOND, ''19700101'', SYSUTCDATETIME())');
IF OBJECT_ID(N{'wherry_outbox}, N'U') IS NULL
  CREATE TABLE {wherry_outbox}(
    name      NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY,
    paused_at DATETIME2(3),         -- relays deliver nothing while set
    control_version BIGINT NOT NULL DEFAULT 0   -- grows when rows changed behind the relay
  );
IF OBJECT_ID(N{'wherry_lease}, N'U') IS NULL
  CREATE TABLE {wherry_lease}(
    outbox     NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL,
    number     INT NOT NULL,
    engine     NVARCHAR(40) NOT NULL,
    owner      NVARCHAR(255) NOT NULL,
    epoch      BIGINT NOT NULL,     -- fences every acknowledgement
    expires_at DATETIME2(3) NOT NULL,
    lasts      BIGINT NOT NULL DEFAULT 0,  -- milliseconds, from each renewal on
    clean      INT NOT NULL,        -- given back with nothing in flight
    unclean    INT NOT NULL,        -- unclean ends in a row
    win        BIGINT NOT NULL,     -- messages the holder may have in flight
    suspects   BIGINT NOT NULL,     -- messages to try one at a time
    members    NVARCHAR(4000) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'',  -- tokens of those that hold it together, ",a,b,"
    mask       BIGINT NOT NULL DEFAULT -1,
    process    NVARCHAR(255) NOT NULL DEFAULT N'', -- the holder's, for others on its machine
    state      NVARCHAR(40) NOT NULL DEFAULT N'',  -- leading, paused, retrying (the destination), stopped
    state_since DATETIME2(3),
    destination NVARCHAR(1024) NOT NULL DEFAULT N'', -- scheme and host
    delivered  BIGINT NOT NULL DEFAULT 0, -- messages, since the lease was taken
    delivered_at DATETIME2(3),            -- the last one
    error      NVARCHAR(MAX) NOT NULL DEFAULT N'',  -- the last reason why a delivery failed
    error_at   DATETIME2(3),
    PRIMARY KEY (outbox, number)
  );
IF OBJECT_ID(N{'wherry_own_outbox}, N'TR') IS NULL EXEC (N{'own_outbox});
IF OBJECT_ID(N{'wherry_own_lease}, N'TR') IS NULL EXEC (N{'own_lease});

-- part: tables_left
-- Outboxes of other layouts have a row only in wherry_outbox.
SELECT (SELECT COUNT_BIG(*) FROM {wherry_schema}) + (SELECT COUNT_BIG(*) FROM {wherry_outbox})

-- part: drop_own
-- Drop them if no table of Wherry's uses them any more.
IF OBJECT_ID(N{'wherry_enqueue}, N'P') IS NOT NULL DROP PROCEDURE {wherry_enqueue};
IF OBJECT_ID(N{'wherry_consume}, N'P') IS NOT NULL DROP PROCEDURE {wherry_consume};
DROP VIEW IF EXISTS {wherry_clock};
DROP TABLE IF EXISTS {wherry_lease};
DROP TABLE IF EXISTS {wherry_outbox};
DROP TABLE {wherry_schema};
