-- layout: name=adopted names=qualified payloads=json,jsonb,text,bytea ordered=yes purges=soon columns=id,message_id,tx,topic,payload,done_at progress=subscription,high,seen exception=subscription,id,state
--
-- A table of another program that is read as a log on PostgreSQL.  `wherry adopt` makes a view that has the columns of a
-- log.  Everything else is beside it, as in log.postgres.sql:
--
--     table            the view
--     table_progress   the position of a subscription, or of its shares
--     table_exception  one row for each message that waits, failed or died
--
-- The table gets a column with the number of the transaction that wrote a row, and a trigger that wakes relays.  The view
-- has two columns more than a log: done_at, when the owner of the table counts the message as delivered, and at_once, true
-- if relays write that as soon as they may.  A view whose done_at is a constant leaves the rows as they are.

-- include: postgres.message.sql

-- include: postgres.positions.sql

-- include: postgres.sql

-- include: postgres.own.sql

-- include: postgres.enqueue.sql

-- include: postgres.beside.sql

-- include: postgres.source.sql

-- name: migrate-1
{own_tables}
{progress_table}
{exception_table}
{begin_subscriptions}
-- A row that is copied with the number of another transaction, or with NULL, would look as if it had been read.
CREATE OR REPLACE FUNCTION {table_numbered}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $numbered$
BEGIN
  new.wherry_tx := pg_current_xact_id();
  RETURN new;
END $numbered$;
DO $do$ BEGIN
  EXECUTE concat('CREATE OR REPLACE FUNCTION ', {'table_wakes},
    '() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ', quote_literal({'wakes_body}));
END $do$;
-- If the lock is taken, a relay of this outbox sleeps.
DO $$
DECLARE
  source CONSTANT regclass := {source}::regclass;
BEGIN
  EXECUTE format('DROP TRIGGER IF EXISTS %s ON %s', {'bare_wake}, source);
  EXECUTE format('CREATE TRIGGER %s AFTER INSERT ON %s FOR EACH STATEMENT WHEN (NOT pg_try_advisory_xact_lock_shared(%L::bigint + %L::regclass::oid::bigint))
    EXECUTE FUNCTION %s(%L, %L)', {'bare_wake}, source, 1669::bigint << 32, {'table}, {'table_wakes},
    (SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = {'table}::regclass::oid), {name});
  EXECUTE format('DROP TRIGGER IF EXISTS %s ON %s', {'bare_numbered}, source);
  EXECUTE format('CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW WHEN (new.wherry_tx IS DISTINCT FROM pg_current_xact_id())
    EXECUTE FUNCTION %s()', {'bare_numbered}, source, {'table_numbered});
END $$;
{register}

-- name: add-exceptions
-- The view reads marks of rows in it.
{exception_table}

-- name: add-undone
-- The first subscription begins behind all rows; those that the owner does not count as delivered wait.
WITH head AS MATERIALIZED (
  SELECT pg_current_snapshot() AS now, coalesce((SELECT max(t.id) FROM {table} AS t), 0) AS high),
moved AS (
  UPDATE {table_progress} AS p SET high = h.high, seen = h.now FROM head AS h WHERE p.subscription = {subscription})
INSERT INTO {table_exception}(subscription, id)
SELECT {subscription}, t.id FROM {table} AS t WHERE t.done_at IS NULL ON CONFLICT DO NOTHING;

-- name: add-forget
-- The table was made again since it was adopted, so positions of the old one mean nothing.
DO $$ BEGIN
  IF to_regclass({'wherry_schema}) IS NOT NULL THEN
    DROP TABLE IF EXISTS {table_progress}, {table_exception};
    DELETE FROM {wherry_lease} WHERE outbox = {name} OR starts_with(outbox, {name} || chr(92));
    DELETE FROM {wherry_outbox} WHERE name = {name} OR starts_with(name, {name} || chr(92));
    DELETE FROM {wherry_schema} WHERE model = 'log' AND name = {name};
  END IF;
END $$;

-- ---- rows for which an expression of the view fails ----

-- Such a row is marked by an exception without a subscription.  Then the view has NULL in place of its message id and of what
-- may fail, so that statements that read other rows, too, do not fail.  A relay takes it for a dead message.  The mark has the
-- number of the row's transaction as its claim token: another row that takes the id later is not marked.  A row that has
-- no number, or lost it when a dump was restored, is whatever the token.

-- name: failing-range
-- Fails if an expression fails for one of these rows: of a row as a value all columns are needed.
SELECT count(e) FROM {table} AS e WHERE e.id > :after::bigint AND e.id <= :upto::bigint;

-- name: failing-ids
SELECT count(e) FROM {table} AS e WHERE e.id = ANY ({ids});

-- name: failing-open
SELECT x.id FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.state <> 2 AND x.id > :after::bigint
ORDER BY x.id LIMIT :limit::bigint;

-- name: failing-mark
-- It holds for any row of this id until "failing-row": the row cannot be read before it is marked.
INSERT INTO {table_exception}(subscription, id, state, last_error) VALUES ('', :id::bigint, 4, :error::text)
ON CONFLICT (subscription, id) DO UPDATE SET claim_token = NULL, last_error = excluded.last_error;

-- name: failing-row
UPDATE {table_exception} AS x SET claim_token = coalesce(t.tx::text, '0') FROM {table} AS t
WHERE x.subscription = '' AND x.id = :id::bigint AND x.state = 4 AND t.id = x.id;

-- name: failing-forget
-- Messages that are tried again are read again.
DELETE FROM {table_exception} AS m WHERE m.subscription = '' AND EXISTS (
  SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = m.id AND x.state <> 4);

-- name: indexes-missing
-- Number of missing tables beside the view, indexes and triggers, and of functions that are missing or stale.
SELECT count(*) + {functions_stale} + (
  SELECT 3 - count(*) FROM (
    SELECT 1 FROM pg_trigger WHERE tgrelid = {source}::regclass::oid AND tgenabled IN ('O', 'A')
      AND tgname IN (({name} || '_wake')::name, ({name} || '_numbered')::name)
    UNION ALL
    (SELECT 1 FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
     WHERE i.indrelid = {source}::regclass::oid AND i.indisvalid AND i.indpred IS NULL AND a.attname = 'wherry_tx' LIMIT 1)) AS f)
FROM unnest(ARRAY[{'table_progress}, {'table_exception}, {'table_dead}, {'table_open}, {'table_done}]) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: left-over
-- Whether the outbox was made, and its table was dropped by hand; 2: that of another program.
SELECT CASE WHEN to_regprocedure({'table_numbered} || '()') IS NULL THEN 1 ELSE 2 END
FROM {wherry_schema} WHERE model = 'log' AND name = {name} AND to_regclass({'table}) IS NULL;

-- name: drop
-- The table stays, without what was added to it.  The view may have been dropped by hand, with the table or alone.
SELECT set_config('wherry.schema', relnamespace::regnamespace::text, true)
FROM pg_class WHERE oid = to_regclass({'wherry_schema})::oid;
DO $$
DECLARE
  -- Triggers know the table if the view is gone.
  sources CONSTANT regclass[] := ARRAY(
    SELECT t.tgrelid::regclass FROM pg_trigger AS t
    WHERE t.tgfoid IN (to_regprocedure({'table_numbered} || '()')::oid, to_regprocedure({'table_wakes} || '()')::oid)
    UNION SELECT to_regclass({source}));
  source regclass;
  added name;
BEGIN
  FOREACH source IN ARRAY sources LOOP
    CONTINUE WHEN source IS NULL OR source = to_regclass({'table});
    EXECUTE format('DROP TRIGGER IF EXISTS %s ON %s', {'bare_wake}, source);
    EXECUTE format('DROP TRIGGER IF EXISTS %s ON %s', {'bare_numbered}, source);
  END LOOP;
  DROP FUNCTION IF EXISTS {table_numbered}();
  DROP FUNCTION IF EXISTS {table_wakes}();
  DROP VIEW IF EXISTS {table};
  DROP FUNCTION IF EXISTS {table_delivered}(bigint[]);
  DROP FUNCTION IF EXISTS {table_headers}(text);
  DROP INDEX IF EXISTS {table_undone};
  -- An outbox of Wherry's own whose table is gone is dropped here, too.
  DROP FUNCTION IF EXISTS {table_segments}(bigint, bigint, boolean);
  FOR source, added IN SELECT attrelid::regclass, attname FROM pg_attribute
    WHERE attrelid = ANY (sources) AND attname IN ('wherry_tx', 'wherry_id') AND NOT attisdropped
  LOOP
    BEGIN
      EXECUTE format('ALTER TABLE %s DROP COLUMN %I', source, added);
    EXCEPTION WHEN dependent_objects_still_exist THEN NULL; -- Another view has it.
    END;
  END LOOP;
END $$;
{unregister}

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = 'log' AND name = :name::text AND {is_view};

-- include: postgres.subscription.sql

-- part: kept
-- An operator may not lock rows of the table.
OFFSET 0

-- include: postgres.reconcile.sql

-- part: passed
-- Messages that every subscription has passed, that are not exceptions, and that the owner does not count as delivered.
SELECT t.id, t.is_young FROM (
  SELECT {key_columns:e}, NOT e.at_once AND {is_young:e} AS is_young FROM {table} AS e
  WHERE e.done_at IS NULL AND e.id > :after::bigint AND e.id <= {passed_by_all}
  ORDER BY e.id OFFSET 0) AS t
WHERE {unneeded}

-- part: unmarked
-- Forgets marks of rows that the owner deleted, of at most 2,000: the next ones in a circle from any of them.  A mark that
-- another transaction has locked stays.
start AS MATERIALIZED (
  SELECT (min(x.id)::numeric + floor(random()::numeric * (max(x.id)::numeric - min(x.id)::numeric)))::bigint AS id
  FROM {table_exception} AS x WHERE x.subscription = '' AND x.state = 4),
unmarked AS (
  DELETE FROM {table_exception} WHERE subscription = '' AND state = 4 AND id = ANY (ARRAY(
    SELECT x.id FROM {table_exception} AS x WHERE x.subscription = '' AND x.state = 4 AND x.id = ANY (ARRAY(
      SELECT m.id FROM (
        (SELECT x.id FROM {table_exception} AS x WHERE x.subscription = '' AND x.state = 4 AND x.id >= (SELECT id FROM start)
         ORDER BY x.id LIMIT 1000)
        UNION ALL
        (SELECT x.id FROM {table_exception} AS x WHERE x.subscription = '' AND x.state = 4 AND x.id < (SELECT id FROM start)
         ORDER BY x.id LIMIT 1000)) AS m
      WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = m.id OFFSET 0)))
    FOR UPDATE SKIP LOCKED)))

-- name: purge
-- If rows are deleted, only those that are older than the age, up to the first one that is younger.  A function of the owner
-- does with the rows what `adopt --done` said.  It returns how many there were: rows that another transaction has locked
-- stay.
WITH {unmarked},
old AS MATERIALIZED (
  SELECT w.id, row_number() OVER () AS nth FROM (
    SELECT c.id, min(c.id) FILTER (WHERE c.is_young) OVER () AS young FROM ({passed} LIMIT :limit::bigint) AS c) AS w
  WHERE coalesce(w.id < w.young, true)),
done AS MATERIALIZED (
  SELECT {table_delivered}(ARRAY(SELECT o.id FROM old AS o)) AS n)
SELECT o.id, (o.nth > d.n)::integer FROM old AS o, done AS d;

-- name: purge-count
SELECT count(*) FROM ({passed}) AS t WHERE t.id < coalesce(
  (SELECT y.id FROM ({passed}) AS y WHERE y.is_young LIMIT 1), 9223372036854775807);

-- name: discard
-- The row stays.  The message is marked as done, as a handler does, until the position covers it.
INSERT INTO {table_exception} AS x (subscription, id, state)
SELECT {subscription}, n.id, 2 FROM ({not_delivered}) AS n
ON CONFLICT (subscription, id) DO UPDATE SET state = 2, next_retry_at = NULL, changed_at = {now}, claim_token = '';
