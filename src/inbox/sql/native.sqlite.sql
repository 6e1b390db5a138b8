-- layout: name=native columns=consumer,message_id,accepted_at
--
-- The inbox on SQLite.  Times are Unix milliseconds.
--
-- A consumer in any language accepts a message with "accept" in the transaction of its writes:
-- the message is new if the statement inserted a row.

-- include: sqlite.sql

-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  consumer    TEXT NOT NULL DEFAULT '' CHECK (length(consumer) <= 255),
  message_id  TEXT NOT NULL CHECK (length(message_id) BETWEEN 1 AND 1024),
  accepted_at INTEGER NOT NULL DEFAULT
                (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)),
  PRIMARY KEY (consumer, message_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {table_accepted} ON {table}(accepted_at);
INSERT INTO wherry_schema(model, name, version, min_program)
  VALUES ('inbox', {name}, 1, 100) ON CONFLICT DO NOTHING;

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM wherry_schema WHERE model = 'inbox' AND name = :name;

-- name: indexes-missing
SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema
                   WHERE type = 'index' AND name = {name} || '_accepted' COLLATE NOCASE);

-- name: columns
{column_names};

-- name: drop
DROP TABLE {table};
DELETE FROM wherry_schema WHERE model = 'inbox' AND name = {name};

-- name: others-left
SELECT count(*) FROM wherry_schema;

-- name: drop-shared
{drop_own}

-- name: accept
-- If the statement inserts no row, the message was accepted before
-- (a_message_is_new_once_and_then_seen).
INSERT INTO {table}(consumer, message_id) VALUES (:consumer, :message_id)
ON CONFLICT DO NOTHING;

-- name: accept-many
-- Returns the ids that are new.
INSERT INTO {table}(consumer, message_id)
SELECT :consumer, value FROM json_each(:ids) WHERE true
ON CONFLICT DO NOTHING RETURNING message_id;

-- name: forget
DELETE FROM {table} WHERE consumer = :consumer AND message_id = :message_id;

-- name: purge-accepted
DELETE FROM {table} WHERE (consumer, message_id) IN (
  SELECT consumer, message_id FROM {table}
  WHERE accepted_at <= {now} - :age ORDER BY accepted_at LIMIT :limit);

-- name: count-old
-- The number of ids that "purge-accepted" would delete.
SELECT count(*) FROM {table} WHERE accepted_at <= {now} - :age;

-- name: count
SELECT count(*), max({now} - coalesce(min(accepted_at), {now}), 0) FROM {table};

-- name: accepted
SELECT message_id, accepted_at FROM {table}
WHERE accepted_at >= :since AND (:consumer IS NULL OR consumer = :consumer) ORDER BY accepted_at;

-- name: oldest-accepted
SELECT message_id, accepted_at FROM {table}
WHERE :consumer IS NULL OR consumer = :consumer ORDER BY accepted_at LIMIT 1;
