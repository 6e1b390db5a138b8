-- layout: name=grants
--
-- Grants for the role of a cron on PostgreSQL (a_role_of_a_cron_may_do_what_it_needs).  {role} is the
-- role.  To install ticks on a delayed queue the role must also be an operator of that queue.

-- include: postgres.roles.sql

-- name: clear
REVOKE ALL ON {table} FROM {role};
{clear_shared}

-- name: operator
-- The role makes, installs and uninstalls ticks, and lists and forgets schedules.
{usage}
GRANT SELECT ON {wherry_schema}, {wherry_clock} TO {role};
GRANT SELECT, INSERT (target, name, hash), UPDATE (until_ms, active, schedule, zone, sends_to),
  DELETE ON {table} TO {role};
