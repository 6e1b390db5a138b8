-- name: horizon
-- By the numbers of transactions, as on PostgreSQL.
SELECT sim_wal('oldest'), sim_wal('next'), CASE WHEN :statements THEN sim_wal('next') ELSE 0 END,
  EXISTS (SELECT 1 FROM wherry_lease WHERE {holds});

-- name: sweep-touched
-- unused: long body
SELECT id, status, attempts, generation, created_at,
       max(0, {due} - (SELECT ms FROM wherry_clock)),
       message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       payload
FROM {table} AS b WHERE {busy} AND status <> 4 AND id > :after ORDER BY id LIMIT :limit;

-- name: read-in-order
-- unused: long body
SELECT id, status, attempts, generation, created_at,
       max(0, {due} - (SELECT ms FROM wherry_clock)),
       message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       payload
FROM (SELECT value AS wanted, key AS nth FROM json_each(:ids)) JOIN {table} ON id = wanted
WHERE status IN (0, 1, 3) ORDER BY nth;

-- name: stream-first
-- The simulated server knows what its snapshot holds.
SELECT 1;
