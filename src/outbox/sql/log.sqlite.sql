-- layout: name=log ordered=yes columns=id,message_id,topic,payload,!status,!key progress=subscription,high,topics exception=subscription,id,state
--
-- The outbox as a log on SQLite: a message is written once and never changed.  Its result is beside the
-- table, so that a producer pays for no index.
--
--     table            one row for each message
--     table_progress   the position of a subscription: what is below it was taken over
--     table_exception  one row for each message below or above the position that waits, failed or died
--
-- A message is pending if the position does not cover it.  If an exception has its id, that says its state: 0 it
-- waits, 1 it is tried alone, 2 its handler wrote that it is done, 3 it failed, 4 it is dead.  Otherwise it is
-- delivered.

-- include: sqlite.sql

-- include: sqlite.message.sql

-- include: sqlite.positions.sql

-- part: last_id
(SELECT s.seq FROM sqlite_sequence AS s WHERE s.name = {name} COLLATE NOCASE)

-- include: sqlite.beside.sql

-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id     TEXT NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
                   CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) >> 16,
                   CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) & 65535,
                   random() & 4095, 32768 | (random() & 16383), random() & 281474976710655)),
  topic          TEXT NOT NULL,
  aggregate_type TEXT NOT NULL DEFAULT '',
  aggregate_id   TEXT NOT NULL DEFAULT '',
  partition_key  TEXT,
  headers        TEXT NOT NULL DEFAULT '{}',
  trace_id       TEXT,
  created_at     INTEGER NOT NULL DEFAULT
                   (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                 CHECK (created_at BETWEEN 0 AND 253402300799999),
  payload        TEXT NOT NULL,
  CHECK (id > 0 AND id < 4611686018427387904),
  CHECK (length(message_id) <= 1048576), CHECK (length(topic) <= 1048576),
  CHECK (length(aggregate_type) <= 1048576), CHECK (length(aggregate_id) <= 1048576),
  CHECK (length(partition_key) <= 1048576), CHECK (length(headers) <= 1048576),
  CHECK (length(trace_id) <= 1048576)
);
{beside}
-- An id written by hand that is not above the last one may be below a position, which does not cover it.  So the message becomes an
-- exception, and the control version makes relays look for it.
CREATE TRIGGER IF NOT EXISTS {table_by_hand} AFTER INSERT ON {table}
WHEN new.id <= 0 OR new.id <= {last_id}
BEGIN
{except_new:new}
END;
-- The table may be a new one, after the old one was dropped by hand: its messages have ids that the old ones had.
UPDATE {table_progress} SET high = 0
  WHERE high > coalesce({last_id}, 0);
{register}

-- name: schema-version
SELECT version, min_program FROM wherry_schema WHERE model = 'log' AND name = :name AND NOT {is_view};

-- name: indexes-missing
-- Number of missing tables and triggers.
SELECT count(*)
FROM (SELECT {name} || s.column1 AS name FROM (VALUES ('_progress'), ('_exception'), ('_by_hand')) AS s) AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type IN ('table', 'trigger') AND s.name = t.name COLLATE NOCASE);

-- name: drop
DROP TABLE {table};
{unregister}

-- part: insertion
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, partition_key,
                    headers, trace_id, payload)
VALUES (:message_id, :topic, :aggregate_type, :aggregate_id, :key, :headers, :trace_id,
        :payload)

-- name: enqueue
{insertion};

-- name: enqueue-once
{insertion}
ON CONFLICT (message_id) DO NOTHING;

-- name: add-unique
CREATE UNIQUE INDEX IF NOT EXISTS {table_message_id} ON {table}(message_id);

-- name: unique-ids
SELECT count(*) FROM pragma_index_list({name}) AS i
WHERE i."unique" AND NOT i.partial AND (SELECT count(*) FROM pragma_index_info(i.name)) = 1
  AND EXISTS (SELECT 1 FROM pragma_index_info(i.name) AS c WHERE c.name = 'message_id');

-- include: sqlite.subscription.sql

-- include: sqlite.reconcile.sql

-- part: passed
-- Messages that every subscription has passed and that are not exceptions.  If the first row is too young, none is read.
SELECT t.id, {is_young:t} AS is_young FROM {table} AS t
WHERE t.id > :after AND t.id <= {passed_by_all}
  AND (SELECT NOT ({is_young:y}) FROM {table} AS y WHERE y.id > :after ORDER BY y.id LIMIT 1)
  AND {unneeded}

-- name: purge
-- Of these those that are older than the age, up to the first one that is younger.  So it reads no more rows than it may
-- delete, and exceptions, which it leaves: the next batch begins behind the last row of this one (:after).
DELETE FROM {table} WHERE id IN (
  SELECT id FROM (
    SELECT id, min(CASE WHEN is_young THEN id END) OVER () AS young
    FROM ({passed} ORDER BY t.id LIMIT :limit))
  WHERE coalesce(id < young, true))
RETURNING id, 0;

-- name: purge-count
SELECT count(*) FROM ({passed}) WHERE id < coalesce(
  (SELECT id FROM ({passed}) WHERE is_young ORDER BY id LIMIT 1), 9223372036854775807);

-- name: discard
-- Delivered messages are not deleted.  A relay that has the message in flight finds no exception of it; what is left of
-- one has no message and says nothing.
DELETE FROM {table} WHERE id IN ({not_delivered});
