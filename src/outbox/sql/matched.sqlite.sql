-- layout: name=matched columns=
--
-- Looks at an outbox of one of many SQLite files, whose relays run only while there is work (docs/internals/matched.md).

-- include: sqlite.sql

-- name: has
-- Whether there is such a table, and whether the file has tables of Wherry's.
SELECT (SELECT count(*) FROM sqlite_schema WHERE type IN ('table', 'view') AND name = {name} COLLATE NOCASE),
       (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'wherry_schema');

-- name: is-log
SELECT count(*), 0 FROM wherry_schema WHERE model = 'log' AND name = {name};

-- name: look
-- 0; whether the position does not cover a row; when the first exception is due, -1: none is; whether any is open; whether an
-- operator has paused it; how long another relay has the lease, and its process.  A message that waits behind a dead one of its
-- key is not due, until an operator does something.  A lease that lasts longer than its length was taken by a clock that was
-- ahead: the relay knows what to do.
SELECT 0,
  EXISTS (SELECT 1 FROM {table} AS t
          WHERE t.id > (SELECT p.high FROM {table_progress} AS p WHERE p.subscription = {topic})),
  CASE WHEN EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (1, 3)) THEN
      (SELECT max(0, min(coalesce(x.next_retry_at, 0)) - {now})
       FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (1, 3))
    WHEN EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (0, 2))
      AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state = 4) THEN 0
    ELSE -1 END,
  EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (0, 1, 3)),
  EXISTS (SELECT 1 FROM wherry_outbox AS b WHERE b.name = {name} AND b.paused_at IS NOT NULL),
  coalesce((SELECT max(expires_at) - {now} FROM wherry_lease
            WHERE outbox = {name} AND expires_at > {now} AND expires_at <= {now} + {lasts}), 0),
  coalesce((SELECT process FROM wherry_lease WHERE outbox = {name} AND expires_at > {now}
            ORDER BY expires_at DESC LIMIT 1), '');
