-- layout: name=grants
--
-- What the roles of a queue on PostgreSQL may do, each exactly what it needs
-- (roles_of_a_queue_may_do_what_they_need).  {role} is the role.  The functions run
-- with the rights of their caller.

-- include: postgres.roles.sql

-- name: clear
-- What it was granted before on the tables of the queue.
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
-- Sends and publishes; it cannot read messages, or take them back.
{schema}
GRANT INSERT (message_id, topic, correlation_id, reply_to, headers, body, state, available_at,
  expires_at, max_attempts), SELECT (id) ON {table} TO {role};

-- name: receiver
-- Receives and settles, or relays.  A message with headers that cannot be read is inserted again, as
-- dead.  It may insert each column, and not into the table as a whole: that is how the part clear_shared knows it
-- from an operator.
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
-- Does all of that, pauses relays, and says which queues get what is published.  `wherry doctor` compares the next id
-- with those of the rows.
{schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_outbox}, {wherry_lease} TO {role};
GRANT INSERT, DELETE ON {wherry_subscription} TO {role};
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT SELECT ON SEQUENCE %s TO %s',
    pg_catalog.pg_get_serial_sequence({'table}, 'id'), {'role});
END $$;
