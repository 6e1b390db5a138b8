-- layout: name=doctor
--
-- Checks of `wherry doctor` on SQL Server.

-- part: now
SYSUTCDATETIME()

-- include: mssql.rows.sql

-- part: ready
EXISTS (SELECT 1 FROM {table} {unlocked} WHERE status = 0)
  OR EXISTS (SELECT 1 FROM {table} {unlocked} WHERE status IN (1, 3) AND status = 3
             AND (next_retry_at IS NULL OR next_retry_at <= {now}))

-- part: that_wait
N'messages of the keys that it wrote'

-- part: wanted
-- Indexes that create makes, by their first two columns, since an administrator may rename them.
(VALUES (N'message_hash', N'', 1, 0), (N'id', N'', 0, 1), (N'key_hash', N'id', 0, 1), (N'key_hash', N'status', 0, 1),
        (N'status', N'next_retry_at', 0, 1), (N'status', N'id', 0, 1), (N'processed_at', N'id', 0, 1))
  AS w(a, b, is_unique, has_filter)

-- include: mssql.doctor.sql

-- part: behind
-- Number of messages that wait behind c, among the next pending rows.
(SELECT COUNT_BIG(*) FROM (
   SELECT TOP (10000) b.key_hash FROM {table} AS b {unlocked} WHERE b.status = 0 AND b.id > c.id
   ORDER BY b.id) AS n WHERE n.key_hash = c.key_hash)

-- name: tables
SELECT 2, t.name
FROM (VALUES (N{'table_archive}), (N{'wherry_outbox}), (N{'wherry_lease})) AS t(name)
WHERE OBJECT_ID(t.name, N'U') IS NULL;

-- name: rights
SELECT 2, USER_NAME(), p.needed + N' on ' + t.name, N'GRANT ' + p.needed + N' ON ' + t.name + N' TO ' + QUOTENAME(USER_NAME())
FROM (VALUES (N{'table}, N'SELECT'), (N{'table}, N'DELETE'), (N{'table_archive}, N'SELECT'),
             (N{'table_archive}, N'INSERT'), (N{'table_archive}, N'DELETE'), (N{'wherry_outbox}, N'SELECT'),
             (N{'wherry_lease}, N'SELECT'), (N{'wherry_lease}, N'INSERT'), (N{'wherry_lease}, N'UPDATE')) AS p(name, needed)
JOIN (VALUES (N{'table}), (N{'table_archive}), (N{'wherry_outbox}), (N{'wherry_lease})) AS t(name) ON t.name = p.name
WHERE OBJECT_ID(t.name, N'U') IS NOT NULL AND HAS_PERMS_BY_NAME(t.name, N'OBJECT', p.needed) = 0;

-- name: claim-locks
-- Application locks of claims and of partitions, which relays hold for milliseconds; any user of the database
-- can take them.  The description has the first 32 characters of the name in brackets.
DECLARE @table NVARCHAR(600) = N{'table};
IF {locks_shown}
  EXEC sp_executesql N'
    SELECT DISTINCT TOP (5) 2, CONCAT(N''session '', s.session_id), {holder},
      DATEDIFF_BIG(MILLISECOND, s.last_request_end_time, GETDATE()),
      (SELECT COUNT(*) FROM sys.dm_tran_locks AS w
       WHERE w.resource_type = l.resource_type AND w.resource_database_id = l.resource_database_id
         AND w.resource_description = l.resource_description AND w.request_status = N''WAIT''),
      CONCAT(N''KILL '', s.session_id)
    FROM {held_locks}
    WHERE l.resource_type = N''APPLICATION'' AND l.resource_database_id = DB_ID() AND l.request_status LIKE N''GRANT%''
      AND l.request_session_id <> @@SPID AND s.status = N''sleeping''
      AND (CHARINDEX(CONCAT(N'':[wherry_claim:'', OBJECT_ID(@table, N''U''), N'']''), l.resource_description) > 0
        OR CHARINDEX(CONCAT(N'':[wherry_partitions:'', OBJECT_ID(@table, N''U''), N'']''), l.resource_description) > 0)
      AND DATEDIFF_BIG(MILLISECOND, s.last_request_end_time, GETDATE()) >= 2000',
    N'@table NVARCHAR(600)', @table = @table;

-- include: mssql.bits.sql

-- part: sharing
FROM {wherry_lease} AS l WHERE {live} AND l.engine = N'exclusive'

-- part: partitions_taken
-- Number of partitions that have a relay.
(SELECT COUNT(*) FROM {bits} AS b
 WHERE EXISTS (SELECT 1 {sharing} AND l.mask & b.bit <> 0))

-- name: partitions
-- If one relay has them all, there is nothing to report.
SELECT 0, l.owner, CAST((SELECT COUNT(*) FROM {bits} AS b WHERE l.mask & b.bit <> 0) AS NVARCHAR(20)),
  CAST(DATEDIFF_BIG(MILLISECOND, {now}, l.expires_at) AS NVARCHAR(20))
{sharing} AND EXISTS (SELECT 1 {sharing} AND l.mask <> -1)
UNION ALL
SELECT 1, CAST(64 - {partitions_taken} AS NVARCHAR(20)), N'', N''
WHERE EXISTS (SELECT 1 {sharing}) AND {partitions_taken} < 64
UNION ALL
SELECT 2, N'on key_partition, status', N'', N''
WHERE EXISTS (SELECT 1 {sharing} AND l.mask <> -1) AND NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS x
  JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
  WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.key_ordinal = 1 AND c.name = N'key_partition');

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT TOP (1) 1, c.id, DATEDIFF_BIG(MILLISECOND, c.created_at, {now}),
  COALESCE((SELECT TOP (1) N'; the last error is: ' + LEFT(last_error, 300) FROM {table} {unlocked}
            WHERE status IN (1, 3) AND status = 3 AND last_error IS NOT NULL ORDER BY next_retry_at DESC), N'')
FROM (SELECT TOP (100) id, key_hash, created_at FROM {table} {unlocked} WHERE status = 0 ORDER BY id) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND state = N'retrying')
  AND DATEDIFF_BIG(MILLISECOND, c.created_at, {now}) >= :older
  AND NOT EXISTS (SELECT 1 FROM {table} AS b {unlocked}
                  WHERE b.status IN (1, 3, 4) AND b.key_hash = c.key_hash AND b.id < c.id)
ORDER BY c.id;

-- name: claims
SELECT 1, COUNT_BIG(*), DATEDIFF_BIG(MILLISECOND, MIN(e.since), {now}), MIN(e.id)
FROM (SELECT TOP (1000) id, COALESCE(next_retry_at, claimed_at) AS since FROM {table} {unlocked}
      WHERE status IN (1, 3) AND status = 1
        AND (next_retry_at <= {now} OR next_retry_at IS NULL AND NOT {led})) AS e
HAVING COUNT_BIG(*) > 0;

-- name: held
SELECT TOP (5) 1, c.id, {key_shown}, {failed},
  CASE WHEN c.next_retry_at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, c.next_retry_at) ELSE 0 END,
  COALESCE(LEFT(c.last_error, 300), N'no reason given'), {behind}
FROM {table} AS c {unlocked} WHERE c.status IN (1, 3) AND c.status = 3 ORDER BY c.next_retry_at;

-- name: parked
SELECT TOP (5) 1, c.id, {key_shown}, {after}, COALESCE(LEFT(c.last_error, 300), N'no reason given'), {behind}
FROM {table} AS c {unlocked} WHERE c.status = 4 ORDER BY c.id;
