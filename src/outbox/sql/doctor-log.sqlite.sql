-- layout: name=doctor-log
--
-- Checks of `wherry doctor` on an outbox of the layout log on SQLite.

-- include: sqlite.positions.sql

-- part: ready
EXISTS (SELECT 1 FROM {table} WHERE id > {high}) OR EXISTS (
  SELECT 1 FROM ({exceptional} AND (x.state = 0 OR x.state = 3) AND coalesce(x.next_retry_at, 0) <= (SELECT ms FROM wherry_clock)))

-- include: sqlite.doctor.sql

-- part: key_shown
coalesce(nullif(c.partition_key, ''), nullif(c.aggregate_type || ' ' || c.aggregate_id, ' '),
         'none')

-- part: failed
-- Reasons of failures that count no attempt, since the destination may have caused them.
CASE WHEN c.attempts < 1 THEN 'was refused, which counts as no attempt'
     WHEN c.attempts = 1 THEN 'failed once' ELSE 'failed ' || c.attempts || ' times' END

-- part: after
CASE WHEN c.attempts < 1 THEN '' WHEN c.attempts = 1 THEN ' after one attempt'
     ELSE ' after ' || c.attempts || ' attempts' END

-- part: gone
-- The process of the lease's holder ran on this machine and has ended.
instr(:gone, char(10) || process || char(10)) > 0

-- part: live
outbox = :name AND expires_at > {now} AND NOT {gone}

-- part: led
(SELECT count(*) > 0 FROM wherry_lease WHERE {live})

-- part: ordering
CASE WHEN {.}partition_key <> '' THEN '=' || {.}partition_key
     WHEN {.}aggregate_type <> '' OR {.}aggregate_id <> ''
     THEN length({.}aggregate_type) || ':' || {.}aggregate_type || {.}aggregate_id END

-- part: behind
-- Number of messages that wait behind c, among the next ones that wait or were not read.
(SELECT count(*) FROM (
   SELECT {ordering:b} AS key FROM ({exceptional} AND x.state = 0 AND x.id > c.id ORDER BY x.id LIMIT 10000) AS b
   UNION ALL
   SELECT {ordering:b} FROM (
     SELECT * FROM {table} WHERE id > max({high}, c.id) ORDER BY id LIMIT 10000) AS b) AS next
 WHERE next.key = {ordering:c})

-- name: tables
SELECT 2, name FROM (SELECT {name} || '_progress' AS name UNION ALL SELECT {name} || '_exception'
                     UNION ALL SELECT 'wherry_outbox' UNION ALL SELECT 'wherry_lease') AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type = 'table' AND s.name = t.name COLLATE NOCASE);

-- name: kept
-- Subscriptions that have stood still for an hour: no message behind their position is deleted.
SELECT 1, p.subscription, {now} - p.moved_at, CASE WHEN EXISTS (
    SELECT 1 FROM wherry_lease AS l WHERE l.expires_at > {now}
      AND l.outbox = CASE p.subscription WHEN 'relay' THEN {name} ELSE {name} || char(92) || p.subscription END)
  THEN 'its relay makes no progress' ELSE 'no relay or consumer reads it' END
FROM {table_progress} AS p
WHERE p.moved_at <= {now} - 3600000
  AND (SELECT t.created_at FROM {table} AS t WHERE t.id > p.high ORDER BY t.id LIMIT 1) <= {now} - 3600000
ORDER BY p.moved_at LIMIT 10;

-- name: trigger
SELECT 1, {name}, 'has no trigger'
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type = 'trigger' AND s.name = {name} || '_by_hand' COLLATE NOCASE);

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT 1, c.id, {now} - c.created_at,
  coalesce((SELECT '; the last error is: ' || substr(x.last_error, 1, 300)
            FROM (SELECT * FROM {table_exception} AS e WHERE e.subscription = {subscription} LIMIT 1000) AS x
            WHERE x.state = 3 AND x.last_error IS NOT NULL ORDER BY x.next_retry_at DESC LIMIT 1), '')
FROM (SELECT * FROM (SELECT id, created_at, partition_key, aggregate_type, aggregate_id
                     FROM {table} WHERE id > {high} ORDER BY id LIMIT 100)
      UNION ALL
      SELECT * FROM (SELECT id, created_at, partition_key, aggregate_type, aggregate_id
                     FROM ({exceptional} AND x.state = 0 ORDER BY x.id LIMIT 100))) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM wherry_outbox
                            WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM wherry_lease WHERE outbox = :name AND state = 'retrying')
  AND c.created_at <= {now} - :older
  AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = c.id AND x.state <> 0)
  AND NOT EXISTS (
    SELECT 1 FROM ({exceptional} ORDER BY x.id LIMIT 1000) AS b WHERE {ordering:b} = {ordering:c} AND b.id < c.id)
ORDER BY c.id LIMIT 1;

-- name: held
SELECT 1, c.id, {key_shown}, {failed}, max(coalesce(c.next_retry_at, 0) - {now}, 0),
  coalesce(substr(c.last_error, 1, 300), 'no reason given'), {behind}
FROM ({exceptional} AND x.state = 3 ORDER BY x.id LIMIT 1000) AS c ORDER BY coalesce(c.next_retry_at, 0) LIMIT 5;

-- name: parked
SELECT 1, c.id, {key_shown}, {after},
  coalesce(substr(c.last_error, 1, 300), 'no reason given'), {behind}
FROM ({exceptional} AND x.state = 4 ORDER BY x.id LIMIT 5) AS c ORDER BY c.id;

-- part: is_missing
NOT EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.name = {name} || m.ending COLLATE NOCASE)

-- name: source-table
SELECT t.tbl_name FROM sqlite_schema AS t JOIN sqlite_schema AS v ON v.type = 'view' AND v.name = {name} COLLATE NOCASE
WHERE t.type = 'trigger' AND t.name COLLATE NOCASE IN ({name} || '_by_hand', {name} || '_gone') LIMIT 1;

-- name: adopted
-- Objects that `wherry adopt` adds to a table, except for the trigger that the check "trigger" looks for.
SELECT m.level, {name}, m.what || {name} || m.ending || m.why FROM (
  SELECT 2 AS level, 'trigger ' AS what, '_gone' AS ending, ': a row that gets the id of a deleted one can be passed over' AS why
  UNION ALL SELECT 1, 'trigger ', '_delivered', ': no row is marked as delivered, or deleted'
  UNION ALL
  -- It is made if a column says that a row is delivered.
  SELECT 1, 'index ', '_undone', ': to find the rows that can be marked as delivered takes long without it'
  FROM sqlite_schema AS d WHERE d.type = 'trigger' AND d.name = {name} || '_delivered' COLLATE NOCASE AND d.sql LIKE '%BEGIN%UPDATE %SET %') AS m
WHERE {is_missing} AND EXISTS (SELECT 1 FROM sqlite_schema AS v WHERE v.type = 'view' AND v.name = {name} COLLATE NOCASE);

-- name: acknowledgements
-- Triggers on positions and exceptions.
SELECT 1, 'trigger ' || s.name || ' of ' || s.tbl_name FROM sqlite_schema AS s
WHERE s.type = 'trigger' AND s.tbl_name COLLATE NOCASE IN ({name} || '_progress', {name} || '_exception')
  AND replace(replace(replace(upper(s.sql), ' ', ''), char(10), ''), char(9), '') LIKE '%RAISE(IGNORE)%';

-- name: processes
SELECT DISTINCT process FROM wherry_lease
WHERE outbox = :name AND expires_at > {now} AND process <> '';

-- name: paused
SELECT 2, {now} - paused_at, strftime('%Y-%m-%d %H:%M:%S UTC', paused_at / 1000, 'unixepoch')
FROM wherry_outbox WHERE name = :name AND paused_at IS NOT NULL;

-- name: relay
SELECT 0, owner, engine, epoch, expires_at - {now}
FROM wherry_lease WHERE {live}
UNION ALL
SELECT CASE WHEN {ready} THEN 2 ELSE 1 END,
  coalesce((SELECT 'the last was ' || owner || CASE
              WHEN {gone} THEN ', whose process has ended'
              WHEN expires_at > 86400000 THEN ', whose lease expired at '
                || strftime('%Y-%m-%d %H:%M:%S UTC', expires_at / 1000, 'unixepoch')
              ELSE ', which ended in good order' END
            FROM wherry_lease WHERE outbox = :name ORDER BY expires_at DESC LIMIT 1),
           'none has been here so far'), 'no relay is running', '', ''
WHERE NOT {led};

-- name: lease
-- No relay takes a lease for longer than an hour (relay.lease).
SELECT 2, owner, min(expires_at - {now}, 3153600000000),
  'UPDATE wherry_lease SET expires_at = 0 WHERE outbox = ' || quote(:name) || ' AND number = ' || number
FROM wherry_lease WHERE outbox = :name AND expires_at > {now} + 3660000 AND NOT {gone};

-- name: destination
SELECT 2, CASE destination WHEN '' THEN 'the destination' ELSE destination END, error,
  {now} - state_since
FROM wherry_lease WHERE {live} AND state = 'retrying';
