-- layout: name=adopt columns=
--
-- Looks at a table of another program on PostgreSQL for `wherry adopt`, and has the expressions that make a column of it a
-- column of a log.  In these @c@ is the column.  An expression is called FIELD-TYPE, or FIELD-any if that type
-- has no separate one.

-- part: place
to_regclass({'table})::oid

-- part: number
1671::bigint << 32 | {place}::bigint

-- name: alone
-- Whether nobody else adopts the table until "alone-end".  To wait for him would be a deadlock: his CREATE INDEX
-- CONCURRENTLY waits for all statements.
SELECT pg_try_advisory_lock({number})::integer;

-- name: session
-- Behind a pooler that gives each transaction another session, this is not the number that the client knows.
SELECT pg_backend_pid();

-- name: alone-end
SELECT pg_advisory_unlock({number})::integer;

-- name: look
-- The kind of the table, its rows and size, whether its owner is the caller, its owner, whether it has the column that adopt
-- adds, and whether an index of adopt was not made to the end.  Citus gives each of its tables the trigger.
SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
    WHERE g.tgrelid = c.oid AND p.proname = 'citus_truncate_trigger') THEN 'citus' ELSE c.relkind::text END, greatest(c.reltuples, 0)::bigint, pg_size_pretty(pg_total_relation_size(c.oid)),
  pg_has_role(c.relowner, 'USAGE')::integer, c.relowner::regrole::text,
  EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attname = 'wherry_tx' AND NOT attisdropped)::integer,
  (SELECT count(*) FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
   WHERE i.indrelid = c.oid AND NOT i.indisvalid AND (x.relname LIKE '%\_wherry\_%' OR x.relname LIKE '%\_undone')),
  EXISTS (SELECT 1 FROM pg_publication_tables WHERE schemaname = c.relnamespace::regnamespace::text AND tablename = c.relname)::integer
FROM pg_class AS c WHERE c.oid = {place};

-- name: read-columns
-- Each column: its name and type, whether it is never NULL, and whether it alone is unique.
SELECT a.attname::text, CASE format_type(a.atttypid, NULL)
    WHEN 'bigint' THEN 'integer' WHEN 'integer' THEN 'integer' WHEN 'smallint' THEN 'integer'
    WHEN 'text' THEN 'text' WHEN 'character varying' THEN 'text' WHEN 'character' THEN 'text'
    WHEN 'timestamp with time zone' THEN 'time' WHEN 'timestamp without time zone' THEN 'timestamp'
    ELSE format_type(a.atttypid, NULL) END,
  a.attnotnull::integer,
  EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
          AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)::integer
FROM pg_attribute AS a WHERE a.attrelid = {place} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

-- name: version-column
wherry_tx

-- name: version
@c@ AS tx

-- name: text-text
@c@::text

-- name: text-any
@c@::text

-- name: message-id-any-null
coalesce(nullif(@c@::text, ''), @id@::text)

-- name: text-null
coalesce(@c@::text, '')

-- name: headers-json
/* may fail */ CASE json_typeof(@c@) WHEN 'object' THEN (SELECT coalesce(json_object_agg(h.key, h.value), '{}') FROM json_each_text(@c@) AS h WHERE h.value IS NOT NULL) ELSE '{}'::json END

-- name: headers-jsonb
CASE jsonb_typeof(@c@) WHEN 'object' THEN (SELECT coalesce(json_object_agg(h.key, h.value), '{}') FROM jsonb_each_text(@c@) AS h WHERE h.value IS NOT NULL) ELSE '{}'::json END

-- name: headers-text
@headers@(@c@)

-- name: make-headers
-- Headers of a text that may be no JSON.  PostgreSQL has no function that says whether a text is JSON before version 16.
CREATE OR REPLACE FUNCTION @headers@(text) RETURNS json LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $headers$
BEGIN
  RETURN CASE json_typeof($1::json) WHEN 'object' THEN (
    SELECT coalesce(json_object_agg(h.key, h.value), '{}') FROM json_each_text($1::json) AS h WHERE h.value IS NOT NULL)
    ELSE '{}'::json END;
EXCEPTION WHEN data_exception THEN
  RETURN '{}'::json;
END $headers$;
GRANT EXECUTE ON FUNCTION @headers@(text) TO PUBLIC;

-- name: headers-none
'{}'::json

-- name: payload-json
@c@

-- name: payload-json-null
coalesce(@c@, 'null'::json)

-- name: payload-jsonb
@c@

-- name: payload-jsonb-null
coalesce(@c@, 'null'::jsonb)

-- name: payload-bytea
@c@

-- name: payload-bytea-null
coalesce(@c@, ''::bytea)

-- name: payload-any
@c@::text

-- name: payload-any-null
coalesce(@c@::text, '')

-- name: time-time
@c@

-- name: time-timestamp
@c@ AT TIME ZONE 'UTC'

-- name: time-date
/* may fail */ @c@::timestamp AT TIME ZONE 'UTC'

-- name: time-integer
-- Seconds, or milliseconds.
/* may fail */ to_timestamp(CASE WHEN @c@ > 100000000000 THEN @c@ / 1000.0 ELSE @c@ END)

-- name: time-null
coalesce(@c@, '1970-01-01 00:00:00+00'::timestamptz)

-- name: time-none
statement_timestamp()

-- name: done-set-time
@c@ = now()

-- name: done-set-timestamp
@c@ = now() AT TIME ZONE 'UTC'

-- name: done-set-boolean
@c@ = true

-- name: done-time
@c@

-- name: done-timestamp
@c@

-- name: done-boolean
nullif(@c@, false)

-- name: done-value
-- The first column gets the value @v@.
nullif(@c@ = @v@, false)

-- name: done-never
'-infinity'::timestamptz

-- name: done-delete
NULL::timestamptz

-- name: is-true
true

-- name: is-false
false

-- name: no-text
NULL::text

-- name: add-tx
-- The rows that are there keep NULL: they were committed before this.  No row is rewritten.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS wherry_tx xid8;
ALTER TABLE {table} ALTER COLUMN wherry_tx SET DEFAULT pg_current_xact_id();

-- name: add-id
-- An id that grows.  PostgreSQL writes the whole table again, and nobody can use it meanwhile.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS wherry_id bigint GENERATED BY DEFAULT AS IDENTITY;

-- name: drop-invalid
-- An index that could not be made to its end is there and not valid.
SET LOCAL lock_timeout = '5s';
DO $$
DECLARE
  broken regclass;
BEGIN
  FOR broken IN SELECT i.indexrelid FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE i.indrelid = {'table}::regclass::oid AND NOT i.indisvalid AND (x.relname LIKE '%\_wherry\_%' OR x.relname LIKE '%\_undone')
  LOOP
    EXECUTE format('DROP INDEX %s', broken);
  END LOOP;
END $$;

-- name: be-patient
-- An index that is made beside others' work waits for the transactions that were there before.
SET lock_timeout = '30s';

-- name: be-usual
RESET lock_timeout;

-- name: index-id
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {bare_wherry_id} ON {table}(wherry_id);

-- name: index-tx
CREATE INDEX CONCURRENTLY IF NOT EXISTS {bare_wherry_tx} ON {table}(wherry_tx, @id@);

-- name: index-done
-- The rows that were not delivered yet are found by it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS @undone@ ON {table}(@id@) WHERE (@done@) IS NULL;

-- name: drop-done
-- It may be of another column.
SET LOCAL lock_timeout = '5s';
DROP INDEX IF EXISTS @view_undone@;

-- name: is-marked
-- Whether an expression failed for the row: see adopted.postgres.sql.  Each column that may fail asks this of each row: rows
-- above the last mark, as new ones are, cost nothing, and others a look in the index, however many marks there are.
coalesce(t.@id@ <= (SELECT max(x.id) FROM @exceptions@ AS x WHERE x.subscription = '' AND x.state = 4), false) AND EXISTS (
  SELECT 1 FROM @exceptions@ AS x WHERE x.subscription = '' AND x.state = 4 AND x.id = t.@id@
    AND (coalesce(t.wherry_tx, '0') = '0' OR coalesce(x.claim_token = t.wherry_tx::text, true)) OFFSET 0)

-- name: guard
CASE WHEN @marked@ THEN NULL ELSE @c@ END

-- name: guard-reason
CASE WHEN @marked@ THEN (SELECT x.last_error FROM @exceptions@ AS x WHERE x.subscription = '' AND x.id = t.@id@) ELSE @c@ END

-- name: guard-where
CASE WHEN @marked@ THEN true ELSE (@c@) END

-- name: view
CREATE OR REPLACE VIEW @view@ AS SELECT
@columns@
FROM {table} AS t@where@;
COMMENT ON COLUMN @view@.at_once IS @noted@;

-- name: remembered
-- The options of the last time, of which the view keeps a note.
SELECT o.key, o.value FROM pg_attribute AS a
CROSS JOIN LATERAL (SELECT col_description(a.attrelid, a.attnum) AS note) AS d
CROSS JOIN LATERAL json_each_text(CASE WHEN d.note LIKE 'options: %' THEN substr(d.note, 10) ELSE '{}' END::json) AS o
WHERE a.attrelid = to_regclass(:view::text)::oid AND a.attname = 'at_once';

-- part: make_delivered
-- Relays call it with the ids of rows that every subscription has.  It has the rights of the table's owner, so a relay needs
-- none on the table.  A row that somebody has locked waits for the next call.  A DELETE from the view does nothing.
CREATE OR REPLACE FUNCTION @view_delivered@(bigint[]) RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $delivered$

-- part: free
  WITH free AS MATERIALIZED (
    SELECT @id@ AS id FROM {table} AS t WHERE @id@ = ANY ($1) AND (@done@) IS NULL@and@ FOR UPDATE SKIP LOCKED),

-- part: end_delivered
$delivered$;
REVOKE ALL ON FUNCTION @view_delivered@(bigint[]) FROM PUBLIC;
DO $$ BEGIN
  EXECUTE concat($n$ALTER FUNCTION @view_delivered@(bigint[]) OWNER TO $n$,
    (SELECT relowner::regrole FROM pg_class WHERE oid = {'table}::regclass::oid));
END $$;
CREATE OR REPLACE RULE keep AS ON DELETE TO @view@ DO INSTEAD NOTHING;
CREATE OR REPLACE RULE add_nothing AS ON INSERT TO @view@ DO INSTEAD NOTHING;

-- name: on-delivered
{make_delivered}
{free}
  done AS (UPDATE {table} SET @set@ WHERE @id@ = ANY (ARRAY(SELECT f.id FROM free AS f)) RETURNING 1) SELECT count(*) FROM done
{end_delivered}

-- name: on-deleted
{make_delivered}
{free}
  done AS (DELETE FROM {table} WHERE @id@ = ANY (ARRAY(SELECT f.id FROM free AS f)) RETURNING 1) SELECT count(*) FROM done
{end_delivered}

-- name: on-nothing
{make_delivered}
  SELECT 0::bigint
{end_delivered}

-- name: grant-marks
-- That function passes over the condition of a row for which it failed.
DO $$ BEGIN
  EXECUTE concat($n$GRANT SELECT ON @exceptions@ TO $n$,
    (SELECT relowner::regrole FROM pg_class WHERE oid = {'table}::regclass::oid));
END $$;

-- name: taken-name
-- Whether something else has the name of the outbox.
SELECT count(*) FROM pg_class AS c WHERE c.oid = to_regclass(:view::text)::oid AND NOT (c.relkind = 'v' AND EXISTS (
  SELECT 1 FROM pg_rewrite AS r JOIN pg_depend AS d ON d.objid = r.oid AND d.classid = 'pg_rewrite'::regclass
    AND d.refclassid = 'pg_class'::regclass AND d.refobjid = {place}
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'at_once'
  WHERE r.ev_class = c.oid));

-- name: try-set
-- EXPLAIN runs nothing.
EXPLAIN UPDATE {table} SET @set@;

-- name: lowest
SELECT coalesce(min(t.@id@), 1) FROM {table} AS t@where@;

-- name: taken
-- How many ids at a time a session or a program takes from the sequence of the column.
SELECT greatest(seqcache, abs(seqincrement)) FROM pg_sequence
WHERE seqrelid = pg_get_serial_sequence({'table}, :id::text)::regclass::oid;

-- name: try
-- Fails where adopting would: an expression that the table does not have.
SELECT v.*, v.created_at > now(), CASE WHEN true THEN v.headers ELSE '{}'::json END FROM (SELECT
@columns@
FROM {table} AS t@where@) AS v LIMIT 0;

-- name: undone
-- Number of rows that the owner does not count as delivered, up to 100,000.
SELECT count(*) FROM (SELECT 1 FROM {table} AS t WHERE (@done@) IS NULL LIMIT 100000) AS n;
