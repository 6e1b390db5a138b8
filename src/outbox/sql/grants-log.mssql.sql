-- layout: name=grants-log
--
-- Grants for the roles of an outbox of the layout log on SQL Server, no more than each needs
-- (roles_of_an_outbox_may_do_what_they_need).  {role} is a role or a user of the database.  Nobody may update a message: it
-- would be delivered again.

-- include: mssql.roles.sql

-- include: mssql.consumer.sql

-- part: clear_reading
-- Revoke the rights on messages and positions that the role was granted before.
REVOKE SELECT ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
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
REVOKE INSERT ON {table} FROM {role};
{clear_consumers}
IF NOT {has_others}
BEGIN
  {revoke_shared}
END;

-- include: mssql.grants.sql

-- name: relay
GRANT SELECT, DELETE ON {table} TO {role};
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
GRANT SELECT, UPDATE ON {table_progress} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_exception} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT, UPDATE ON {wherry_lease} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};

-- include: mssql.consumer-grants.sql
