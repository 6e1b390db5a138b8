-- layout: name=grants
--
-- Grants for the roles of delayed queues on PostgreSQL, no more than each needs
-- (roles_of_a_delayed_queue_may_do_what_they_need).  {role} is the role.  The functions run
-- with the rights of their caller.  Rights are on the table, so they are on all queues in it.

-- include: postgres.roles.sql

-- name: clear
-- Revoke the rights on the tables that the role was granted before.
REVOKE ALL ON {table}, {table_dead} FROM {role};
{clear_shared}
DO $$ BEGIN
  EXECUTE pg_catalog.format('REVOKE ALL ON SEQUENCE %s FROM %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;

-- part: schema
{usage}
GRANT SELECT ON {wherry_schema}, {wherry_clock} TO {role};
{execute}

-- part: sequence
-- An offer of many messages takes their ids from the sequence.
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT USAGE ON SEQUENCE %s TO %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;

-- name: sender
-- A sender offers messages, and replaces those of its keys.  An offer of the same message changes nothing,
-- so a sender reads the body of the message that the key has.  It may not read when a message can be
-- polled, nor its token, so it can neither poll nor settle.  It may not delete messages.
{schema}
{sequence}
GRANT INSERT (id, "pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt"),
  SELECT (id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", updates),
  UPDATE (payload, "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt", attempts, updates,
          due_at, last_error)
  ON {table} TO {role};

-- name: receiver
-- A receiver or relay polls and settles messages.  It may not change keys and bodies.  It writes dead
-- messages, which replace older ones of the same id, so it may read them.
{schema}
GRANT SELECT, DELETE, UPDATE ("scheduledAt", "lockUuid", due_at, attempts, last_error)
  ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE ON {table_dead} TO {role};
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: operator
-- An operator has all these rights, pauses relays, and reads, retries and deletes dead messages.
{schema}
{sequence}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table}, {table_dead} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_outbox}, {wherry_lease} TO {role};
