-- layout: name=doctor-log
--
-- Checks of `wherry doctor` on an outbox of the layout log on SQL Server.

-- part: now
SYSUTCDATETIME()

-- include: mssql.rows.sql

-- include: mssql.positions.sql

-- part: ready
EXISTS ({fresh}) OR EXISTS (
  {exceptional} AND x.state IN (0, 3) AND (x.next_retry_at IS NULL OR x.next_retry_at <= {now}))

-- part: that_wait
N'all messages that were written since'

-- part: wanted
-- The index that create makes, and that of --unique-ids if it is there.
(SELECT N'rv' AS a, N'' AS b, 0 AS is_unique, 0 AS has_filter
 UNION ALL
 SELECT N'message_hash', N'', 1, 0 FROM sys.columns AS m
 WHERE m.object_id = OBJECT_ID(N{'table}, N'U') AND m.name = N'message_hash') AS w

-- include: mssql.doctor.sql

-- part: behind
-- Number of messages that wait behind c, among the next ones that wait or were not read.
(SELECT COUNT_BIG(*) FROM (
   SELECT o.k FROM (SELECT TOP (10000) {key:e} AS k FROM ({exceptional} AND x.state = 0) AS e WHERE e.id > c.id ORDER BY e.id) AS o
   UNION ALL
   SELECT n.k FROM {position} AS p CROSS APPLY (
     SELECT TOP (10000) {key:t} AS k FROM {table} AS t {unlocked} WHERE t.rv > p.rv AND t.id > c.id ORDER BY t.rv) AS n) AS b
 WHERE b.k = {key:c})

-- name: tables
SELECT 2, t.name
FROM (VALUES (N{'table_progress}), (N{'table_exception}), (N{'wherry_outbox}), (N{'wherry_lease})) AS t(name)
WHERE OBJECT_ID(t.name, N'U') IS NULL;

-- name: rights
SELECT 2, USER_NAME(), p.needed + N' on ' + t.name, N'GRANT ' + p.needed + N' ON ' + t.name + N' TO ' + QUOTENAME(USER_NAME())
FROM (VALUES (N{'table}, N'SELECT'), (N{'table}, N'DELETE'), (N{'table_progress}, N'SELECT'), (N{'table_progress}, N'UPDATE'),
             (N{'table_exception}, N'SELECT'), (N{'table_exception}, N'INSERT'), (N{'table_exception}, N'UPDATE'),
             (N{'table_exception}, N'DELETE'), (N{'wherry_outbox}, N'SELECT'),
             (N{'wherry_lease}, N'SELECT'), (N{'wherry_lease}, N'INSERT'), (N{'wherry_lease}, N'UPDATE')) AS p(name, needed)
JOIN (VALUES (N{'table}), (N{'table_progress}), (N{'table_exception}), (N{'wherry_outbox}), (N{'wherry_lease})) AS t(name)
  ON t.name = p.name
WHERE OBJECT_ID(t.name, N'U') IS NOT NULL AND HAS_PERMS_BY_NAME(t.name, N'OBJECT', p.needed) = 0;

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT TOP (1) 1, c.id, DATEDIFF_BIG(MILLISECOND, c.created_at, {now}),
  COALESCE((SELECT TOP (1) N'; the last error is: ' + LEFT(x.last_error, 300) FROM (
              SELECT TOP (1000) e.* FROM {table_exception} AS e WHERE e.subscription = {subscription} ORDER BY e.id) AS x
            WHERE x.state = 3 AND x.last_error IS NOT NULL ORDER BY x.next_retry_at DESC), N'')
FROM {position} AS p CROSS APPLY (
  SELECT TOP (100) t.* FROM {table} AS t {unlocked} WHERE t.rv > p.rv ORDER BY t.rv) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND state = N'retrying')
  AND DATEDIFF_BIG(MILLISECOND, c.created_at, {now}) >= :older AND {its_topic:c}
  AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.id = c.id AND x.subscription = {subscription})
  AND NOT EXISTS (SELECT 1 FROM ({exceptional}) AS b WHERE {key:b} = {key:c})
ORDER BY c.rv;

-- name: held
SELECT TOP (5) 1, c.id, {key_shown}, {failed},
  CASE WHEN c.next_retry_at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, c.next_retry_at) ELSE 0 END,
  COALESCE(LEFT(c.last_error, 300), N'no reason given'), {behind}
FROM ({exceptional} AND x.state = 3) AS c ORDER BY c.next_retry_at;

-- name: parked
SELECT TOP (5) 1, c.id, {key_shown}, {after}, COALESCE(LEFT(c.last_error, 300), N'no reason given'), {behind}
FROM ({exceptional} AND x.state = 4) AS c ORDER BY c.id;
