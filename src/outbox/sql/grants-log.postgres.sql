-- layout: name=grants-log
--
-- Grants for the roles of an outbox of the layout log on PostgreSQL, no more than each needs
-- (postgres_access.sh tests what each may and may not do).  {role} is the role.

-- include: postgres.roles.sql

-- include: postgres.consumer.sql

-- part: clear_all
REVOKE ALL ON {table}, {table_progress}, {table_exception} FROM {role};
DO $$ BEGIN
  EXECUTE pg_catalog.format('REVOKE ALL ON SEQUENCE %s FROM %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
  IF pg_catalog.to_regprocedure(pg_catalog.concat({'table_segments}, '(bigint, bigint, boolean)')) IS NOT NULL THEN
    EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s(bigint, bigint, boolean) FROM %s', {'table_segments}, {'role});
  END IF;
END $$;
{clear_consumers}
{clear_shared}

-- part: purge_segments
-- The right to delete segments of a table that has some.
DO $$ BEGIN
  IF pg_catalog.to_regprocedure(pg_catalog.concat({'table_segments}, '(bigint, bigint, boolean)')) IS NOT NULL THEN
    EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s(bigint, bigint, boolean) TO %s', {'table_segments}, {'role});
  END IF;
END $$;

-- name: clear
-- Revoke the rights on the tables of the outbox that the role was granted before.
{clear_all}

-- include: postgres.grants.sql

-- name: relay
-- It writes to no row.  But if a dump was restored, it gives the rows numbers of this server's transactions.
{usage}
GRANT SELECT, DELETE, UPDATE (tx) ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_outbox}, {wherry_clock} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};
{purge_segments}

-- name: consumer
-- Rights for wherry_consume(), for all subscriptions of the outbox; tx as for relays.
{usage}
GRANT SELECT, UPDATE (tx) ON {table} TO {role};
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_exception} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_outbox}, {wherry_lease} TO {role};
{execute}

-- name: operator
-- To pass over rows that others have locked, a purge needs the right to update a column.
{usage}
GRANT SELECT, INSERT, DELETE, UPDATE (tx) ON {table} TO {role};
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox}, {wherry_lease} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_clock} TO {role};
{purge_segments}
-- The doctor looks at the last id.
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT SELECT ON SEQUENCE %s TO %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;

-- include: postgres.consumer-grants.sql
