--
-- Numbers of messages, and statements for dead messages, for the tables of all layouts.  With READPAST a
-- reader waits for no transaction, and does not see rows that others are writing.

-- name: count
-- Number of due, leased, waiting and dead messages; milliseconds since the first became due, and until
-- the next can be polled; -1: there is none.
{for_kind}
{for_now}
SELECT COALESCE(SUM(CASE WHEN t.at <= @now THEN CAST(1 AS BIGINT) ELSE 0 END), 0),
  COALESCE(SUM(CASE WHEN t.at > @now AND t.token IS NOT NULL THEN CAST(1 AS BIGINT) ELSE 0 END), 0),
  COALESCE(SUM(CASE WHEN t.at > @now AND t.token IS NULL THEN CAST(1 AS BIGINT) ELSE 0 END), 0),
  (SELECT COUNT_BIG(*) FROM {table_dead} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) WHERE "pKind" = @kind),
  CASE WHEN MIN(t.at) < @now THEN @now - MIN(t.at) ELSE 0 END,
  CASE WHEN MIN(t.at) > @now THEN MIN(t.at) - @now WHEN MIN(t.at) IS NULL THEN -1 ELSE 0 END
FROM (SELECT {scheduled_ms:m} AS at, m."lockUuid" AS token
      FROM {table} AS m WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) WHERE m."pKind" = @kind) AS t;

-- name: count-table
-- Messages of all queues: those that are not dead, those that could be polled, and the dead.
{for_now}
SELECT COUNT_BIG(*), COALESCE(SUM(CASE WHEN {scheduled_ms:m} <= @now THEN CAST(1 AS BIGINT) ELSE 0 END), 0),
  (SELECT COUNT_BIG(*) FROM {table_dead} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK))
FROM {table} AS m WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK);

-- name: next-due
-- Milliseconds until a message can be polled; 0: now; -1: no message waits or is leased.
{for_kind}
{for_now}
SELECT COALESCE((SELECT TOP (1) CASE WHEN {scheduled_ms:t} > @now THEN {scheduled_ms:t} - @now ELSE 0 END
                 FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
                 WHERE t."pKind" = @kind ORDER BY t."scheduledAt", t.id), -1);

-- name: list-dead
SELECT TOP (:limit) id, "pKey", "scheduledAtInitially", died_at, "createdAt", CAST(NULL AS BIGINT), attempts, 4,
  CAST(NULL AS VARCHAR(36)), last_error, payload
FROM {table_dead} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) WHERE "pKind" = :kind AND id > :after ORDER BY id;

-- name: last-dead
SELECT COALESCE(MAX(id), 0) FROM {table_dead} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) WHERE "pKind" = :kind;

-- name: retry-dead
-- waits: a dead message that a transaction has changed is asked for, too
-- Insert dead messages whose keys have no other message again, of each key the first; "delete-dead" then
-- deletes their copies.  They get new ids.  If another offer inserts one of the keys meanwhile, the statement
-- begins again: see the part "for_offers".  Times that another program wrote are cut to the years that a
-- message may have; a message whose key does not fit the table stays dead
-- (a_dead_row_that_others_wrote_stops_no_other).
SET XACT_ABORT OFF;
{for_kind}
{for_now}
DECLARE @first BIGINT = :first, @last BIGINT = :last, @limit BIGINT = :limit, @tries INT = 0;
DECLARE @dead TABLE(id BIGINT NOT NULL PRIMARY KEY, offered BIGINT NOT NULL, due BIGINT NOT NULL, version BIGINT NOT NULL);
WHILE @tries < 1000
BEGIN
  SET @tries = @tries + 1;
  DELETE FROM @dead;
  INSERT INTO @dead(id, offered, due, version)
  SELECT TOP (CASE WHEN @tries > 3 THEN 1 ELSE @limit END) f.id,
    CASE WHEN f.offered < 0 THEN 0 WHEN f.offered > 253402300799000 THEN 253402300799000 ELSE f.offered END,
    CASE WHEN f.offered < 0 THEN 0 WHEN f.offered > @now THEN @now ELSE f.offered END,
    CASE WHEN f.version < @now OR f.version >= 253402300799999 THEN @now ELSE f.version + 1 END
  FROM (
    SELECT d.id, d."scheduledAtInitially" AS offered, d."createdAt" AS version,
      ROW_NUMBER() OVER (PARTITION BY d."pKey", DATALENGTH(d."pKey") ORDER BY d.id) AS nth
    FROM {table_dead} AS d WITH (READCOMMITTEDLOCK)
    WHERE d."pKind" = @kind AND d.id BETWEEN @first AND @last AND {dead_fits}
      AND NOT EXISTS (SELECT 1 FROM {table} AS t WITH (READCOMMITTEDLOCK)
                      WHERE t."pKind" = @kind AND {equal_key:d})) AS f
  WHERE f.nth = 1 ORDER BY f.id;
  BEGIN TRY
    INSERT INTO {table}("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
    SELECT d."pKey", d."pKind", d.payload, {again_due}, {again_offered}, {again_version}
    FROM @dead AS i JOIN {table_dead} AS d ON d.id = i.id ORDER BY d.id;
    BREAK;
  END TRY
  BEGIN CATCH
    IF ERROR_NUMBER() NOT IN (2601, 2627) OR @tries = 1000 THROW;
  END CATCH;
END;
SELECT id FROM @dead;

-- name: delete-dead
DELETE d FROM {ids} AS i JOIN {table_dead} AS d {by_seek} ON d.id = i.id
OPTION (LOOP JOIN, FORCE ORDER);

-- name: purge-dead
DELETE FROM {table_dead} WHERE "pKind" = :kind AND (:id = 0 OR id = :id);
