-- layout: name=grants
--
-- What the role of a cron on PostgreSQL may do (a_role_of_a_cron_may_do_what_it_needs).  {role} is
-- the role.  To install ticks on a delayed queue it is also an operator of that queue.

-- include: postgres.roles.sql

-- name: clear
REVOKE ALL ON {table} FROM {role};
{clear_shared}

-- name: operator
-- Makes ticks, installs and uninstalls them, lists schedules, and forgets them.
{usage}
GRANT SELECT ON {wherry_schema}, {wherry_clock} TO {role};
GRANT SELECT, INSERT (target, name, hash), UPDATE (until_ms, active, schedule, zone, sends_to),
  DELETE ON {table} TO {role};
