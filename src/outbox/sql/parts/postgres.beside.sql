--
-- Leases, positions and exceptions, which an outbox that is read behind a position has beside its table, on PostgreSQL.

-- part: ends
-- An id that the position does not cover, if any: a relay that missed the notice of a commit looks.
0::bigint, (
  SELECT coalesce(max(coalesce(
    (SELECT t.id FROM {table} AS t WHERE t.id > p.high ORDER BY t.id DESC LIMIT 1),
    (SELECT t.id FROM {table} AS t WHERE t.tx >= pg_snapshot_xmax(p.seen) AND t.id + 0 <= p.high ORDER BY t.tx LIMIT 1),
    (SELECT t.id FROM pg_snapshot_xip(p.seen) AS open(tx) CROSS JOIN LATERAL (
       SELECT o.id FROM {table} AS o WHERE o.tx BETWEEN open.tx AND open.tx AND o.id + 0 <= p.high
       ORDER BY o.tx LIMIT 1) AS t LIMIT 1), 0)), 0)
  FROM {table_progress} AS p WHERE p.subscription = {subscription})

-- include: postgres.lease.sql

-- part: share_engine
'log'

-- part: share_ends
{ends}

-- include: postgres.shares.sql

-- part: progress_table
-- The position is updated in place many times a second, and stays on its page.
CREATE TABLE IF NOT EXISTS {table_progress}(
  subscription text COLLATE "C" NOT NULL,
  mask     bigint NOT NULL DEFAULT -1,  -- a bit for each partition of the keys; together the rows of a subscription have all
  high     bigint NOT NULL,       -- the highest id that was read
  seen     pg_snapshot NOT NULL,  -- the snapshot of the statement that read it
  until    pg_snapshot,           -- late rows up to this snapshot are being read; NULL: none are
  late     bigint NOT NULL DEFAULT 0,  -- and were read up to this id
  topics   text,                  -- patterns, "orders.*,billing"; NULL: all topics
  shared   boolean NOT NULL DEFAULT false,  -- relays that begin share the partitions
  moved_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (subscription, mask)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- part: exception_table
CREATE TABLE IF NOT EXISTS {table_exception}(
  subscription  text COLLATE "C" NOT NULL,
  id            bigint NOT NULL,
  state         smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
  attempts      integer NOT NULL DEFAULT 0,
  next_retry_at timestamptz,
  changed_at    timestamptz NOT NULL DEFAULT now(),
  claim_token   text,
  last_error    text,
  PRIMARY KEY (subscription, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX IF NOT EXISTS {bare_dead} ON {table_exception}(subscription, id) WHERE state = 4;
CREATE INDEX IF NOT EXISTS {bare_open} ON {table_exception}(subscription, id) WHERE state IN (0, 1, 3);
CREATE INDEX IF NOT EXISTS {bare_done} ON {table_exception}(subscription, id) WHERE state = 2;

-- part: begin_subscriptions
-- The table may be a new one, after the old one was dropped by hand: its messages have ids that the old ones had.
DELETE FROM {table_exception} AS x WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = x.id);
-- It may have been dropped, since only others are read.
INSERT INTO {table_progress}(subscription, high, seen) SELECT {subscription}, 0, '1:1:'
WHERE NOT EXISTS (SELECT 1 FROM {table_progress}) ON CONFLICT DO NOTHING;

-- part: register
{own_triggers}
SELECT set_config('wherry.schema', relnamespace::regnamespace::text, true)
FROM pg_class WHERE oid = {'table}::regclass::oid;
{missing_function}
INSERT INTO {wherry_schema}(model, name, version, min_program)
  VALUES ('log', {name}, 1, 100) ON CONFLICT DO NOTHING;
{make_functions}
{mark_functions}
INSERT INTO {wherry_outbox}(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- include: postgres.consumer-name.sql

-- part: unregister
DO $$
DECLARE
  f text;
BEGIN
  IF to_regclass({'table_progress}) IS NOT NULL THEN
    FOR f IN SELECT DISTINCT {consume_function:p} FROM {table_progress} AS p LOOP
      EXECUTE format('DROP FUNCTION IF EXISTS %s(integer)', f);
    END LOOP;
  END IF;
END $$;
DROP TABLE IF EXISTS {table_progress};
DROP TABLE IF EXISTS {table_exception};
DELETE FROM {wherry_outbox} WHERE name = {name} OR starts_with(name, {name} || chr(92));
DELETE FROM {wherry_lease} WHERE outbox = {name} OR starts_with(outbox, {name} || chr(92));
DELETE FROM {wherry_schema} WHERE model = 'log' AND name = {name};
{make_functions_again}

-- part: is_view
-- Whether the table of the outbox is a view: one of a table of another program.
(SELECT count(*) > 0 FROM pg_class WHERE oid = to_regclass({'table})::oid AND relkind = 'v')

-- name: add-partitions
-- Relays that begin afterwards share the partitions of a subscription, also of one that is made later.
UPDATE {table_progress} SET shared = true WHERE NOT shared;
ALTER TABLE {table_progress} ALTER shared SET DEFAULT true;

-- name: partitions-ready
SELECT count(*) FROM {table_progress} WHERE subscription = {subscription} AND shared;

-- name: old-kind
SELECT count(*) FROM {wherry_schema} WHERE model = 'outbox' AND name = {name};

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: schema-exists
{has_schema};

-- name: columns
{column_names};
