-- layout: name=grants
--
-- What the roles of a queue on SQL Server may do (roles_of_a_queue_may_do_what_they_need).  {role} is
-- a role or a user of the database.
--
-- SQL Server grants INSERT on whole tables only.  All queues of a schema share the procedures.  Those
-- that build their statements as text need the rights of their caller on the queue, so a role that
-- may execute them gains nothing by that, and keeps them when it gets another kind.
-- wherry_subscribe and wherry_unsubscribe write to a table of their owner: they are an operator's.

-- include: mssql.roles.sql

-- part: settled
-- The columns that receivers and relays write.
(state, attempts, max_attempts, available_at, lease_token, last_error)

-- name: clear
-- What it was granted before on the tables of the queue.
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
-- Sends and publishes; it cannot read messages, or take them back.  The statement that sends returns
-- the id.
{schema}
GRANT INSERT ON {table} TO {role};
GRANT SELECT (id) ON {table} TO {role};
{sends}

-- part: relays
-- A relay says in wherry_lease what it does, and sees if operators paused it.
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- part: pauses
GRANT SELECT, INSERT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: receiver
-- Receives and settles, or relays.  A message with headers that cannot be read is inserted again, as
-- dead.
{schema}
GRANT SELECT, INSERT, DELETE ON {table} TO {role};
GRANT UPDATE {settled} ON {table} TO {role};
{receives}
{relays}

-- name: operator
-- Does all of that, pauses relays, and says which queues get what is published.
{schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT INSERT, DELETE ON {wherry_subscription} TO {role};
{sends}
{receives}
{pauses}
GRANT EXECUTE ON {wherry_subscribe} TO {role};
GRANT EXECUTE ON {wherry_unsubscribe} TO {role};
