-- layout: name=grants
--
-- Grants for the roles of a native outbox on PostgreSQL, no more than each needs
-- (postgres_access.sh tests what each may and may not do).  {role} is the role.

-- include: postgres.roles.sql

-- name: clear
-- Revoke the rights on the tables of the outbox that the role was granted before.
REVOKE ALL ON {table}, {table_archive} FROM {role};
DO $$ BEGIN
  EXECUTE pg_catalog.format('REVOKE ALL ON SEQUENCE %s FROM %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;
{clear_shared}

-- include: postgres.grants.sql

-- part: mark
UPDATE (status, attempts, claimed_at, claim_token, next_retry_at, processed_at, last_error)

-- part: stream_tables
DO $$ BEGIN
  IF to_regclass({'wherry_stream}) IS NOT NULL AND to_regclass({'wherry_dead}) IS NOT NULL THEN

-- name: relay
{usage}
GRANT SELECT, DELETE, {mark} ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_archive} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_outbox}, {wherry_clock} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};
{stream_tables}
    GRANT SELECT, INSERT, UPDATE ON {wherry_stream}, {wherry_dead} TO {role};
  END IF;
END $$;

-- name: operator
-- A replay of archived messages inserts them with their ids.
{usage}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_archive} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_lease}, {wherry_clock} TO {role};
{stream_tables}
    GRANT SELECT ON {wherry_stream}, {wherry_dead} TO {role};
  END IF;
END $$;
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT USAGE ON SEQUENCE %s TO %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;
