-- layout: name=grants
--
-- Grants for the roles of a queue on PostgreSQL, no more than each needs
-- (roles_of_a_queue_may_do_what_they_need).  {role} is the role.  The functions run
-- with the rights of their caller.

-- include: postgres.roles.sql

-- name: clear
-- Revoke the rights on the tables of the queue that the role was granted before.
REVOKE ALL ON {table} FROM {role};
DO $$ BEGIN
  EXECUTE pg_catalog.format('REVOKE ALL ON SEQUENCE %s FROM %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;
{clear_shared}

-- part: schema
{usage}
GRANT SELECT ON {wherry_schema}, {wherry_clock}, {wherry_subscription} TO {role};
{execute}

-- name: sender
-- A sender sends and publishes.  It cannot read or cancel messages.
{schema}
GRANT INSERT (message_id, topic, correlation_id, reply_to, headers, body, state, available_at,
  expires_at, max_attempts), SELECT (id) ON {table} TO {role};

-- name: receiver
-- A receiver or relay receives and settles messages.  It inserts a message with malformed headers again, as dead.  It
-- may insert each column, but not into the table as a whole: by this the part clear_shared distinguishes it from an
-- operator.
{schema}
GRANT SELECT, UPDATE, DELETE ON {table} TO {role};
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT INSERT (%s) ON %s TO %s', (
    SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ') FROM pg_catalog.pg_attribute
    WHERE attrelid = {'table}::regclass::oid AND attnum > 0 AND NOT attisdropped), {'table}::regclass, {'role});
END $$;
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: operator
-- An operator has all these rights, pauses relays, and subscribes queues to topics.  `wherry doctor` compares the next
-- id with the ids of the rows.
{schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_outbox}, {wherry_lease} TO {role};
GRANT INSERT, DELETE ON {wherry_subscription} TO {role};
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT SELECT ON SEQUENCE %s TO %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;
