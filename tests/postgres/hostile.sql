-- A role that may create objects in a schema of everybody's search path, and does: operators
-- and functions that fit the types of other roles' expressions better than those of
-- pg_catalog do, tables named as Wherry's, and a cast.  Whatever of it runs takes a number of
-- lobby.ran, which outlives a rollback, and fails.  For psql, outside of a transaction.
CREATE ROLE hostile;
CREATE SCHEMA lobby AUTHORIZATION hostile;
GRANT USAGE ON SCHEMA lobby TO PUBLIC;
SET ROLE hostile;
CREATE SEQUENCE lobby.ran;
GRANT USAGE ON SEQUENCE lobby.ran TO PUBLIC;
CREATE FUNCTION lobby.trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.nextval('lobby.ran');
  RAISE 'hostile: table %', TG_TABLE_NAME;
END $$;

DO $do$
DECLARE
  kinds CONSTANT regtype[] := ARRAY['smallint', 'integer', 'bigint', 'numeric', 'float8',
    'text', 'varchar', 'name', 'json', 'jsonb', 'timestamptz', 'timestamp', 'interval', 'bytea',
    'boolean', 'oid', 'regclass', 'xid', 'xid8', 'pg_lsn', 'uuid', '"char"', 'text[]',
    'bigint[]', 'smallint[]', 'name[]', 'oid[]']::regtype[];
  ops CONSTANT text[] := ARRAY['=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '/', '%', '||',
    '&', '|', '<<', '>>', '~~', '!~~', '~', '!~', '->', '->>', '#'];
  names CONSTANT text[] := ARRAY['abs', 'age', 'bit_or', 'bool_and', 'bool_or', 'btrim', 'ceil',
    'convert_from', 'convert_to', 'count', 'current_setting', 'encode', 'extract', 'floor',
    'format', 'gen_random_uuid', 'generate_series', 'has_table_privilege', 'hashtextextended',
    'int8send', 'json_array_elements', 'json_array_elements_text', 'json_each', 'json_typeof',
    'jsonb_typeof', 'left', 'length', 'lower', 'max', 'md5', 'min', 'nextval', 'now',
    'octet_length', 'overlay', 'pg_advisory_xact_lock', 'pg_current_snapshot',
    'pg_current_wal_flush_lsn', 'pg_current_wal_insert_lsn', 'pg_current_wal_lsn',
    'pg_current_xact_id', 'pg_drop_replication_slot', 'pg_get_serial_sequence', 'pg_has_role',
    'pg_notify', 'pg_sequence_last_value', 'pg_size_pretty', 'pg_snapshot_xmax',
    'pg_snapshot_xmin', 'pg_stat_get_activity', 'pg_terminate_backend',
    'pg_try_advisory_xact_lock_shared', 'pg_visible_in_snapshot', 'pg_wal_lsn_diff',
    'quote_ident', 'quote_literal', 'random', 'regexp_split_to_table', 'repeat', 'replace',
    'right', 'round', 'row_number', 'set_bit', 'set_config', 'sha256', 'split_part',
    'statement_timestamp', 'clock_timestamp', 'string_agg', 'strpos', 'substr', 'substring',
    'sum', 'timezone', 'to_char', 'to_jsonb', 'to_regclass', 'to_timestamp', 'translate',
    'unnest', 'upper', 'uuid_send'];
  common CONSTANT regtype[] := kinds[1:6] || kinds[10:16];
  op text;
  l regtype;
  r regtype;
  p record;
  types regtype[];
  n integer := 0;
BEGIN
  FOREACH op IN ARRAY ops LOOP
    FOREACH r IN ARRAY kinds LOOP
      FOREACH l IN ARRAY kinds LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_operator WHERE oprname = op AND oprleft = l
                                AND oprright = r AND oprnamespace = 'pg_catalog'::regnamespace);
        EXECUTE format($f$CREATE FUNCTION lobby.op%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS
          'BEGIN PERFORM pg_catalog.nextval(''lobby.ran''); RAISE ''hostile: operator %s %s %s''; END'$f$,
          n, l, r,
          CASE WHEN op ~ '[=<>~]' AND op NOT IN ('->', '->>', '<<', '>>') THEN 'boolean'
               WHEN op = '||' THEN 'text'
               WHEN 'interval'::regtype IN (l, r) AND op IN ('*', '/') THEN 'interval'
               ELSE l::text END,
          l, replace(op, '%', '%%'), r);
        EXECUTE format('CREATE OPERATOR lobby.%s (leftarg = %s, rightarg = %s, '
          'function = lobby.op%s)', op, l, r, n);
        n := n + 1;
      END LOOP;
      COMMIT; -- each takes a lock
    END LOOP;
  END LOOP;
  -- Each argument of each function in turn is of another type.
  FOR p IN SELECT proname, proargtypes::oid[]::regtype[] AS args, pronargs AS n,
      CASE WHEN prorettype::regtype::text LIKE 'any%' OR prorettype = 'record'::regtype
           THEN 'text' ELSE prorettype::regtype::text END AS gives, proretset
    FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (names)
      AND pronargs BETWEEN 1 AND 4 LOOP
    FOR i IN 1 .. p.n LOOP
      FOREACH r IN ARRAY common LOOP
        types := p.args[0:i - 2] || r || p.args[i:p.n];
        CONTINUE WHEN cardinality(types) <> p.n
          OR p.args[i - 1] = r;
        BEGIN
          EXECUTE format($f$CREATE FUNCTION lobby.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_catalog.nextval(''lobby.ran''); RAISE ''hostile: function %s''; END'$f$,
            p.proname, array_to_string(types, ', '), CASE WHEN p.proretset THEN 'SETOF' END,
            p.gives, p.proname);
        EXCEPTION WHEN others THEN NULL; -- a pseudo-type
        END;
      END LOOP;
    END LOOP;
    COMMIT;
  END LOOP;
END $do$;

CREATE TYPE lobby.trap AS ENUM ('sprung');
CREATE FUNCTION lobby.trap(text) RETURNS lobby.trap LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.nextval('lobby.ran');
  RAISE 'hostile: cast';
END $$;
CREATE CAST (text AS lobby.trap) WITH FUNCTION lobby.trap(text) AS IMPLICIT;
CREATE FUNCTION lobby.pg_notify(lobby.trap, lobby.trap) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.nextval('lobby.ran');
  RAISE 'hostile: function pg_notify';
END $$;

-- A function of Wherry's own that a statement calls.
CREATE FUNCTION lobby.wherry_unreadable(text, bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.nextval('lobby.ran');
  RAISE 'hostile: function wherry_unreadable';
END $$;

DO $do$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['wherry_schema', 'wherry_outbox', 'wherry_lease', 'wherry_clock',
      'wherry_stream', 'wherry_dead', 'outbox_archive', 'pg_class', 'pg_locks',
      'pg_stat_activity', 'pg_roles'] LOOP
    EXECUTE format('CREATE TABLE lobby.%I(name text, version integer); '
      'GRANT ALL ON lobby.%I TO PUBLIC; CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE '
      'ON lobby.%I FOR EACH STATEMENT EXECUTE FUNCTION lobby.trigger()', name, name, name);
  END LOOP;
END $do$;
RESET ROLE;
