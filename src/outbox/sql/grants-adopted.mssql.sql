-- layout: name=grants-adopted
--
-- Grants for the roles of a table of another program that is read as an outbox on SQL Server: rights on the view, none on
-- the table itself.  {role} is a role or a user of the database.  Rights to write messages are the owner's affair.  The right to
-- DELETE from the view, which does nothing, tells that the role may write the rows that Wherry keeps for it.

-- include: mssql.roles.sql

-- include: mssql.consumer.sql

-- part: clear_reading
-- Revoke the rights on messages and positions that the role was granted before.
REVOKE SELECT ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
REVOKE EXECUTE ON {table_delivered} FROM {role};
REVOKE SELECT ON {table_progress} FROM {role};
REVOKE INSERT ON {table_progress} FROM {role};
REVOKE UPDATE ON {table_progress} FROM {role};
REVOKE DELETE ON {table_progress} FROM {role};
REVOKE SELECT ON {table_exception} FROM {role};
REVOKE INSERT ON {table_exception} FROM {role};
REVOKE UPDATE ON {table_exception} FROM {role};
REVOKE DELETE ON {table_exception} FROM {role};

-- name: clear
-- Revoke the rights on the tables of the outbox that the role was granted before.
{clear_reading}
{clear_consumers}
IF NOT {has_others}
BEGIN
  {revoke_shared}
END;

-- name: relay
GRANT SELECT, DELETE ON {table} TO {role};
GRANT EXECUTE ON {table_delivered} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: consumer
-- Rights for wherry_consume, for all subscriptions of the outbox.
GRANT SELECT ON {table} TO {role};
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_exception} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_lease} TO {role};
GRANT EXECUTE ON {wherry_consume} TO {role};

-- name: operator
GRANT SELECT, DELETE ON {table} TO {role};
GRANT EXECUTE ON {table_delivered} TO {role};
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT, UPDATE ON {wherry_lease} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};

-- include: mssql.consumer-grants.sql
