-- layout: name=grants
--
-- Grants for the roles of delayed queues on SQL Server, no more than each needs
-- (roles_of_a_delayed_queue_may_do_what_they_need).  {role} is a role or a user of the database.
-- Rights are on the table, so they are on all queues in it.  SQL Server grants INSERT on whole tables only.
--
-- All delayed queues of a schema share the procedures.  They need the rights of their caller on the
-- table, so a role gains nothing from the right to execute them, and keeps that right when it gets
-- another kind.

-- include: mssql.roles.sql

-- part: seen
-- Columns that a sender reads.  An offer of the same message changes nothing, so it reads the body of
-- the message that the key has.
(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", updates, key_bytes)

-- part: offered
-- Columns that an offer replaces.
(payload, "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt", attempts, updates, due_at, last_error)

-- part: settled
-- Columns that a receiver writes.
("scheduledAt", "lockUuid", due_at, attempts, last_error)

-- name: clear
-- Revoke the rights on the tables that the role was granted before.
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
-- A sender offers messages, and replaces those of its keys.  It may not read when a message can be polled,
-- nor its token, so it can neither poll nor settle.  It may not delete messages.
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
-- A receiver or relay polls and settles messages.  It may not change keys and bodies, and it may count dead
-- messages.  It needs DELETE on them, since a message that becomes dead replaces a dead one of its id.
{schema}
GRANT SELECT, DELETE ON {table} TO {role};
GRANT UPDATE {settled} ON {table} TO {role};
GRANT INSERT, DELETE ON {table_dead} TO {role};
GRANT SELECT (id, "pKind") ON {table_dead} TO {role};
{receives}
{relays}

-- name: operator
-- An operator has all these rights, pauses relays, and reads, retries and deletes dead messages.
{schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table_dead} TO {role};
{receives}
{pauses}
GRANT EXECUTE ON {wherry_offer} TO {role};
GRANT EXECUTE ON {wherry_delayed_drop} TO {role};
