-- layout: name=doctor-log
--
-- Checks of `wherry doctor` on an outbox of the layout log on SQL Server.

-- part: now
SYSUTCDATETIME()

-- include: mssql.rows.sql

-- include: mssql.source.sql

-- part: identified
CASE WHEN {source_name} IS NULL THEN N{'table} ELSE N{'table_progress} END

-- include: mssql.positions.sql

-- part: ready
EXISTS ({fresh}) OR EXISTS (
  {exceptional} AND x.state IN (0, 3) AND (x.next_retry_at IS NULL OR x.next_retry_at <= {now}))

-- part: that_wait
N'all messages that were written since'

-- include: mssql.doctor.sql

-- part: gone
-- The process of the lease's holder ran on this machine and has ended.
CHARINDEX(CONCAT(NCHAR(10), process, NCHAR(10)), :gone) > 0

-- part: live
outbox = :name AND expires_at > {now} AND NOT {gone}

-- part: led
EXISTS (SELECT 1 FROM {wherry_lease} WHERE {live})

-- part: key_shown
COALESCE(NULLIF(c.partition_key, N''), NULLIF(CONCAT(c.aggregate_type, N' ', c.aggregate_id), N' '), N'none')

-- part: failed
-- Reasons of failures that count no attempt, since the destination may have caused them.
CASE WHEN c.attempts < 1 THEN N'was refused, which counts as no attempt'
     WHEN c.attempts = 1 THEN N'failed once' ELSE CONCAT(N'failed ', c.attempts, N' times') END

-- part: after
CASE WHEN c.attempts < 1 THEN N'' WHEN c.attempts = 1 THEN N' after one attempt'
     ELSE CONCAT(N' after ', c.attempts, N' attempts') END

-- part: wanted
-- The index that create makes, and that of --unique-ids if it is there.
(SELECT m.name AS a, 0 AS is_unique FROM sys.columns AS m
 WHERE m.object_id = {source_id} AND TYPE_NAME(m.system_type_id) IN (N'timestamp', N'rowversion')
 UNION ALL
 SELECT N'message_hash', 1 FROM sys.columns AS m
 WHERE m.object_id = OBJECT_ID(N{'table}, N'U') AND m.name = N'message_hash') AS w

-- part: has_wanted
-- Condition: the index i of the table begins with the column.
i.object_id = {source_id} AND i.is_primary_key = 0 AND EXISTS (
  SELECT 1 FROM sys.index_columns AS x
  JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
  WHERE x.object_id = i.object_id AND x.index_id = i.index_id AND x.key_ordinal = 1 AND c.name = w.a)

-- part: intact
i.is_disabled = 0 AND (w.is_unique = 0 OR i.is_unique = 1)

-- name: indexes
SELECT 2, CONCAT(N'on ', w.a) FROM {wanted}
WHERE {source_name} IS NULL AND NOT EXISTS (SELECT 1 FROM sys.indexes AS i WHERE {has_wanted});

-- name: altered-indexes
SELECT 2, i.name,
  CASE WHEN i.is_disabled = 1 THEN N'is disabled' ELSE N'is not unique: a message id may be there twice' END,
  CASE WHEN i.is_disabled = 1 THEN CONCAT(N'ALTER INDEX ', QUOTENAME(i.name), N' ON ', {source}, N' REBUILD')
       ELSE CONCAT(N'DROP INDEX ', QUOTENAME(i.name), N' ON ', {source}) END
FROM {wanted} JOIN sys.indexes AS i ON {has_wanted}
WHERE NOT EXISTS (SELECT 1 FROM sys.indexes AS i WHERE {has_wanted} AND {intact})
UNION ALL
SELECT 2, i.name, N'allows no locks of rows: relays wait for transactions that are open',
  CONCAT(N'ALTER INDEX ', QUOTENAME(i.name), N' ON ', {source}, N' SET (ALLOW_ROW_LOCKS = ON)')
FROM sys.indexes AS i WHERE i.object_id = {source_id} AND i.allow_row_locks = 0;

-- name: adopted
-- The index and the procedure that `wherry adopt` makes.
SELECT 2, {source_name}, N'index that begins with its row version: reading takes long without it'
WHERE {source_name} IS NOT NULL AND NOT {has_versions}
UNION ALL
SELECT 1, {source_name}, N'procedure that marks or deletes rows: none is marked or deleted'
WHERE {source_name} IS NOT NULL AND OBJECT_ID(N{'table_delivered}, N'P') IS NULL AND HAS_PERMS_BY_NAME({source_name}, N'OBJECT', N'ALTER') = 1;

-- name: escalation
-- Babelfish has no such locks.
SELECT 1, t.lock_escalation_desc, {source} FROM sys.tables AS t
WHERE t.object_id = {source_id} AND t.lock_escalation <> 1 AND @@VERSION NOT LIKE N'Babelfish%';

-- name: paused
SELECT 2, DATEDIFF_BIG(MILLISECOND, paused_at, {now}), CONCAT(CONVERT(NVARCHAR(19), paused_at, 120), N' UTC')
FROM {wherry_outbox} WHERE name = :name AND paused_at IS NOT NULL;

-- name: processes
SELECT DISTINCT process FROM {wherry_lease}
WHERE outbox = :name AND expires_at > {now} AND process <> N'';

-- name: relay
SELECT 0, owner, engine, CAST(epoch AS NVARCHAR(20)), CAST(DATEDIFF_BIG(MILLISECOND, {now}, expires_at) AS NVARCHAR(20))
FROM {wherry_lease} WHERE {live}
UNION ALL
SELECT CASE WHEN {ready} THEN 2 ELSE 1 END,
  COALESCE((SELECT TOP (1) CONCAT(N'the last was ', owner, CASE
              WHEN {gone} THEN N', whose process has ended'
              WHEN expires_at > '19700102' THEN CONCAT(N', whose lease expired at ',
                CONVERT(NVARCHAR(19), expires_at, 120), N' UTC')
              ELSE N', which ended in good order' END)
            FROM {wherry_lease} WHERE outbox = :name ORDER BY expires_at DESC),
           N'none has been here so far'), N'no relay is running', N'', N''
WHERE NOT {led};

-- name: lease
-- No relay takes a lease for longer than an hour (relay.lease).
SELECT 2, owner, DATEDIFF_BIG(MILLISECOND, {now}, expires_at),
  CONCAT(N'UPDATE ', N{'wherry_lease}, N' SET expires_at = SYSUTCDATETIME() WHERE outbox = ''', REPLACE(:name, N'''', N''''''), N''' AND number = ', number)
FROM {wherry_lease} WHERE outbox = :name AND expires_at > DATEADD(MINUTE, 61, {now}) AND NOT {gone};

-- name: destination
SELECT 2, CASE destination WHEN N'' THEN N'the destination' ELSE destination END, error,
  DATEDIFF_BIG(MILLISECOND, state_since, {now})
FROM {wherry_lease} WHERE {live} AND state = N'retrying';

-- part: behind
-- Number of messages that wait behind c, among the next ones that wait or were not read.
(SELECT COUNT_BIG(*) FROM (
   SELECT o.k FROM (SELECT TOP (10000) {key:e} AS k FROM ({exceptional} AND x.state = 0) AS e WHERE e.id > c.id ORDER BY e.id) AS o
   UNION ALL
   SELECT n.k FROM {position} AS p CROSS APPLY (
     SELECT TOP (10000) {key:t} AS k FROM {table} AS t {unlocked} WHERE t.rv > p.rv AND t.id > c.id AND {of_p:t} ORDER BY t.rv) AS n) AS b
 WHERE b.k = {key:c})

-- name: tables
SELECT 2, t.name
FROM (VALUES (N{'table_progress}), (N{'table_exception}), (N{'wherry_outbox}), (N{'wherry_lease})) AS t(name)
WHERE OBJECT_ID(t.name, N'U') IS NULL;

-- name: kept
-- Subscriptions that have stood still for an hour: no message behind their position is deleted.
SELECT TOP (10) 1, s.subscription, s.moved, CASE WHEN EXISTS (
    SELECT 1 FROM {wherry_lease} AS l WHERE l.expires_at > {now}
      AND l.outbox = CASE s.subscription WHEN N'relay' THEN N{name} ELSE CONCAT(N{name}, N'\', s.subscription) END)
  THEN N'its relay makes no progress' ELSE N'no relay or consumer reads it' END
FROM (SELECT w.subscription, CONVERT(BINARY(8), MIN(w.at)) AS rv, DATEDIFF_BIG(MILLISECOND, MAX(w.moved_at), {now}) AS moved
      FROM (SELECT p.subscription, CAST({passed_at:p} AS BIGINT) AS at, p.moved_at FROM {table_progress} AS p) AS w
      GROUP BY w.subscription) AS s
WHERE s.moved >= 3600000
  AND (SELECT TOP (1) t.created_at FROM {table} AS t {unlocked} WHERE t.rv > s.rv ORDER BY t.rv) <= DATEADD(HOUR, -1, {now})
ORDER BY s.moved DESC;

-- name: rights
SELECT 2, USER_NAME(), p.needed + N' on ' + t.name, N'GRANT ' + p.needed + N' ON ' + t.name + N' TO ' + QUOTENAME(USER_NAME())
FROM (VALUES (N{'table}, N'SELECT'), (N{'table}, N'DELETE'), (N{'table_progress}, N'SELECT'), (N{'table_progress}, N'INSERT'),
             (N{'table_progress}, N'UPDATE'), (N{'table_progress}, N'DELETE'),
             (N{'table_exception}, N'SELECT'), (N{'table_exception}, N'INSERT'), (N{'table_exception}, N'UPDATE'),
             (N{'table_exception}, N'DELETE'), (N{'wherry_outbox}, N'SELECT'),
             (N{'wherry_lease}, N'SELECT'), (N{'wherry_lease}, N'INSERT'), (N{'wherry_lease}, N'UPDATE')) AS p(name, needed)
JOIN (VALUES (N{'table}), (N{'table_progress}), (N{'table_exception}), (N{'wherry_outbox}), (N{'wherry_lease})) AS t(name)
  ON t.name = p.name
WHERE OBJECT_ID(t.name, N'U') IS NOT NULL AND HAS_PERMS_BY_NAME(t.name, N'OBJECT', p.needed) = 0;

-- include: mssql.bits.sql

-- part: sharing
FROM {wherry_lease} AS l WHERE {live} AND l.engine = N'log'

-- part: partitions_taken
-- Number of partitions that have a relay.
(SELECT COUNT(*) FROM {bits} AS b WHERE EXISTS (SELECT 1 {sharing} AND l.mask & b.bit <> 0))

-- name: partitions
-- If one relay has them all, there is nothing to report.
SELECT 0, l.owner, CAST((SELECT COUNT(*) FROM {bits} AS b WHERE l.mask & b.bit <> 0) AS NVARCHAR(20)),
  CAST(DATEDIFF_BIG(MILLISECOND, {now}, l.expires_at) AS NVARCHAR(20))
{sharing} AND EXISTS (SELECT 1 {sharing} AND l.mask <> -1)
UNION ALL
SELECT 1, CAST(64 - {partitions_taken} AS NVARCHAR(20)), N'', N''
WHERE EXISTS (SELECT 1 {sharing}) AND {partitions_taken} < 64;

-- part: e_place
e.id, e.created_at, e.topic, e.partition_key, e.aggregate_type, e.aggregate_id

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT TOP (1) 1, c.id, DATEDIFF_BIG(MILLISECOND, c.created_at, {now}),
  COALESCE((SELECT TOP (1) N'; the last error is: ' + LEFT(x.last_error, 300) FROM (
              SELECT TOP (1000) e.* FROM {table_exception} AS e WHERE e.subscription = {subscription} ORDER BY e.id) AS x
            WHERE x.state = 3 AND x.last_error IS NOT NULL ORDER BY x.next_retry_at DESC), N'')
FROM (SELECT {e_place} FROM {position} AS p CROSS APPLY (
        SELECT TOP (100) t.* FROM {table} AS t {unlocked} WHERE t.rv > p.rv AND {of_p:t} ORDER BY t.rv) AS e
      UNION ALL
      SELECT {e_place} FROM (SELECT TOP (100) w.* FROM ({exceptional} AND x.state = 0) AS w ORDER BY w.id) AS e) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND state = N'retrying')
  AND DATEDIFF_BIG(MILLISECOND, c.created_at, {now}) >= :older AND {its_topic:c}
  AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.id = c.id AND x.subscription = {subscription} AND x.state <> 0)
  AND NOT EXISTS (SELECT 1 FROM ({exceptional}) AS b WHERE {key:b} = {key:c} AND b.id < c.id)
ORDER BY c.id;

-- name: held
SELECT TOP (5) 1, c.id, {key_shown}, {failed},
  CASE WHEN c.next_retry_at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, c.next_retry_at) ELSE 0 END,
  COALESCE(LEFT(c.last_error, 300), N'no reason given'), {behind}
FROM ({exceptional} AND x.state = 3) AS c ORDER BY c.next_retry_at;

-- name: parked
SELECT TOP (5) 1, c.id, {key_shown}, {after}, COALESCE(LEFT(c.last_error, 300), N'no reason given'), {behind}
FROM ({exceptional} AND x.state = 4) AS c ORDER BY c.id;
