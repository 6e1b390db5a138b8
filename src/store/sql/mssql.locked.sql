--
-- Rows that others have locked, in the tables of all layouts.  A layout defines how to find a row by its id and
-- lock it in the primary key (lock_row), and which condition needs the row itself (whole_row).

-- name: locked
-- Rows that another transaction has locked.  The statement waits for none.  UPDLOCK finds rows that are locked
-- for an update too, with which a shared lock is compatible.
--
-- NOLOCK does not find a row that an open transaction has deleted, and READPAST skips it like a row that does not
-- exist.  So a row that was not found is read once more: NOWAIT fails with error 1222 if its deletion can still be
-- rolled back, and finds nothing if it cannot.  XACT_ABORT is off, so that this error does not end the transaction;
-- SQL Server restores it at the end of a prepared statement.
SET XACT_ABORT OFF;
SET NOCOUNT ON;
DECLARE @given TABLE(id BIGINT NOT NULL PRIMARY KEY);
DECLARE @gone TABLE(id BIGINT NOT NULL PRIMARY KEY);
DECLARE @locked TABLE(id BIGINT NOT NULL PRIMARY KEY);
DECLARE @id BIGINT, @met BIGINT;
INSERT INTO @given(id) SELECT DISTINCT CAST(value AS BIGINT) FROM OPENJSON(:ids);
INSERT INTO @gone(id)
SELECT g.id FROM @given AS g WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WITH (NOLOCK) WHERE t.id = g.id);
INSERT INTO @locked(id)
SELECT g.id FROM @given AS g
WHERE NOT EXISTS (SELECT 1 FROM @gone AS d WHERE d.id = g.id)
  AND NOT EXISTS (SELECT 1 FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK, {lock_row})
                  WHERE t.id = g.id {whole_row})
{loop};
SELECT @id = MIN(id) FROM @gone;
WHILE @id IS NOT NULL
BEGIN
  BEGIN TRY
    SELECT @met = t.id FROM {table} AS t WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, NOWAIT, {lock_row})
    WHERE t.id = @id {whole_row};
  END TRY
  BEGIN CATCH
    IF ERROR_NUMBER() <> 1222 THROW;
    INSERT INTO @locked(id) VALUES (@id);
  END CATCH;
  SELECT @id = MIN(id) FROM @gone WHERE id > @id;
END;
SET NOCOUNT OFF;
SELECT id FROM @locked;
