-- layout: name=adopt columns=
--
-- Looks at a table of another program on SQL Server for `wherry adopt`, and has the expressions that make a column of it a
-- column of a log.  In these @c@ is the column.  An expression is called FIELD-TYPE, or FIELD-any if that type
-- has no separate one.

-- part: resource
CONCAT(N'wherry_adopt:', OBJECT_ID(N{'table}))

-- name: alone
-- Whether nobody else adopts the table until "alone-end".
DECLARE @granted INT, @adopted NVARCHAR(255) = {resource};
EXEC @granted = sp_getapplock @Resource = @adopted, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
SELECT CASE WHEN @granted < 0 THEN 0 ELSE 1 END;

-- name: alone-end
DECLARE @adopted NVARCHAR(255) = {resource};
EXEC sp_releaseapplock @Resource = @adopted, @LockOwner = 'Session';

-- part: is_version
TYPE_NAME(c.system_type_id) IN (N'timestamp', N'rowversion')

-- name: look
-- The kind of the table, its rows and size, whether its owner is the caller, its owner, whether it has what adopt
-- adds, and whether an index was not made to its end: there it is not there.
SELECT CASE WHEN o.type = 'U' THEN N'r' ELSE N'v' END, 0, N'', COALESCE(HAS_PERMS_BY_NAME(N{'table}, N'OBJECT', N'ALTER'), 0),
  COALESCE(USER_NAME(o.principal_id), USER_NAME(s.principal_id)),
  CASE WHEN EXISTS (SELECT 1 FROM sys.columns AS c WHERE c.object_id = o.object_id AND c.name = N'wherry_rv')
         OR EXISTS (SELECT 1 FROM sys.columns AS c
                    JOIN sys.index_columns AS x ON x.object_id = c.object_id AND x.column_id = c.column_id AND x.key_ordinal = 1
                    WHERE c.object_id = o.object_id AND {is_version})
       THEN 1 ELSE 0 END, 0, 0
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.object_id = OBJECT_ID(N{'table});

-- name: read-columns
-- Each column: its name and type, whether it is never NULL, and whether it alone is unique.
SELECT c.name, CASE WHEN {is_version} THEN N'rowversion'
    WHEN TYPE_NAME(c.system_type_id) IN (N'bigint', N'int', N'smallint', N'tinyint') THEN N'integer'
    WHEN TYPE_NAME(c.system_type_id) IN (N'nvarchar', N'nchar') THEN N'text'
    WHEN TYPE_NAME(c.system_type_id) IN (N'varchar', N'char', N'text', N'ntext') THEN N'varchar'
    WHEN TYPE_NAME(c.system_type_id) IN (N'varbinary', N'binary', N'image') THEN N'bytea'
    WHEN TYPE_NAME(c.system_type_id) IN (N'datetime2', N'datetime', N'smalldatetime', N'date') THEN N'time'
    WHEN TYPE_NAME(c.system_type_id) = N'datetimeoffset' THEN N'time-offset'
    WHEN TYPE_NAME(c.system_type_id) = N'bit' THEN N'boolean'
    ELSE TYPE_NAME(c.system_type_id) END,
  CASE WHEN c.is_nullable = 0 THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM sys.indexes AS i
                    JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.key_ordinal = 1
                    WHERE i.object_id = c.object_id AND i.is_unique = 1 AND i.is_disabled = 0 AND i.has_filter = 0
                      AND x.column_id = c.column_id
                      AND NOT EXISTS (SELECT 1 FROM sys.index_columns AS y WHERE y.object_id = i.object_id
                                        AND y.index_id = i.index_id AND y.key_ordinal > 1)) THEN 1 ELSE 0 END
FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N{'table}, N'U') ORDER BY c.column_id;

-- name: literal-prefix
N

-- name: version-column
-- It says when a row was written.  A table that has a row version cannot get another one.
wherry_rv

-- name: version
@c@ AS rv

-- name: text-text
@c@ COLLATE Latin1_General_BIN2

-- name: text-uniqueidentifier
LOWER(CAST(@c@ AS NVARCHAR(36))) COLLATE Latin1_General_BIN2

-- name: text-any
CAST(@c@ AS NVARCHAR(MAX)) COLLATE Latin1_General_BIN2

-- name: text-text-null
COALESCE(@c@, N'') COLLATE Latin1_General_BIN2

-- name: text-uniqueidentifier-null
COALESCE(LOWER(CAST(@c@ AS NVARCHAR(36))), N'') COLLATE Latin1_General_BIN2

-- name: text-null
COALESCE(CAST(@c@ AS NVARCHAR(MAX)), N'') COLLATE Latin1_General_BIN2

-- name: message-id-uniqueidentifier-null
COALESCE(LOWER(CAST(@c@ AS NVARCHAR(36))), CAST(@id@ AS NVARCHAR(40))) COLLATE Latin1_General_BIN2

-- name: message-id-any-null
COALESCE(NULLIF(CAST(@c@ AS NVARCHAR(MAX)), N''), CAST(@id@ AS NVARCHAR(40))) COLLATE Latin1_General_BIN2

-- part: headers
-- STRING_AGG needs SQL Server 2017.
COALESCE((SELECT NCHAR(123) + STRING_AGG(CAST(CONCAT(N'"', STRING_ESCAPE(h."key", N'json'), N'":"', STRING_ESCAPE(h.value, N'json'), N'"') AS NVARCHAR(MAX)), N',') + NCHAR(125)
    FROM OPENJSON(CASE WHEN ISJSON(@c@) = 1 AND LEFT(LTRIM(@c@), 1) = NCHAR(123) THEN @c@ ELSE N'{}' END) AS h WHERE h.value IS NOT NULL), N'{}') COLLATE Latin1_General_BIN2

-- name: headers-text
{headers}

-- name: headers-varchar
{headers}

-- name: headers-expression
{headers}

-- name: headers-none
N'{}' COLLATE Latin1_General_BIN2

-- name: payload-bytea
CAST(@c@ AS VARBINARY(MAX))

-- name: payload-bytea-null
CAST(COALESCE(@c@, 0x) AS VARBINARY(MAX))

-- name: payload-any
CAST(@c@ AS NVARCHAR(MAX)) COLLATE Latin1_General_BIN2

-- name: payload-any-null
COALESCE(CAST(@c@ AS NVARCHAR(MAX)), N'') COLLATE Latin1_General_BIN2

-- name: time-time
CAST(@c@ AS DATETIME2(3))

-- name: time-time-offset
CAST(SWITCHOFFSET(@c@, 0) AS DATETIME2(3))

-- name: time-integer
-- Seconds, or milliseconds.
DATEADD(MILLISECOND, CAST(CASE WHEN @c@ BETWEEN 100000000001 AND 253402300799999 THEN @c@ ELSE 0 END % 1000 AS INT), DATEADD(SECOND,
    CAST(CASE WHEN @c@ BETWEEN 100000000001 AND 253402300799999 THEN @c@ / 1000 WHEN @c@ BETWEEN 0 AND 100000000000 THEN @c@ ELSE 0 END % 86400 AS INT),
    DATEADD(DAY, CAST(CASE WHEN @c@ BETWEEN 100000000001 AND 253402300799999 THEN @c@ / 1000 WHEN @c@ BETWEEN 0 AND 100000000000 THEN @c@ ELSE 0 END / 86400 AS INT),
      CAST('19700101' AS DATETIME2(3)))))

-- name: time-null
COALESCE(@c@, CAST('19700101' AS DATETIME2(3)))

-- name: time-none
CAST(SYSUTCDATETIME() AS DATETIME2(3))

-- name: done-set-time
@c@ = SYSUTCDATETIME()

-- name: done-set-time-offset
@c@ = SYSDATETIMEOFFSET()

-- name: done-set-boolean
@c@ = 1

-- name: done-any
@c@

-- name: done-boolean
NULLIF(@c@, 0)

-- name: done-value
-- The first column gets the value @v@.
CASE WHEN @c@ = @v@ THEN 1 END

-- name: open-time
-- Rows that are not done, as the condition of an index.
@c@ IS NULL

-- name: open-time-offset
@c@ IS NULL

-- name: open-boolean
@c@ = 0

-- name: open-value
@c@ <> @v@

-- name: done-never
CAST('00010101' AS DATETIME2(3))

-- name: done-delete
CAST(NULL AS DATETIME2(3))

-- name: is-true
CAST(1 AS BIT)

-- name: is-false
CAST(0 AS BIT)

-- name: no-text
CAST(NULL AS NVARCHAR(255)) COLLATE Latin1_General_BIN2

-- name: add-tx
-- SQL Server gives each row that is there a row version, and nobody can use the table meanwhile.
IF COL_LENGTH(N{'table}, N'wherry_rv') IS NULL
  ALTER TABLE {table} ADD wherry_rv ROWVERSION NOT NULL;

-- name: add-id
-- An id that grows.  SQL Server writes each row again.
IF COL_LENGTH(N{'table}, N'wherry_id') IS NULL
  ALTER TABLE {table} ADD wherry_id BIGINT IDENTITY(1, 1) NOT NULL;

-- name: index-id
IF NOT EXISTS (SELECT 1 FROM sys.index_columns AS x
               JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
               WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.key_ordinal = 1 AND c.name = N'wherry_id')
  CREATE UNIQUE INDEX wherry_id ON {table}(wherry_id);

-- name: index-tx
-- Rows that are done are not in it: each has a new row version since it was marked.  One that is there may have another
-- condition.
DROP INDEX IF EXISTS @index@ ON {table};
CREATE INDEX @index@ ON {table}(@version@)@open@;

-- name: server
-- Words of statements that make a view and a procedure.  Babelfish lacks them: there both are dropped first, and only their owner
-- may call the procedure.
SELECT CASE WHEN @@VERSION LIKE N'Babelfish%' THEN N'CREATE' ELSE N'CREATE OR ALTER' END,
  CASE WHEN @@VERSION LIKE N'Babelfish%' THEN N'' ELSE N' WITH EXECUTE AS OWNER' END;

-- name: drop-made
IF OBJECT_ID(@keep_text@, N'TR') IS NOT NULL DROP TRIGGER @keep@;
DROP VIEW IF EXISTS @view@;
DROP PROCEDURE IF EXISTS @view_delivered@;

-- name: is-marked
-- Whether an expression failed for the row: see adopted.mssql.sql.
EXISTS (SELECT 1 FROM @exceptions@ AS x WHERE x.subscription = N'' AND x.id = t.@id@ AND x.state = 4
        AND COALESCE(x.claim_token, CONVERT(NVARCHAR(20), CONVERT(BIGINT, t.@version@))) = CONVERT(NVARCHAR(20), CONVERT(BIGINT, t.@version@)))

-- name: guard
CASE WHEN @marked@ THEN NULL ELSE @c@ END

-- name: guard-reason
CASE WHEN @marked@ THEN (SELECT x.last_error FROM @exceptions@ AS x WHERE x.subscription = N'' AND x.id = t.@id@) ELSE @c@ END

-- name: guard-where
CASE WHEN @marked@ THEN 1 WHEN (@c@) THEN 1 ELSE 0 END = 1

-- name: view
-- waits: as the statement does that reads it.
@create@ VIEW @view@ AS SELECT
@columns@
FROM {table} AS t@where@;

-- name: note-view
-- The table that it reads.  A DELETE from the view does nothing.
IF NOT EXISTS (SELECT 1 FROM sys.extended_properties AS x
               WHERE x.class = 1 AND x.minor_id = 0 AND x.name = N'wherry_table' AND x.major_id = OBJECT_ID(@view_text@))
  EXEC sp_addextendedproperty @name = N'wherry_table', @value = N{'table}, @level0type = N'SCHEMA', @level0name = @schema_text@,
    @level1type = N'VIEW', @level1name = @name_text@;
DECLARE @make NVARCHAR(MAX) = N'CREATE TRIGGER ' + @keep_text@ + N' ON ' + @view_text@ + N' INSTEAD OF INSERT, DELETE AS SET NOCOUNT ON';
IF OBJECT_ID(@keep_text@, N'TR') IS NULL
  EXEC (@make);

-- name: remembered
-- The options of the last time, of which the procedure keeps a note.
DECLARE @made NVARCHAR(MAX) = OBJECT_DEFINITION(OBJECT_ID(LEFT(:view, LEN(:view) - 1) + N'_delivered"', N'P'));
DECLARE @first INT = CHARINDEX(N' = N''options: ', @made);
SELECT o."key", o.value
FROM OPENJSON(CASE WHEN @first > 0 THEN REPLACE(SUBSTRING(@made, @first + 14, CHARINDEX(NCHAR(10), @made, @first) - @first - 16), N'''''', N'''')
                   ELSE N'{}' END) AS o;

-- part: begin_delivered
-- Relays call it with the ids of rows that every subscription has, and the last row version that all have passed.  It has
-- the rights of the table's owner, so a relay needs none on the table.  A row that somebody has locked waits for the next call.
@create@ PROCEDURE @view_delivered@ @ids NVARCHAR(MAX), @upto BIGINT, @done BIGINT OUTPUT@as_owner@ AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @options NVARCHAR(MAX) = @noted@;

-- part: of_ids
  FROM (SELECT DISTINCT TOP (2147483647) j.wherry_row FROM OPENJSON(@ids) WITH (wherry_row BIGINT '$.id') AS j ORDER BY j.wherry_row) AS i
  JOIN {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK, FORCESEEK) ON t.@id@ = i.wherry_row
  WHERE t.@version@ <= CONVERT(BINARY(8), @upto)@and@
  OPTION (LOOP JOIN, FORCE ORDER);
  SET @done = @@ROWCOUNT;

-- name: on-delivered
{begin_delivered}
  UPDATE t SET @set@
{of_ids}
END

-- name: on-deleted
{begin_delivered}
  DELETE t
{of_ids}
END

-- name: on-nothing
{begin_delivered}
  SET @done = 0;
END

-- name: taken-name
-- Whether something else has the name of the outbox.
SELECT COUNT(*) FROM sys.objects AS o
WHERE o.object_id = OBJECT_ID(:view) AND (COL_LENGTH(:view, N'at_once') IS NULL OR EXISTS (
  SELECT 1 FROM sys.extended_properties AS x
  WHERE x.class = 1 AND x.minor_id = 0 AND x.name = N'wherry_table' AND x.major_id = o.object_id
    AND CAST(x.value AS NVARCHAR(600)) <> N{'table}));

-- name: try-set
-- It changes nothing: in a SELECT these are names of columns.
SELECT TOP (0) @set@ FROM {table} AS t WITH (NOLOCK);

-- name: lowest
SELECT COALESCE(MIN(t.@id@), 1) FROM {table} AS t WITH (NOLOCK)@where@;

-- name: try
-- Fails where adopting would: an expression that the table does not have.
SELECT TOP (0) * FROM (SELECT
@columns@
FROM {table} AS t WITH (NOLOCK)@where@) AS v;

-- name: undone
-- Number of rows that the owner does not count as delivered, up to 100,000.
SELECT COUNT(*) FROM (SELECT TOP (100000) 1 AS one FROM {table} AS t WITH (NOLOCK) WHERE (@done@) IS NULL) AS n;
