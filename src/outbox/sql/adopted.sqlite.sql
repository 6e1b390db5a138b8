-- layout: name=adopted ordered=yes purges=soon columns=id,message_id,topic,payload,done_at progress=subscription,high,topics exception=subscription,id,state
--
-- A table of another program that is read as a log on SQLite.  `wherry adopt` makes a view that has the columns of a log.
-- Everything else is beside it, as in log.sqlite.sql:
--
--     table            the view
--     table_progress   the position of a subscription
--     table_exception  one row for each message that waits, failed or died
--
-- The table gets two triggers, which find ids that were used before.  The view has two columns more than a log: done_at,
-- when the owner of the table counts the message as delivered, and at_once, true if relays write that as soon as they
-- may.  A view whose done_at is a constant leaves the rows as they are.

-- include: sqlite.sql

-- include: sqlite.message.sql

-- include: sqlite.positions.sql

-- part: last_id
-- Without the trigger the table was made again, and its ids may have begun again.
(SELECT CASE WHEN EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.type = 'trigger' AND s.name = {name} || '_by_hand' COLLATE NOCASE)
             THEN max((SELECT max(p.high) FROM {table_progress} AS p), coalesce(max(t.id), 0))
             ELSE max(t.id) END FROM {table} AS t)

-- include: sqlite.beside.sql

-- name: migrate-1
{own_tables}
{beside}
{register}

-- part: gone
-- The highest id of a row that was deleted above the positions.  It is an exception of no subscription.
coalesce((SELECT max(x.id) FROM {table_exception} AS x WHERE x.subscription = '' AND x.state = 2), 0)

-- name: add-watch
-- An id that is not above the position of a subscription was written by hand, or was that of a deleted row, which a relay
-- may have in flight.  The position does not cover it, so the message becomes an exception, and the control version makes
-- relays look for it.  An exception with its id is that of the deleted row.
DROP TRIGGER IF EXISTS {table_by_hand};
CREATE TRIGGER {table_by_hand} AFTER INSERT ON @table@
WHEN new.@id@ <= max((SELECT max(p.high) FROM {table_progress} AS p), {gone})
BEGIN
  DELETE FROM {table_exception} WHERE subscription = '' AND state = 4 AND id = new.@id@;
  INSERT INTO {table_exception}(subscription, id, changed_at)
    SELECT p.subscription, v.id, (SELECT ms FROM wherry_clock) FROM {table_progress} AS p, {table} AS v
    WHERE v.id = new.@id@
      AND (p.topics IS NULL OR EXISTS (SELECT 1 FROM json_each({globs:p}) AS g WHERE v.topic GLOB g.value))
    ON CONFLICT (subscription, id) DO UPDATE SET state = 0, attempts = 0, next_retry_at = NULL, claim_token = '',
      last_error = NULL, changed_at = excluded.changed_at;
  UPDATE wherry_outbox SET control_version = {next_control}
    WHERE name = {name} OR substr(name, 1, length({name}) + 1) = {name} || '\' COLLATE NOCASE;
END;
DROP TRIGGER IF EXISTS {table_gone};
CREATE TRIGGER {table_gone} AFTER DELETE ON @table@
WHEN old.@id@ > max((SELECT min(p.high) FROM {table_progress} AS p), {gone})
BEGIN
  DELETE FROM {table_exception} WHERE subscription = '' AND (state = 2 OR id = old.@id@);
  INSERT INTO {table_exception}(subscription, id, state) VALUES ('', old.@id@, 2);
END;

-- name: add-exceptions
{beside}

-- name: add-undone
-- The first subscription begins behind all rows; those that the owner does not count as delivered wait.
INSERT INTO {table_exception}(subscription, id, changed_at)
SELECT {subscription}, t.id, (SELECT ms FROM wherry_clock) FROM {table} AS t WHERE t.done_at IS NULL ON CONFLICT DO NOTHING;
UPDATE {table_progress} SET high = coalesce((SELECT max(t.id) FROM {table} AS t), 0) WHERE subscription = {subscription};

-- name: add-forget
-- The table was made again since it was adopted, so positions of the old one mean nothing.
{own_tables}
DROP TABLE IF EXISTS {table_progress};
DROP TABLE IF EXISTS {table_exception};
DELETE FROM wherry_schema WHERE model = 'log' AND name = {name};

-- name: schema-version
SELECT version, min_program FROM wherry_schema WHERE model = 'log' AND name = :name AND {is_view};

-- ---- rows for which an expression of the view fails ----

-- Such a row is marked by an exception without a subscription.  Then the view has NULL in place of its message id and of what
-- may fail, so that statements that read other rows, too, do not fail.  A relay takes it for a dead message.

-- name: failing-range
-- Fails if an expression fails for one of these rows.
SELECT * FROM {table} WHERE id > :after AND id <= :upto;

-- name: failing-ids
SELECT * FROM {table} WHERE id IN (SELECT value FROM json_each(:ids));

-- name: failing-open
SELECT id FROM {table_exception} WHERE subscription = {subscription} AND state <> 2 AND id > :after
ORDER BY id LIMIT :limit;

-- name: failing-mark
INSERT INTO {table_exception}(subscription, id, state, last_error) VALUES ('', :id, 4, :error)
ON CONFLICT (subscription, id) DO NOTHING;

-- name: failing-forget
-- Messages that are tried again are read again.
DELETE FROM {table_exception} WHERE subscription = '' AND state = 4 AND id IN (
  SELECT x.id FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.state <> 4);

-- name: indexes-missing
-- Number of missing tables and triggers.
SELECT count(*)
FROM (SELECT {name} || s.column1 AS name FROM (VALUES ('_progress'), ('_exception'), ('_by_hand'), ('_gone'), ('_delivered')) AS s) AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type IN ('table', 'trigger') AND s.name = t.name COLLATE NOCASE);

-- name: left-over
-- Whether the outbox was made, and its table was dropped by hand; 2: that of another program, of which the view stays.
SELECT 1 + EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.type = 'view' AND s.name = {name} COLLATE NOCASE)
FROM wherry_schema WHERE model = 'log' AND name = {name}
  AND NOT EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.type = 'table' AND s.name = {name} COLLATE NOCASE);

-- name: drop
-- The table stays, if it is there.
DROP TRIGGER IF EXISTS {table_by_hand};
DROP TRIGGER IF EXISTS {table_gone};
DROP VIEW IF EXISTS {table};
DROP INDEX IF EXISTS {table_undone};
{unregister}

-- include: sqlite.subscription.sql

-- include: sqlite.reconcile.sql

-- part: passed
-- Messages that every subscription has passed, that are not exceptions, and that the owner does not count as delivered.
SELECT t.id, NOT t.at_once AND {is_young:t} AS is_young FROM {table} AS t
WHERE t.done_at IS NULL AND t.id <= {passed_by_all} AND {unneeded}

-- name: purge
-- If rows are deleted, only those that are older than the age, up to the first one that is younger.  A trigger of the view
-- writes to the rows.
DELETE FROM {table} WHERE id IN (
  SELECT id FROM (
    SELECT id, min(CASE WHEN is_young THEN id END) OVER () AS young FROM ({passed} ORDER BY t.id LIMIT :limit))
  WHERE coalesce(id < young, true))
RETURNING 1, 0;

-- name: purge-count
SELECT count(*) FROM ({passed}) WHERE id < coalesce(
  (SELECT id FROM ({passed}) WHERE is_young ORDER BY id LIMIT 1), 9223372036854775807);

-- name: discard
-- The row stays.  A message that was not read yet is marked as done, as a handler does, until the position covers it.
INSERT INTO {table_exception}(subscription, id, state, changed_at)
SELECT {subscription}, j.id, 2, (SELECT ms FROM wherry_clock) FROM ({not_delivered}) AS j WHERE true
ON CONFLICT (subscription, id) DO UPDATE SET state = 2, next_retry_at = NULL, changed_at = excluded.changed_at,
  claim_token = '';
