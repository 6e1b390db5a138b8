-- layout: name=grants
--
-- What the roles of delayed queues on SQL Server may do, each exactly what it needs
-- (roles_of_a_delayed_queue_may_do_what_they_need).  {role} is a role or a user of the database.
-- Rights are on the table, and so on all queues in it.  SQL Server grants INSERT on whole tables only.
--
-- All delayed queues of a schema share the procedures.  They need the rights of their caller on the
-- table, so a role that may execute them gains nothing by that, and keeps them when it gets another
-- kind.

-- include: mssql.roles.sql

-- part: seen
-- The columns that a sender reads.  An offer of the same message changes nothing, so it reads the body
-- that is there.
(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", updates, key_bytes)

-- part: offered
-- The columns that an offer replaces.
(payload, "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt", attempts, updates, due_at, last_error)

-- part: settled
-- The columns that a receiver writes.
("scheduledAt", "lockUuid", due_at, attempts, last_error)

-- name: clear
-- What it was granted before on the tables.
REVOKE SELECT ON {table} FROM {role};
REVOKE INSERT ON {table} FROM {role};
REVOKE UPDATE ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
REVOKE SELECT {seen} ON {table} FROM {role};
REVOKE UPDATE {offered} ON {table} FROM {role};
REVOKE SELECT ON {table_dead} FROM {role};
REVOKE INSERT ON {table_dead} FROM {role};
REVOKE UPDATE ON {table_dead} FROM {role};
REVOKE DELETE ON {table_dead} FROM {role};
REVOKE SELECT (id, "pKind") ON {table_dead} FROM {role};
IF NOT {has_others}
BEGIN
  {revoke_shared}
END;

-- part: schema
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};

-- part: receives
GRANT EXECUTE ON {wherry_poll} TO {role};
GRANT EXECUTE ON {wherry_done} TO {role};
GRANT EXECUTE ON {wherry_delayed_settle} TO {role};
GRANT EXECUTE ON {wherry_delayed_nack} TO {role};
GRANT EXECUTE ON {wherry_delayed_extend} TO {role};
GRANT EXECUTE ON {wherry_delayed_dead_letter} TO {role};

-- name: sender
-- Offers messages, and replaces those of its keys.  It reads neither when a message can be polled nor
-- its token: it can neither poll nor settle, and it deletes nothing.
{schema}
GRANT INSERT ON {table} TO {role};
GRANT SELECT {seen} ON {table} TO {role};
GRANT UPDATE {offered} ON {table} TO {role};
GRANT EXECUTE ON {wherry_offer} TO {role};

-- part: relays
-- A relay writes its report to wherry_lease, and reads there whether an operator paused it.
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- part: pauses
GRANT SELECT, INSERT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: receiver
-- Polls and settles, or relays.  It cannot change what a message says, and of the dead ones it sees how many
-- there are.  DELETE there: a message that dies replaces a dead one of its id.
{schema}
GRANT SELECT, DELETE ON {table} TO {role};
GRANT UPDATE {settled} ON {table} TO {role};
GRANT INSERT, DELETE ON {table_dead} TO {role};
GRANT SELECT (id, "pKind") ON {table_dead} TO {role};
{receives}
{relays}

-- name: operator
-- Does all of that, pauses relays, and looks at dead messages, retries and deletes them.
{schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_dead} TO {role};
{receives}
{pauses}
GRANT EXECUTE ON {wherry_offer} TO {role};
GRANT EXECUTE ON {wherry_delayed_drop} TO {role};
