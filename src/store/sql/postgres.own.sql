--
-- Tables of Wherry's own on PostgreSQL, which every model shares.

-- part: functions
-- Names of all functions that Wherry makes.
ARRAY['wherry_wake', 'wherry_wake_control', 'wherry_own_row', 'wherry_given_id', 'wherry_number', 'wherry_enqueue', 'wherry_enqueue_many', 'wherry_consume', 'wherry_accept', 'wherry_accept_many',
      'wherry_send', 'wherry_send_many', 'wherry_publish', 'wherry_receive', 'wherry_ack', 'wherry_nack', 'wherry_extend',
      'wherry_dead_letter', 'wherry_ack_many', 'wherry_nack_many', 'wherry_extend_many', 'wherry_dead_letter_many',
      'wherry_cancel', 'wherry_queue_length', 'wherry_subscribe',
      'wherry_unsubscribe', 'wherry_offer', 'wherry_offer_many', 'wherry_poll', 'wherry_done', 'wherry_done_many',
      'wherry_delayed_kind', 'wherry_delayed_nack', 'wherry_delayed_nack_many', 'wherry_delayed_extend', 'wherry_delayed_extend_many',
      'wherry_delayed_dead_letter', 'wherry_delayed_dead_letter_many', 'wherry_delayed_drop',
      'wherry_listen', 'wherry_unlisten', 'wherry_missing', 'wherry_unreadable']::name[]

-- part: new_message_id
-- A UUID of version 7, for a message without an id.  It is the default of a column and part of functions that run with
-- the search path of their caller, so its names are qualified.
pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()) PLACING
  substring(pg_catalog.int8send(pg_catalog.floor(extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000.0)::bigint)
  FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::pg_catalog.uuid::pg_catalog.text

-- part: column_names
-- Columns of an existing table; no rows if the table does not exist.
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid AND attnum > 0 AND NOT attisdropped

-- part: has_schema
-- Read only tables of these names: the first schema of the search path may belong to another role, and a view of that
-- role would run its code (postgres_hostile.sh).
SELECT count(*) FROM pg_class
WHERE oid = to_regclass({'wherry_schema})::oid AND relkind IN ('r', 'p') AND to_regclass({'table}) IS NOT NULL

-- name: migrate-lock
-- If two programs migrate at the same time, the second waits and then finds the work done.
SELECT pg_advisory_xact_lock(7810779305);

-- name: owners
-- A table or function with the name of one of Wherry's that belongs to another role: its code would run
-- with the rights of every role that uses it
-- (create refuses a table that another role has put there, postgres_hostile.sh).
SELECT t.what || t.name, t.owner::regrole::text FROM (
  SELECT 'table ' AS what, c.relname::text AS name, c.relowner AS owner, c.relnamespace AS place
  FROM pg_class AS c WHERE c.oid = ANY (ARRAY[
    to_regclass({'table}), to_regclass({'table_archive}), to_regclass({'table_dead}), to_regclass({'table_progress}),
    to_regclass({'table_exception}), to_regclass({'wherry_schema}),
    to_regclass({'wherry_outbox}), to_regclass({'wherry_lease}), to_regclass({'wherry_clock}),
    to_regclass({'wherry_stream}), to_regclass({'wherry_dead}),
    to_regclass({'wherry_subscription})]::oid[])
  UNION ALL
  SELECT 'function ', p.proname::text, p.proowner, p.pronamespace FROM pg_proc AS p
  WHERE p.proname = ANY ({functions})
    AND p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema::name)) AS t
JOIN pg_namespace AS n ON n.oid = t.place
JOIN pg_roles AS me ON me.rolname = current_user
WHERE t.owner <> me.oid AND NOT CASE WHEN me.rolsuper
  THEN pg_has_role(t.owner, n.nspowner, 'MEMBER')
       OR (SELECT rolsuper FROM pg_roles WHERE oid = t.owner)
  ELSE pg_has_role(t.owner, 'USAGE') END
LIMIT 1;

-- name: try-drop
-- Only the owner may do this, as DROP TABLE.  It waits for no reader or writer, and makes none wait
-- (postgres_counts.sh).
DO $$ BEGIN
  EXECUTE format('COMMENT ON %s %s IS NULL',
    CASE (SELECT relkind FROM pg_class WHERE oid = {'table}::regclass::oid) WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, {'table});
END $$;

-- include: postgres.citus.sql

-- part: own_tables
-- Wherry's own tables: tables and their versions, the clock, requests of operators, and leases.
{undistributed}
CREATE TABLE IF NOT EXISTS {wherry_schema}(
  model       text NOT NULL,
  name        text NOT NULL,
  version     integer NOT NULL,
  min_program integer NOT NULL,   -- the oldest program that may still run
  PRIMARY KEY (model, name)
);
CREATE OR REPLACE VIEW {wherry_clock}(ms) AS
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000.0)::bigint;
CREATE TABLE IF NOT EXISTS {wherry_outbox}(
  name      text NOT NULL PRIMARY KEY,
  paused_at timestamptz,          -- relays deliver nothing while set
  control_version bigint NOT NULL DEFAULT 0   -- grows when rows changed behind the relay
);
CREATE TABLE IF NOT EXISTS {wherry_lease}(
  outbox     text NOT NULL,
  number     integer NOT NULL,
  engine     text NOT NULL,
  owner      text NOT NULL,
  epoch      bigint NOT NULL,     -- fences every acknowledgement
  expires_at timestamptz NOT NULL,
  lasts      bigint NOT NULL DEFAULT 0,  -- milliseconds, from each renewal on
  clean      integer NOT NULL,    -- given back with nothing in flight
  unclean    integer NOT NULL,    -- unclean ends in a row
  win        bigint NOT NULL,     -- messages the holder may have in flight
  suspects   bigint NOT NULL,     -- messages to try one at a time
  members    text NOT NULL DEFAULT '',  -- tokens of those that hold it together, ",a,b,"
  mask       bigint NOT NULL DEFAULT -1,  -- which parts of the keys, of 64; see postgres.shares.sql
  process    text NOT NULL DEFAULT '',  -- the holder's, for others on its machine
  state      text NOT NULL DEFAULT '',  -- leading, paused, retrying (the destination), stopped
  state_since timestamptz,
  destination text NOT NULL DEFAULT '', -- scheme and host
  delivered  bigint NOT NULL DEFAULT 0, -- messages, since the lease was taken
  delivered_at timestamptz,       -- the last one
  error      text NOT NULL DEFAULT '',  -- the last reason why a delivery failed
  error_at   timestamptz,
  PRIMARY KEY (outbox, number)
) WITH (fillfactor = 50);         -- renewed in place

-- name: unsignalled
-- For the transaction that makes tables on a server without advisory locks or notifications: nobody is woken there, so
-- the functions of triggers that would do it do nothing.
SELECT set_config('wherry.unsignalled', 'yes', true);

-- part: signalled
current_setting('wherry.unsignalled', true) IS DISTINCT FROM 'yes'

-- include: postgres.wake.sql

-- part: own_triggers
-- A row of a table that all tables of a schema share names one of these tables.  A role may write it if it may delete
-- rows of the named table, as relays, receivers and operators may; a sender may not
-- (a_role_writes_no_row_of_another_table).  For tables of other programs, to which `--grant` gives no rights, the right
-- to read rows is enough, since a relay that streams needs no more.  A role with the rights of the owner may write all.
CREATE OR REPLACE FUNCTION {wherry_own_row}() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  names text[];
  called text;
  place oid;
  named oid;
  listed regclass;
  is_listed boolean;
BEGIN
  IF TG_ARGV[0] = 'outbox' THEN
    names := ARRAY[old.outbox, new.outbox];
  ELSIF TG_ARGV[0] = 'queue' THEN
    names := ARRAY[old.queue, new.queue];
  ELSE
    names := ARRAY[old.name, new.name];
  END IF;
  SELECT relnamespace INTO place FROM pg_class
  WHERE oid = TG_RELID AND NOT pg_has_role(current_user, relowner, 'USAGE');
  FOREACH called IN ARRAY names LOOP
    CONTINUE WHEN place IS NULL OR called IS NULL;
    named := (SELECT oid FROM pg_class WHERE relnamespace = place AND relname = called::name AND relname::text = called);
    -- A queue that shares its table is called TABLE:KIND.
    IF named IS NULL AND left(right(called, 33), 1) = ':' THEN
      called := left(called, -33);
      named := (SELECT oid FROM pg_class WHERE relnamespace = place AND relname = called::name AND relname::text = called);
    END IF;
    -- A subscription of an outbox is called TABLE\NAME.
    IF named IS NULL AND position(chr(92) IN called) > 0 THEN
      called := split_part(called, chr(92), 1);
      named := (SELECT oid FROM pg_class WHERE relnamespace = place AND relname = called::name AND relname::text = called);
    END IF;
    CONTINUE WHEN has_table_privilege(named, 'DELETE');
    listed := (SELECT oid FROM pg_class WHERE relnamespace = place AND relname = 'wherry_schema');
    is_listed := false;
    IF has_table_privilege(listed, 'SELECT') THEN
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s AS s WHERE s.name = $1)', listed) INTO is_listed USING called;
    END IF;
    IF named IS NULL OR is_listed OR NOT has_any_column_privilege(named, 'SELECT') THEN
      RAISE 'permission denied for the row of % in table %', quote_literal(called), TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
        HINT = 'Only a role that may delete rows of a table may write the rows that Wherry keeps for it.';
    END IF;
  END LOOP;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN old ELSE new END;
END $$;
DROP TRIGGER IF EXISTS wherry_own_row ON {wherry_outbox};
CREATE TRIGGER wherry_own_row BEFORE INSERT OR UPDATE OR DELETE ON {wherry_outbox}
  FOR EACH ROW EXECUTE FUNCTION {wherry_own_row}('name');
DROP TRIGGER IF EXISTS wherry_own_row ON {wherry_lease};
CREATE TRIGGER wherry_own_row BEFORE INSERT OR UPDATE OR DELETE ON {wherry_lease}
  FOR EACH ROW EXECUTE FUNCTION {wherry_own_row}('outbox');
-- Changes of both tables wake the relays of the outbox that the row names, also standbys.  A queue that
-- shares its table has the name TABLE:KIND, with 33 characters behind the table's name; a subscription TABLE\NAME.
DO $do$ BEGIN
  EXECUTE concat('CREATE OR REPLACE FUNCTION ', {'wherry_wake_control},
    '() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ',
    quote_literal(CASE WHEN {signalled} THEN {'wake_control_body} ELSE {'unsignalled_body} END));
END $do$;
DROP TRIGGER IF EXISTS wherry_wake ON {wherry_outbox};
CREATE TRIGGER wherry_wake AFTER INSERT OR UPDATE ON {wherry_outbox}
  FOR EACH ROW EXECUTE FUNCTION {wherry_wake_control}('name');
DROP TRIGGER IF EXISTS wherry_wake ON {wherry_lease};
CREATE TRIGGER wherry_wake AFTER UPDATE ON {wherry_lease}
  FOR EACH ROW WHEN (new.expires_at < old.expires_at)
  EXECUTE FUNCTION {wherry_wake_control}('outbox');

-- part: ends_in
-- Milliseconds until a lease ends, cut to 100 years, since PostgreSQL cannot subtract infinite times.  No value of
-- a column may stop a relay (no_value_in_a_lease_that_ended_stops_the_next_relay).
ceil(extract(epoch FROM least(greatest({.}expires_at, '1970-01-01 00:00:00+00'::timestamptz),
  statement_timestamp() + interval '100 years') - statement_timestamp()) * 1000.0)::bigint

-- part: lasts
-- Most milliseconds that a lease lasts from now on.  A row without a valid length gets the longest one.
CASE WHEN {.}lasts > 0::bigint AND {.}lasts <= 3153600000000 THEN {.}lasts ELSE 3660000::bigint END

-- part: latest
-- Latest time at which such a lease ends.
statement_timestamp() + ({lasts:s})::float8 * interval '1 millisecond'

-- part: cut
-- Shorten leases that were taken or renewed while the clock was ahead, before it was set back: they would last
-- as long as it was ahead, although their relays may have ended.  A live relay renews its lease within the time
-- that is left (a_lease_from_a_clock_ahead_ends_in_its_time).
UPDATE {wherry_lease} AS s SET expires_at = {latest}
WHERE outbox = :name::text AND expires_at > {latest}

-- part: this_server
-- A standby that is promoted begins another timeline.
SELECT (SELECT system_identifier FROM pg_control_system())::text || ' '
         || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), pg_postmaster_start_time()::text
WHERE NOT pg_is_in_recovery()

-- part: past
-- Milliseconds since a time; NULL for a time that no relay writes.
CASE WHEN {.}at >= '1970-01-01 00:00:00+00'::timestamptz AND {.}at < '10000-01-01 00:00:00+00'::timestamptz
     THEN floor(extract(epoch FROM statement_timestamp() - {.}at) * 1000.0)::bigint END

-- part: reports
-- Columns of leases.
SELECT owner, {ends_in}, epoch, engine, process, state, {past:s}, destination, delivered, {past:d}, error, {past:e}, {lasts:l}
FROM {wherry_lease} AS l, LATERAL (SELECT state_since) AS s(at), LATERAL (SELECT delivered_at) AS d(at),
  LATERAL (SELECT error_at) AS e(at)

-- part: next_epoch
-- The number of a row, or a limit if its value is near an end of the range.
CASE WHEN {.}epoch >= 0 AND {.}epoch < 4611686018427387904 THEN {.}epoch + 1::bigint ELSE 1::bigint END

-- part: next_control
CASE WHEN {.}control_version < 9223372036854775807 THEN {.}control_version + 1::bigint ELSE 0::bigint END

-- part: unclean_ends
-- Unclean ends in a row.
least(greatest({.}unclean, 0), 1000000)

-- part: in_flight
-- Number of messages that the last holder may have had in flight.
least(greatest({.}win, 0::bigint), 1000000::bigint)

-- part: holder
-- Lease 0 is the lease of the whole table.  If several relays share the table, live leases come first.
{reports}
WHERE outbox = :name AND (:number::integer = 0 OR number = :number::integer)
ORDER BY expires_at > statement_timestamp() DESC, number LIMIT 1

-- part: wake_function
-- Trigger function that wakes relays, receivers and consumers that sleep on the table: they hold this lock, of the number
-- 1669 and the table (postgres_watch.c).  The lock is asked for here, since PostgreSQL reads the text of a trigger's
-- condition again for each statement.
DO $do$ BEGIN
  EXECUTE concat('CREATE OR REPLACE FUNCTION ', {'wherry_wake}, '() RETURNS trigger LANGUAGE plpgsql AS ',
    quote_literal(CASE WHEN {signalled} THEN {'wake_body} ELSE {'unsignalled_body} END));
END $do$;

-- part: given_ids
-- A sender offers many messages with ids that it took from the table's sequence, so it may write ids.  An id that the
-- sequence has not given out yet would make a later offer fail.  Roles that may delete rows, such as an owner who copies
-- rows back, may write any id.  The condition has the sequence as a constant: a name would be looked up for each row
-- (tests/system/postgres_delayed_operate.sh).
CREATE OR REPLACE FUNCTION {wherry_given_id}() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seq text;
BEGIN
  IF NOT has_table_privilege(TG_RELID, 'DELETE') THEN
    seq := pg_get_serial_sequence(TG_RELID::regclass::text, 'id');
    IF NOT has_sequence_privilege(seq, 'SELECT, USAGE') THEN  -- PostgreSQL 18 says NULL instead of this
      RAISE 'permission denied for sequence %', seq USING ERRCODE = 'insufficient_privilege';
    END IF;
    RAISE 'the sequence of table % did not give the id %', TG_TABLE_NAME, new.id USING ERRCODE = 'insufficient_privilege',
      HINT = 'Leave the column id out, or write DEFAULT.';
  END IF;
  RETURN new;
END $$;
DROP TRIGGER IF EXISTS {bare_given} ON {table};
DO $do$ BEGIN
  EXECUTE format('CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW
    WHEN (new.id > coalesce(pg_catalog.pg_sequence_last_value(%L::regclass), 0)) EXECUTE FUNCTION %s()',
    {'bare_given}, {'table}, pg_get_serial_sequence({'table}, 'id'), {'wherry_given_id});
END $do$;

-- part: missing_function
-- Raises the error of the SQL functions of all models for a table that does not exist, or is not one of
-- theirs.  They call it only then (sql_functions_name_what_is_missing_and_the_way_out).
DO $do$ BEGIN
  EXECUTE replace(replace($f$CREATE OR REPLACE FUNCTION @.wherry_missing(model text, name text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  command CONSTANT text := CASE model WHEN 'outbox' THEN 'wherry create @' ELSE concat('wherry create --kind ', model, ' @') END;
  call CONSTANT text := CASE model WHEN 'outbox' THEN 'wherry_enqueue(..., outbox => '
    WHEN 'delayed' THEN 'wherry_offer(..., delayed => ' WHEN 'inbox' THEN 'wherry_accept(..., inbox => '
    ELSE 'wherry_send(' END;
  rest CONSTANT text := CASE model WHEN 'queue' THEN ', ...)' ELSE ')' END;
  word text := name;  -- as a URL takes it
  hint text;
BEGIN
  IF model = 'outbox' AND EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass(@box@ || quote_ident(name))::oid AND relkind = 'v') THEN
    RAISE 'outbox % is a table of another program, which alone writes its messages', quote_literal(name)
      USING ERRCODE = 'feature_not_supported';
  END IF;
  IF model = 'queue' AND EXISTS (
    SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(@box@ || quote_ident(name)) AND attname = 'seq'
      AND NOT attisdropped) THEN
    RAISE 'queue % has the layout nservicebus, on which SQL functions do not work', quote_literal(name)
      USING ERRCODE = 'feature_not_supported',
      HINT = 'Use the commands `wherry send`, `wherry receive` and so on, or the C library.';
  END IF;
  SELECT concat('Call ', quote_ident(n.nspname), '.', call, quote_literal(c.relname), rest,
                ': the functions of a schema take the names of its tables.') INTO hint
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  -- to_regclass() would fail for a schema that the caller may not use, such as pg_toast.
  WHERE c.relkind IN ('r', 'p', 'v')
    AND EXISTS (SELECT 1 FROM pg_class AS w WHERE w.relname = 'wherry_schema' AND w.relnamespace = n.oid)
    AND wherry_missing.name IN (concat(n.nspname, '.', c.relname),
                                concat(quote_ident(n.nspname), '.', quote_ident(c.relname)));
  IF hint IS NULL AND name ~ '^[A-Za-z0-9_]+[.][A-Za-z0-9_]+$' AND length(split_part(name, '.', 1)) <= 63
      AND length(split_part(name, '.', 2)) <= 48 THEN
    hint := concat('Create it, with WHERRY_URL set to this database: `', command, name, '`. Then call ', quote_ident(split_part(name, '.', 1)), '.', call,
                   quote_literal(split_part(name, '.', 2)), rest, '.');
  ELSIF hint IS NULL AND (octet_length(name) > 48 OR name ~ '[[:cntrl:]]' OR position(chr(92) IN name) > 0) THEN
    hint := 'No table of Wherry has such a name: it is longer than 48 bytes, or has a control character or a backslash.';
  ELSIF coalesce(name, '') = '' THEN
    hint := 'Write its name.';
  ELSIF hint IS NULL THEN
    IF name ~ '[."]' THEN
      word := concat('"', replace(name, '"', '""'), '"');
    END IF;
    -- The name is percent-encoded, as in a URL, so that no shell changes it.
    word := (SELECT string_agg(CASE WHEN c ~ '[A-Za-z0-9_.-]' OR octet_length(c) > 1 THEN c
                                 ELSE concat('%', upper(encode(convert_to(c, 'UTF8'), 'hex'))) END, '' ORDER BY n)
             FROM regexp_split_to_table(word, '') WITH ORDINALITY AS p(c, n));
    hint := concat('Create it, with WHERRY_URL set to this database: `', command, word, '`.',
      CASE model WHEN 'delayed' THEN ' The argument delayed names the table, and queue a queue in it.' END);
  END IF;
  RAISE 'there is no % %', CASE model WHEN 'delayed' THEN 'table of delayed queues' ELSE model END,
    coalesce(quote_literal(name), 'NULL')
  USING ERRCODE = 'undefined_table', HINT = hint;
END $body$ $f$, '@box@', quote_literal(current_setting('wherry.schema') || '.')),
    '@.', current_setting('wherry.schema') || '.');
END $do$;

-- part: tables_left
-- Outboxes of other layouts have a row only in wherry_outbox.
SELECT (SELECT count(*) FROM {wherry_schema}) + (SELECT count(*) FROM {wherry_outbox})

-- part: drop_own
-- Drop them if no table of Wherry's uses them any more.
DO $$
DECLARE
  place CONSTANT oid := (SELECT relnamespace FROM pg_class WHERE oid = {'wherry_schema}::regclass::oid);
  f regprocedure;
BEGIN
  DROP VIEW {wherry_clock};
  DROP TABLE {wherry_lease};
  DROP TABLE {wherry_outbox};
  DROP TABLE {wherry_schema};
  DROP TABLE IF EXISTS {wherry_subscription};
  DROP TABLE IF EXISTS {wherry_stream};
  DROP TABLE IF EXISTS {wherry_dead};
  FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = place AND proname = ANY ({functions})
  LOOP
    EXECUTE 'DROP FUNCTION ' || f::text;
  END LOOP;
END $$;
