-- layout: name=grants
--
-- Grants for the roles of a queue on SQL Server (roles_of_a_queue_may_do_what_they_need).  {role} is a
-- role or a user of the database.
--
-- SQL Server grants INSERT on whole tables only.  All queues of a schema share the procedures.  A
-- procedure that builds its statements as text needs the rights of its caller on the queue, so a role
-- gains nothing from the right to execute it, and keeps that right when it gets another kind.
-- wherry_subscribe and wherry_unsubscribe write to a table of their owner: only an operator may execute them.

-- include: mssql.roles.sql

-- part: settled
-- Columns that receivers and relays write.
(state, attempts, max_attempts, available_at, lease_token, last_error)

-- name: clear
-- Revoke the rights on the tables of the queue that the role was granted before.
REVOKE SELECT ON {table} FROM {role};
REVOKE INSERT ON {table} FROM {role};
REVOKE UPDATE ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
REVOKE SELECT (id) ON {table} FROM {role};
REVOKE UPDATE {settled} ON {table} FROM {role};
IF NOT {has_others}
BEGIN
  {revoke_shared}
  REVOKE SELECT ON {wherry_subscription} FROM {role};
  REVOKE INSERT ON {wherry_subscription} FROM {role};
  REVOKE DELETE ON {wherry_subscription} FROM {role};
  REVOKE EXECUTE ON {wherry_subscribe} FROM {role};
  REVOKE EXECUTE ON {wherry_unsubscribe} FROM {role};
END;

-- part: schema
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
GRANT SELECT ON {wherry_subscription} TO {role};

-- part: sends
GRANT EXECUTE ON {wherry_send} TO {role};
GRANT EXECUTE ON {wherry_publish} TO {role};

-- part: receives
GRANT EXECUTE ON {wherry_receive} TO {role};
GRANT EXECUTE ON {wherry_ack} TO {role};
GRANT EXECUTE ON {wherry_nack} TO {role};
GRANT EXECUTE ON {wherry_extend} TO {role};
GRANT EXECUTE ON {wherry_dead_letter} TO {role};
GRANT EXECUTE ON {wherry_cancel} TO {role};
GRANT EXECUTE ON {wherry_queue_length} TO {role};

-- name: sender
-- A sender sends and publishes.  It cannot read or cancel messages.  The statement that sends returns the
-- id.
{schema}
GRANT INSERT ON {table} TO {role};
GRANT SELECT (id) ON {table} TO {role};
{sends}

-- part: relays
-- A relay writes its report to wherry_lease, and reads there whether an operator paused it.
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- part: pauses
GRANT SELECT, INSERT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: receiver
-- A receiver or relay receives and settles messages.  It inserts a message with malformed headers again,
-- as dead.
{schema}
GRANT SELECT, INSERT, DELETE ON {table} TO {role};
GRANT UPDATE {settled} ON {table} TO {role};
{receives}
{relays}

-- name: operator
-- An operator has all these rights, pauses relays, and subscribes queues to topics.
{schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT INSERT, DELETE ON {wherry_subscription} TO {role};
{sends}
{receives}
{pauses}
GRANT EXECUTE ON {wherry_subscribe} TO {role};
GRANT EXECUTE ON {wherry_unsubscribe} TO {role};
