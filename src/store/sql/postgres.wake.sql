--
-- Bodies of the trigger functions that wake relays, receivers and consumers.  The doctor compares them with those that are
-- there (tests/system/doctor.sh).

-- part: unsignalled_body
BEGIN
  RETURN NULL;  -- this server cannot wake anybody
END

-- part: wake_control_body
BEGIN
  PERFORM pg_catalog.pg_notify(pg_catalog.concat('wherry_', c.oid, '_control'), '')
  FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_class AS c ON c.relnamespace = t.relnamespace
  WHERE t.oid = TG_RELID AND c.relname::text = ANY (ARRAY[pg_catalog.to_jsonb(new) ->> TG_ARGV[0],
    pg_catalog.left(pg_catalog.to_jsonb(new) ->> TG_ARGV[0], -33),
    pg_catalog.split_part(pg_catalog.to_jsonb(new) ->> TG_ARGV[0], pg_catalog.chr(92), 1)]);
  RETURN NULL;
END

-- part: wake_body
BEGIN
  IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(7168300417024::bigint OPERATOR(pg_catalog.+) TG_RELID::bigint) THEN
    PERFORM pg_catalog.pg_notify(pg_catalog.concat('wherry_', TG_RELID), '');
  END IF;
  RETURN NULL;
END

-- part: wakes_body
-- Relays of an adopted table listen for the view, and not for the table.  A producer may not see its schema.
BEGIN
  PERFORM pg_notify(concat('wherry_', c.oid), '') FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = TG_ARGV[0]::name AND c.relname = TG_ARGV[1]::name;
  RETURN NULL;
END
