-- layout: name=grants-adopted
--
-- Grants for the roles of a table of another program that is read as an outbox on PostgreSQL: rights on the view, none on
-- the table itself.  {role} is the role.  Rights to write messages are the owner's affair.  The right to DELETE from the view,
-- which does nothing, tells that the role may write the rows that Wherry keeps for it.

-- include: postgres.roles.sql

-- include: postgres.consumer.sql

-- part: clear_all
REVOKE ALL ON {table}, {table_progress}, {table_exception} FROM {role};
REVOKE ALL ON FUNCTION {table_delivered}(bigint[]) FROM {role};
{clear_consumers}
{clear_shared}

-- name: clear
-- Revoke the rights on the tables of the outbox that the role was granted before.
{clear_all}

-- name: relay
-- If a dump was restored, it gives the rows numbers of this server's transactions.
{usage}
GRANT SELECT, DELETE, UPDATE (tx) ON {table} TO {role};
GRANT EXECUTE ON FUNCTION {table_delivered}(bigint[]) TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_outbox}, {wherry_clock} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: consumer
-- Rights for wherry_consume(), for all subscriptions of the outbox; tx as for relays.
{usage}
GRANT SELECT, UPDATE (tx) ON {table} TO {role};
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_exception} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_outbox}, {wherry_lease} TO {role};
{execute}

-- name: operator
{usage}
GRANT SELECT, INSERT, DELETE ON {table} TO {role};
GRANT EXECUTE ON FUNCTION {table_delivered}(bigint[]) TO {role};
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox}, {wherry_lease} TO {role};
GRANT SELECT ON {wherry_schema}, {wherry_clock} TO {role};

-- include: postgres.consumer-grants.sql
