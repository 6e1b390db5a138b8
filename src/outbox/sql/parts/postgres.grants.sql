--
-- Grants for roles that write messages, of both layouts.

-- part: insert
-- A producer may not write the relay's columns: state, attempts, id and times.
INSERT (message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
  payload)

-- name: producer
-- Rights for plain INSERTs.
{usage}
GRANT {insert} ON {table} TO {role};

-- name: enqueuer
-- Rights for wherry_enqueue(), libwherry and `wherry enqueue`, which report whether a message exists.
{usage}
GRANT {insert}, SELECT (id, message_id) ON {table} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
{execute}
