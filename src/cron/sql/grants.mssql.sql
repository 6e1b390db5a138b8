-- layout: name=grants
--
-- Grants for the role of a cron on SQL Server (a_role_of_a_cron_may_do_what_it_needs).  {role} is a role
-- or a user of the database.  To install ticks on a delayed queue the role must also be an operator of
-- that queue.

-- include: mssql.roles.sql

-- name: clear
REVOKE SELECT ON {table} FROM {role};
REVOKE INSERT ON {table} FROM {role};
REVOKE UPDATE ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
REVOKE UPDATE (until_ms, active, schedule, "zone", sends_to) ON {table} FROM {role};
IF NOT {has_others}
BEGIN
  REVOKE SELECT ON {wherry_schema} FROM {role};
  REVOKE SELECT ON {wherry_clock} FROM {role};
END;

-- name: operator
-- The role makes, installs and uninstalls ticks, and lists and forgets schedules.
GRANT SELECT, INSERT, DELETE ON {table} TO {role};
GRANT UPDATE (until_ms, active, schedule, "zone", sends_to) ON {table} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
