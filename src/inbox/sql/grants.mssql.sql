-- layout: name=grants
--
-- Grants for the roles of an inbox on SQL Server.  {role} is a role or a user of the database.

-- include: mssql.roles.sql

-- name: clear
REVOKE SELECT ON {table} FROM {role};
REVOKE INSERT ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
IF NOT {has_others}
BEGIN
  REVOKE SELECT ON {wherry_schema} FROM {role};
END;

-- name: consumer
-- A receiver accepts messages, and forgets them.
GRANT SELECT, INSERT, DELETE ON {table} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};

-- name: operator
-- An operator counts ids, and purges old ones.
GRANT SELECT, DELETE ON {table} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
