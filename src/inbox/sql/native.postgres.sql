-- layout: name=native names=qualified columns=consumer,message_id,accepted_at
--
-- The inbox on PostgreSQL.  Times are timestamptz, which the driver reads as Unix milliseconds.
--
-- "accept" and "accept-many" run in transactions of the application, with its search path: their
-- functions and operators are qualified (accepting_is_safe_though_pg_catalog_comes_last).

-- include: postgres.own.sql

-- part: own_functions
-- Functions that all inboxes of a schema share.
ARRAY['wherry_accept', 'wherry_accept_many', 'wherry_inbox_purge']::pg_catalog.name[]

-- part: function_models
'inbox'

-- part: function_column
'message_id'

-- part: leaf
section

-- include: postgres.home.sql

-- part: make_functions
-- The functions run with the rights and in the transaction of their caller.  Every name in wherry_accept() and
-- wherry_accept_many() is qualified, since the caller's search path may name any schema.
DO $do$
DECLARE
  schema CONSTANT text := current_setting('wherry.schema') || '.';  -- quoted where it must be
  key CONSTANT text := 'inbox';
  otherwise CONSTANT text := concat('PERFORM ', schema, 'wherry_missing(''inbox'', inbox);');
  made text;
  {branch_variables}
BEGIN
  SELECT f.* INTO names, types FROM ({function_tables}) AS f;
  FOREACH made IN ARRAY ARRAY[
$f$CREATE OR REPLACE FUNCTION @.wherry_accept(message_id text, consumer text DEFAULT '', inbox text DEFAULT 'inbox')
RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN -- Returns true if the message is new.
  IF message_id IS NULL OR message_id OPERATOR(pg_catalog.=) '' THEN
    RAISE 'a message needs an id' USING ERRCODE = 'invalid_parameter_value';
  ELSIF pg_catalog.octet_length(message_id) OPERATOR(pg_catalog.>) 1024 THEN
    RAISE 'message_id is % bytes, the limit is 1024', pg_catalog.octet_length(message_id)
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF pg_catalog.octet_length(consumer) OPERATOR(pg_catalog.>) 255 THEN
    RAISE 'consumer is % bytes, the limit is 255', pg_catalog.octet_length(consumer)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  @each@
  INSERT INTO @table@(consumer, message_id) VALUES (coalesce(wherry_accept.consumer, ''), wherry_accept.message_id)
  ON CONFLICT DO NOTHING;
  @end@
  RETURN FOUND;
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_accept_many(message_ids text[], consumer text DEFAULT '', inbox text DEFAULT 'inbox')
RETURNS boolean[] LANGUAGE plpgsql AS $body$
<<own>>
DECLARE -- Returns for each element whether it is new.  Of equal ones only the first is.
  accepted pg_catalog.text[];
  one record;
BEGIN
  -- The function for one message says what is wrong.
  FOR one IN SELECT m.id, m.nth FROM pg_catalog.unnest(wherry_accept_many.message_ids) WITH ORDINALITY AS m(id, nth)
    WHERE m.id IS NULL OR m.id OPERATOR(pg_catalog.=) '' OR pg_catalog.octet_length(m.id) OPERATOR(pg_catalog.>) 1024
      OR pg_catalog.octet_length(wherry_accept_many.consumer) OPERATOR(pg_catalog.>) 255 ORDER BY m.nth LIMIT 1 LOOP
    BEGIN
      PERFORM @.wherry_accept(one.id, consumer, inbox);
    {says_which}
    RAISE 'message % cannot be accepted', one.nth;
  END LOOP;
  @each@
  -- In one order, so that two transactions do not wait for each other.
  WITH got AS (INSERT INTO @table@(consumer, message_id)
    SELECT coalesce(wherry_accept_many.consumer, ''), m.id COLLATE pg_catalog."C"
    FROM pg_catalog.unnest(wherry_accept_many.message_ids) AS m(id) ORDER BY 2 ON CONFLICT DO NOTHING RETURNING message_id)
  SELECT pg_catalog.array_agg(g.message_id) INTO own.accepted FROM got AS g;
  @end@
  RETURN ARRAY(SELECT coalesce(m.nth OPERATOR(pg_catalog.=) m.first AND m.id OPERATOR(pg_catalog.=) ANY (own.accepted), false)
    FROM (SELECT i.id, i.nth, pg_catalog.min(i.nth) OVER (PARTITION BY i.id) AS first
          FROM pg_catalog.unnest(wherry_accept_many.message_ids) WITH ORDINALITY AS i(id, nth)) AS m ORDER BY m.nth);
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_inbox_purge(older_than interval, inbox text DEFAULT 'inbox')
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
<<own>>
DECLARE -- Returns the number of ids deleted.
  before timestamptz;
  n bigint;
  sum bigint := 0;
BEGIN
  IF older_than IS NULL OR older_than < interval '0' THEN
    RAISE 'ids cannot be older than %', coalesce(older_than::pg_catalog.text, 'null')
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  before := statement_timestamp() - least(older_than, interval '100 years');
  @each@
  LOOP
    -- Ids that another transaction is deleting are skipped.
    DELETE FROM @table@ AS m WHERE m.ctid = ANY (ARRAY(SELECT i.ctid FROM @table@ AS i
      WHERE i.accepted_at <= own.before ORDER BY i.accepted_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    EXIT WHEN n = 0;
    sum := sum + n;
  END LOOP;
  @end@
  RETURN sum;
END $body$ $f$] LOOP
    made := replace(made, '@.', schema);
    {branch}
    EXECUTE made;
  END LOOP;
END $do$;

-- include: postgres.functions.sql

-- name: migrate-1
{own_tables}
{own_triggers}
CREATE TABLE IF NOT EXISTS {table}(
  consumer    text COLLATE "C" NOT NULL DEFAULT '' CHECK (octet_length(consumer) <= 255),
  message_id  text COLLATE "C" NOT NULL CHECK (octet_length(message_id) BETWEEN 1 AND 1024),
  accepted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
  PRIMARY KEY (consumer, message_id)
);
CREATE INDEX IF NOT EXISTS {bare_accepted} ON {table}(accepted_at);
SELECT set_config('wherry.schema', relnamespace::pg_catalog.regnamespace::pg_catalog.text, true)
FROM pg_class WHERE oid = {'table}::pg_catalog.regclass::pg_catalog.oid;
{missing_function}
INSERT INTO {wherry_schema}(model, name, version, min_program)
  VALUES ('inbox', {name}, 1, 100) ON CONFLICT DO NOTHING;
{make_functions}
{mark_functions}

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = 'inbox' AND name = :name::pg_catalog.text;

-- name: columns
{column_names};

-- name: indexes-missing
-- If a function is missing or of another version, the inbox needs to be made again.
SELECT count(*) + {functions_stale}
FROM (SELECT 1 WHERE to_regclass({'table_accepted}) IS NULL) AS missing;

-- name: drop
SELECT set_config('wherry.schema', relnamespace::pg_catalog.regnamespace::pg_catalog.text, true)
FROM pg_class WHERE oid = {'table}::pg_catalog.regclass::pg_catalog.oid;
DROP TABLE {table};
DELETE FROM {wherry_schema} WHERE model = 'inbox' AND name = {name};
DO $$ DECLARE f regprocedure; BEGIN
  IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = 'inbox') THEN
    FOR f IN SELECT oid FROM pg_proc
      WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = {'wherry_schema}::pg_catalog.regclass::pg_catalog.oid)
        AND proname = ANY ({own_functions})
    LOOP
      EXECUTE 'DROP FUNCTION ' || f::pg_catalog.text;
    END LOOP;
  END IF;
END $$;
{make_functions_again}

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: accept
-- If the statement inserts no row, the message was accepted before.  If another transaction that accepted
-- the message is open, the statement waits until it ends (a_message_is_accepted_by_one_of_two_at_once).
INSERT INTO {table}(consumer, message_id) VALUES (:consumer::pg_catalog.text, :message_id::pg_catalog.text)
ON CONFLICT DO NOTHING;

-- name: accept-many
-- Returns the ids that are new.  The ids are inserted in one order, so that two transactions do not
-- wait for each other (two_that_accept_the_same_messages_do_not_deadlock).
INSERT INTO {table}(consumer, message_id)
SELECT :consumer::pg_catalog.text, i.id COLLATE pg_catalog."C"
FROM pg_catalog.json_array_elements_text(:ids::pg_catalog.json) AS i(id)
ORDER BY 2
ON CONFLICT DO NOTHING RETURNING message_id;

-- name: forget
DELETE FROM {table}
WHERE consumer OPERATOR(pg_catalog.=) :consumer::pg_catalog.text
  AND message_id OPERATOR(pg_catalog.=) :message_id::pg_catalog.text;

-- name: purge-accepted
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM {table}
  WHERE accepted_at <= statement_timestamp() - least(:age::bigint, 3153600000000)::double precision
                       * interval '1 millisecond'
  ORDER BY accepted_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- name: count-old
-- The number of ids that "purge-accepted" would delete.
SELECT count(*) FROM {table}
WHERE accepted_at <= statement_timestamp() - least(:age::bigint, 3153600000000)::double precision
                     * interval '1 millisecond';

-- name: count
SELECT count(*), CASE WHEN count(*) = 0 THEN 0 ELSE greatest(
  (extract(epoch FROM statement_timestamp() - least(greatest(min(accepted_at), '0001-01-01 00:00:00+00'),
    statement_timestamp())) * 1000.0)::bigint, 0) END
FROM {table};

-- name: accepted
SELECT message_id, accepted_at FROM {table}
WHERE accepted_at >= '1970-01-01 00:00:00+00'::timestamptz + :since::bigint::float8 * interval '1 millisecond'
  AND (:consumer::text IS NULL OR consumer = :consumer::text) ORDER BY accepted_at;

-- name: oldest-accepted
SELECT message_id, accepted_at FROM {table}
WHERE :consumer::text IS NULL OR consumer = :consumer::text ORDER BY accepted_at LIMIT 1;
