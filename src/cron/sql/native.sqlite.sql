-- layout: name=native columns=target,name,hash,until_ms,active
--
-- The records of schedules on SQLite.  Times are Unix milliseconds.

-- include: sqlite.sql

-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  target   TEXT NOT NULL CHECK (length(target) <= 200),
  name     TEXT NOT NULL CHECK (length(name) <= 100),
  hash     TEXT NOT NULL CHECK (length(hash) <= 64),
  until_ms INTEGER NOT NULL DEFAULT 0   -- ticks were made up to that time
             CHECK (typeof(until_ms) = 'integer' AND until_ms BETWEEN 0 AND 253402300799999),
  active   INTEGER NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),
  PRIMARY KEY (target, name, hash)
) WITHOUT ROWID;
INSERT INTO wherry_schema(model, name, version, min_program)
  VALUES ('cron', {name}, 1, 100) ON CONFLICT DO NOTHING;

-- name: migrate-2
-- Columns that show the schedule to a person, who cannot read it from the hash.
ALTER TABLE {table} ADD COLUMN schedule TEXT CHECK (length(schedule) <= 256);
ALTER TABLE {table} ADD COLUMN zone TEXT CHECK (length(zone) <= 100);
ALTER TABLE {table} ADD COLUMN sends_to TEXT CHECK (length(sends_to) <= 400);
UPDATE wherry_schema SET version = 2 WHERE model = 'cron' AND name = {name};

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM wherry_schema WHERE model = 'cron' AND name = :name;

-- name: columns
{column_names};

-- name: drop
DROP TABLE {table};
DELETE FROM wherry_schema WHERE model = 'cron' AND name = {name};

-- name: others-left
SELECT count(*) FROM wherry_schema;

-- name: drop-shared
{drop_own}

-- part: this
WHERE target = :target AND name = :name AND hash = :hash

-- name: remember
INSERT INTO {table}(target, name, hash) VALUES (:target, :name, :hash) ON CONFLICT DO NOTHING;

-- name: look
-- Runs in a transaction that has written, so no other program makes ticks.
SELECT until_ms, active, coalesce(:now, (SELECT ms FROM wherry_clock)) + 0 FROM {table} {this};

-- name: active
-- Another active schedule of this name.
SELECT hash, until_ms FROM {table}
WHERE target = :target AND name = :name AND hash <> :hash AND active = 1
LIMIT 1;

-- name: advance
UPDATE {table} SET until_ms = max(until_ms, :until), active = 1,
  schedule = coalesce(:schedule, schedule), zone = coalesce(:zone, zone), sends_to = coalesce(:sends_to, sends_to)
{this};

-- name: retire
-- Ticks after :until were removed before a consumer handled them, so they may be installed again.
UPDATE {table} SET active = 0, until_ms = min(until_ms, :until) {this};

-- name: retire-others
UPDATE {table} SET active = 0
WHERE target = :target AND name = :name AND hash <> :hash AND active = 1;

-- name: forget
-- All schedules of a name, for all targets.
DELETE FROM {table} WHERE name = :name;

-- name: list
SELECT target, name, hash, until_ms, active, schedule, zone, sends_to
FROM {table} ORDER BY target, name, hash;
