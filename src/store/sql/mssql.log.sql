--
-- Reads an append-only table on SQL Server exactly.  Each row has a row version (rv ROWVERSION, with an index that
-- begins with it), which SQL Server gives it in the statement that writes it, so rows are committed
-- out of its order.  A transaction that is open has no row version below MIN_ACTIVE_ROWVERSION().  So
-- every row below that number is committed, and none comes there any more: a position is a row version,
-- and an open producer holds up all rows behind its first one.
--
-- Files include it behind mssql.identity.sql and their part "message", the columns of a row t that are returned.  In front of these
-- are: id, row version, whether its transaction is visible, and three columns of the first row.

-- part: horizon
-- Statements of this batch read what is committed when they begin, also in a transaction of the caller's
-- that began with SNAPSHOT: what it sees would be older than the horizon, and rows between the two would
-- be lost.  For the same reason a separate statement reads the horizon, before the rows.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @upto BIGINT = CONVERT(BIGINT, MIN_ACTIVE_ROWVERSION())

-- part: whole_versions
-- Row version of the last row of a page.  Rows with one version are read together: SELECT INTO copies
-- versions, and Babelfish gives all rows of a statement the same one.
DECLARE @last BINARY(8) = (
  SELECT MAX(p.rv) FROM (
    SELECT TOP (:limit) t.rv AS rv FROM {table} AS t
    WHERE t.rv > CONVERT(BINARY(8), CAST(:high AS BIGINT)) AND t.rv < CONVERT(BINARY(8), @upto)
    ORDER BY t.rv) AS p)

-- name: read-log
-- waits: for an owner who changes or deletes a row that is committed; rows of open producers are behind the horizon.
--
-- The first row says whether the position belongs to another table, or is at or above the horizon: the
-- database went back, or the table came from another one.
{horizon};
{whole_versions};
SELECT CAST(-9223372036854775808 AS BIGINT) AS row_id, CAST(-9223372036854775808 AS BIGINT) AS row_at, 1, i.now, 0,
  CASE WHEN :high > 0 AND (:high >= @upto OR :seen <> i.now) THEN 1 ELSE 0 END, {message}
FROM (SELECT {log_identity} AS now) AS i LEFT JOIN {table} AS t ON 1 = 0
UNION ALL
SELECT t.id, CONVERT(BIGINT, t.rv), 1, NULL, NULL, NULL, {message}
FROM {table} AS t
WHERE t.rv > CONVERT(BINARY(8), CAST(:high AS BIGINT)) AND t.rv <= @last
ORDER BY row_at, row_id;

-- name: log-end
-- waits: as "look" does.
--
-- The position behind all rows up to the horizon, or before the first one of them with a higher id.
{horizon};
SELECT COALESCE((SELECT TOP (1) CONVERT(BIGINT, t.rv) FROM {table} AS t
                 WHERE t.id > :high AND t.rv < CONVERT(BINARY(8), @upto) ORDER BY t.rv), @upto) - 1,
  {log_identity};
