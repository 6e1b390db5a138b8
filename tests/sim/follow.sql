-- name: horizon
-- By the numbers of transactions, as on PostgreSQL.
SELECT sim_wal('oldest'), sim_wal('next'), CASE WHEN :statements THEN sim_wal('next') ELSE 0 END,
  EXISTS (SELECT 1 FROM wherry_lease WHERE {holds});

-- name: stream-first
-- The simulated server knows what its snapshot holds.
SELECT 1;
