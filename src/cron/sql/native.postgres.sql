-- layout: name=native names=qualified columns=target,name,hash,until_ms,active
--
-- The records of schedules on PostgreSQL.  Times are Unix milliseconds.
--
-- Statements from "remember" on run in transactions of the application, with its search path:
-- their functions and operators are qualified (firing_is_safe_though_pg_catalog_comes_last).

-- include: postgres.own.sql

-- part: now
coalesce(:now::bigint, pg_catalog.floor(extract(epoch FROM pg_catalog.statement_timestamp())
  OPERATOR(pg_catalog.*) 1000.0)::bigint)

-- name: migrate-1
{own_tables}
{own_triggers}
CREATE TABLE IF NOT EXISTS {table}(
  target   text COLLATE "C" NOT NULL CHECK (octet_length(target) <= 200),
  name     text COLLATE "C" NOT NULL CHECK (octet_length(name) <= 100),
  hash     text COLLATE "C" NOT NULL CHECK (octet_length(hash) <= 64),
  until_ms bigint NOT NULL DEFAULT 0    -- ticks were made up to that time
             CHECK (until_ms BETWEEN 0 AND 253402300799999),
  active   boolean NOT NULL DEFAULT false,
  PRIMARY KEY (target, name, hash)
);
INSERT INTO {wherry_schema}(model, name, version, min_program)
  VALUES ('cron', {name}, 1, 100) ON CONFLICT DO NOTHING;

-- name: migrate-2
-- Columns that show the schedule to a person, who cannot read it from the hash.
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS schedule text CHECK (octet_length(schedule) <= 256),
  ADD COLUMN IF NOT EXISTS zone text CHECK (octet_length(zone) <= 100),
  ADD COLUMN IF NOT EXISTS sends_to text CHECK (octet_length(sends_to) <= 400);
UPDATE {wherry_schema} SET version = 2 WHERE model = 'cron' AND name = {name};

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = 'cron' AND name = :name::pg_catalog.text;

-- name: columns
{column_names};

-- name: drop
DROP TABLE {table};
DELETE FROM {wherry_schema} WHERE model = 'cron' AND name = {name};

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- part: this
WHERE target OPERATOR(pg_catalog.=) :target::pg_catalog.text AND name OPERATOR(pg_catalog.=) :name::pg_catalog.text
  AND hash OPERATOR(pg_catalog.=) :hash::pg_catalog.text

-- name: remember
-- If two programs begin at the same time, the second waits for the first.
INSERT INTO {table}(target, name, hash) VALUES (:target::pg_catalog.text, :name::pg_catalog.text, :hash::pg_catalog.text)
ON CONFLICT DO NOTHING;

-- name: look
-- The row is locked until the transaction ends, so no other program makes ticks of this schedule
-- (several_that_fire_at_once_make_each_tick_once).
SELECT until_ms, active::integer::bigint, {now} FROM {table} {this} FOR UPDATE;

-- name: active
-- Another active schedule of this name.
SELECT hash, until_ms FROM {table}
WHERE target OPERATOR(pg_catalog.=) :target::pg_catalog.text AND name OPERATOR(pg_catalog.=) :name::pg_catalog.text AND hash OPERATOR(pg_catalog.<>) :hash::pg_catalog.text AND active
LIMIT 1;

-- name: advance
UPDATE {table} SET until_ms = greatest(until_ms, :until::bigint), active = true,
  schedule = coalesce(:schedule::pg_catalog.text, schedule), zone = coalesce(:zone::pg_catalog.text, zone),
  sends_to = coalesce(:sends_to::pg_catalog.text, sends_to)
{this};

-- name: retire
-- Ticks after :until were removed before a consumer handled them, so they may be installed again.
UPDATE {table} SET active = false, until_ms = least(until_ms, :until::bigint) {this};

-- name: retire-others
UPDATE {table} SET active = false
WHERE target OPERATOR(pg_catalog.=) :target::pg_catalog.text AND name OPERATOR(pg_catalog.=) :name::pg_catalog.text
  AND hash OPERATOR(pg_catalog.<>) :hash::pg_catalog.text AND active;

-- name: forget
-- All schedules of a name, for all targets.
DELETE FROM {table} WHERE name OPERATOR(pg_catalog.=) :name::pg_catalog.text;

-- name: list
SELECT target, name, hash, until_ms, active::integer::bigint, schedule, zone, sends_to FROM {table}
ORDER BY target, name, hash;
