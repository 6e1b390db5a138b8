--
-- Leases, positions and exceptions, which an outbox that is read behind a position has beside its table, on SQLite.

-- part: ends
-- The last id, if the position does not cover it: a relay that missed the notice of a commit looks.
0, (SELECT coalesce((SELECT t.id FROM {table} AS t WHERE t.id > p.high ORDER BY t.id DESC LIMIT 1), 0)
    FROM {table_progress} AS p WHERE p.subscription = {subscription})

-- include: sqlite.lease.sql

-- part: beside
CREATE TABLE IF NOT EXISTS {table_progress}(
  subscription TEXT NOT NULL PRIMARY KEY,
  high     INTEGER NOT NULL,      -- the highest id that was read
  topics   TEXT,                  -- patterns, "orders.*,billing"; NULL: all topics
  moved_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {table_exception}(
  subscription  TEXT NOT NULL,
  id            INTEGER NOT NULL,
  state         INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
  attempts      INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 1000000000),
  next_retry_at INTEGER CHECK (next_retry_at BETWEEN 0 AND 253402300799999),
  changed_at    INTEGER,
  claim_token   TEXT,
  last_error    TEXT,
  PRIMARY KEY (subscription, id)
) WITHOUT ROWID;
-- By it relays find what handlers wrote, among any number of dead messages.
CREATE INDEX IF NOT EXISTS {table_done} ON {table_exception}(subscription, state, id) WHERE state = 2;

-- part: except_new
-- A new row may be below a position, which does not cover it.  So the message becomes an exception, and the control version
-- makes relays look for it.  An exception with its id is that of a row that was deleted.
  INSERT INTO {table_exception}(subscription, id, changed_at)
    SELECT p.subscription, {.}id, (SELECT ms FROM wherry_clock) FROM {table_progress} AS p
    WHERE p.topics IS NULL OR EXISTS (SELECT 1 FROM json_each({globs:p}) AS g WHERE {.}topic GLOB g.value)
    ON CONFLICT (subscription, id) DO UPDATE SET state = 0, attempts = 0, next_retry_at = NULL, claim_token = '',
      last_error = NULL, changed_at = excluded.changed_at;
  UPDATE wherry_outbox SET control_version = {next_control}
    WHERE name = {name} OR substr(name, 1, length({name}) + 1) = {name} || '\' COLLATE NOCASE;

-- part: register
DELETE FROM {table_exception} WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = {table_exception}.id);
-- It may have been dropped, since only others are read.
INSERT INTO {table_progress}(subscription, high, moved_at)
  SELECT {subscription}, 0, (SELECT ms FROM wherry_clock) WHERE NOT EXISTS (SELECT 1 FROM {table_progress});
INSERT INTO wherry_outbox(name) VALUES ({name}) ON CONFLICT DO NOTHING;
INSERT INTO wherry_schema(model, name, version, min_program)
  VALUES ('log', {name}, 1, 100) ON CONFLICT DO NOTHING;

-- part: unregister
DROP TABLE IF EXISTS {table_progress};
DROP TABLE IF EXISTS {table_exception};
DELETE FROM wherry_outbox WHERE name = {name} OR substr(name, 1, length({name}) + 1) = {name} || '\' COLLATE NOCASE;
DELETE FROM wherry_lease WHERE outbox = {name} OR substr(outbox, 1, length({name}) + 1) = {name} || '\' COLLATE NOCASE;
DELETE FROM wherry_schema WHERE model = 'log' AND name = {name};

-- part: is_view
(SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'view' AND name = {name} COLLATE NOCASE)

-- name: old-kind
SELECT count(*) FROM wherry_schema WHERE model = 'outbox' AND name = {name} COLLATE NOCASE;

-- name: others-left
SELECT count(*) FROM wherry_schema;

-- name: drop-shared
{drop_own}

-- name: schema-exists
{has_schema};

-- name: columns
{column_names};
