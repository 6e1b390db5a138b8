-- layout: name=matched columns=
--
-- Looks over one connection at the outboxes of many schemas, whose relays run only while there is work
-- (docs/internals/matched.md).

-- name: schemas
-- The schemas of a pattern of LIKE that have an outbox of the layout log: their names, and the numbers of the tables.  A
-- schema without one has 0.
SELECT n.nspname::text, coalesce((
  SELECT c.oid::bigint FROM pg_class AS c
  WHERE c.relnamespace = n.oid AND c.relname = {name} AND c.relkind IN ('r', 'p')
    AND EXISTS (SELECT 1 FROM pg_class AS p WHERE p.relnamespace = n.oid AND p.relname = {name} || '_progress')
    AND EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tx' AND NOT a.attisdropped)), 0)
FROM pg_namespace AS n WHERE n.nspname::text LIKE :pattern::text ORDER BY 2 LIMIT :most::bigint;

-- name: sleep
-- Try to take the lock of sleepers (postgres_watch.c) of each table.  1: taken; 2: another session has it, and listening is
-- enough; 0: writers share it, so that they will notify nobody.
WITH tried AS MATERIALIZED (
  SELECT k.key, pg_try_advisory_lock((1669::bigint << 32) + k.key) AS taken
  FROM unnest(string_to_array(:keys::text, ',')::bigint[]) AS k(key)),
others AS MATERIALIZED (
  SELECT l.objid::bigint AS key FROM pg_locks AS l
  WHERE l.locktype = 'advisory' AND l.classid = 1669::oid AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND EXISTS (SELECT 1 FROM tried AS t WHERE NOT t.taken))
SELECT t.key, CASE WHEN t.taken THEN 1 WHEN EXISTS (SELECT 1 FROM others AS o WHERE o.key = t.key) THEN 2 ELSE 0 END
FROM tried AS t;

-- name: wake
-- Release these locks, and let other sleepers know that they must take them.
SELECT pg_advisory_unlock((1669::bigint << 32) + k.key)::integer, pg_notify(concat('wherry_', k.key), '')::text
FROM unnest(string_to_array(:keys::text, ',')::bigint[]) AS k(key);

-- name: mark
-- A mark that this session sleeps for the relays of others, and is none itself.
SELECT pg_advisory_lock_shared(1672::bigint << 32)::text;

-- name: watched
-- Whether such a session has the lock of sleepers of this outbox.
SELECT count(*) FROM pg_locks AS l
WHERE l.locktype = 'advisory' AND l.classid = 1669::oid AND l.objid = {'table}::regclass::oid AND l.objsubid = 1
  AND l.mode = 'ExclusiveLock' AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND EXISTS (SELECT 1 FROM pg_locks AS m WHERE m.pid = l.pid AND m.locktype = 'advisory' AND m.classid = 1672::oid AND m.objid = 0::oid);

-- name: has
-- Whether there is such a table, twice.
SELECT (to_regclass({'table}) IS NOT NULL)::integer, (to_regclass({'table}) IS NOT NULL)::integer;

-- name: is-log
SELECT count(*), 0 FROM pg_class AS c
WHERE c.oid = to_regclass({'table})::oid AND c.relkind IN ('r', 'p')
  AND EXISTS (SELECT 1 FROM pg_class AS p WHERE p.relnamespace = c.relnamespace AND p.relname = {name} || '_progress')
  AND EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tx' AND NOT a.attisdropped);

-- part: due
-- Milliseconds until the first exception may be tried.  A message that waits behind a dead one of its key is not due, until an
-- operator does something, which notifies.
CASE WHEN EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (1, 3)) THEN
    (SELECT greatest(min(ceil(extract(epoch FROM
       least(greatest(coalesce(x.next_retry_at, statement_timestamp()), '1970-01-01 00:00:00+00'::timestamptz),
             statement_timestamp() + interval '1 year') - statement_timestamp()) * 1000.0))::bigint, 0::bigint)
     FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (1, 3))
  WHEN EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (0, 2))
    AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state = 4) THEN 0::bigint
  ELSE -1::bigint END

-- name: look
-- Of one outbox: its number; whether the position does not cover a row; when the first exception is due, -1: none is;
-- whether any is open; whether an operator has paused it; how long another relay has the lease, and its process.
SELECT {'table}::regclass::oid::bigint,
  EXISTS (SELECT 1 FROM {table_progress} AS p WHERE p.subscription = {topic} AND (
    EXISTS (SELECT 1 FROM {table} AS t WHERE t.id > p.high)
    OR EXISTS (SELECT 1 FROM {table} AS t WHERE t.tx >= pg_snapshot_xmax(p.seen) AND t.id + 0 <= p.high)
    OR EXISTS (SELECT 1 FROM pg_snapshot_xip(p.seen) AS open(tx) CROSS JOIN LATERAL (
         SELECT e.id FROM {table} AS e WHERE e.tx BETWEEN open.tx AND open.tx AND e.id + 0 <= p.high LIMIT 1) AS o)))::integer,
  {due},
  EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {topic} AND x.state IN (0, 1, 3))::integer,
  EXISTS (SELECT 1 FROM {wherry_outbox} AS b WHERE b.name = {name} AND b.paused_at IS NOT NULL)::integer,
  coalesce((SELECT max(ceil(extract(epoch FROM least(l.expires_at, statement_timestamp() + interval '1 day')
                                               - statement_timestamp()) * 1000.0))::bigint
            FROM {wherry_lease} AS l WHERE l.outbox = {name} AND l.expires_at > statement_timestamp()), 0::bigint),
  coalesce((SELECT l.process FROM {wherry_lease} AS l WHERE l.outbox = {name} AND l.expires_at > statement_timestamp()
            ORDER BY l.expires_at DESC LIMIT 1), '')
