--
-- Tables of Wherry's own on SQL Server, which every model shares.

-- part: column_names
-- The columns of a table that is there already; none if it is not.
SELECT c.name FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(N{'schema.} + QUOTENAME(:name), N'U')

-- part: has_schema
SELECT CASE WHEN OBJECT_ID(N{'wherry_schema}, N'U') IS NULL THEN 0 ELSE 1 END

-- name: migrate-lock
-- Of two that migrate at once the second waits and then finds the work done.  The lock ends with
-- the transaction.
EXEC sp_getapplock @Resource = N'wherry_migrate', @LockMode = 'Exclusive',
                   @LockOwner = 'Transaction';

-- name: owners
-- A table with a name of Wherry's own that belongs to a stranger.  SQL Server gives a table to the
-- owner of its schema, unless somebody changed that: then principal_id says to whom.
SELECT N'table ' + t.name, USER_NAME(t.principal_id)
FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = :schema AND t.principal_id <> s.principal_id
  AND t.object_id IN (OBJECT_ID(N{'table}, N'U'), OBJECT_ID(N{'wherry_schema}, N'U'));

-- part: own_tables
-- Which tables there are, in which version.
IF OBJECT_ID(N{'wherry_schema}, N'U') IS NULL
  CREATE TABLE {wherry_schema}(
    model       NVARCHAR(20) COLLATE Latin1_General_BIN2 NOT NULL,
    name        NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL,
    version     INT NOT NULL,
    min_program INT NOT NULL,   -- the oldest program that may still run
    PRIMARY KEY (model, name)
  );

-- part: tables_left
SELECT COUNT_BIG(*) FROM {wherry_schema}

-- part: drop_own
-- Nothing uses it any more.
DROP TABLE {wherry_schema};
