-- layout: name=grants
--
-- Grants for the roles of an inbox on PostgreSQL, no more than each needs
-- (who_is_granted_a_table_may_call_its_functions).  {role} is the role.  The functions run with the rights of
-- their caller.

-- include: postgres.roles.sql

-- name: clear
REVOKE ALL ON {table} FROM {role};
{clear_shared}

-- part: schema
{usage}
GRANT SELECT ON {wherry_schema} TO {role};
{execute}

-- name: consumer
-- A receiver accepts messages, and forgets them.
{schema}
GRANT INSERT (consumer, message_id), SELECT (consumer, message_id), DELETE ON {table} TO {role};

-- name: operator
-- An operator counts ids, and locks and purges old ones.
{schema}
GRANT SELECT, DELETE, UPDATE (accepted_at) ON {table} TO {role};
