--
-- Grants for producers of an outbox on SQL Server.

-- name: producer
-- Rights for plain INSERTs.
GRANT INSERT ON {table} TO {role};

-- name: enqueuer
-- Rights for wherry_enqueue, libwherry and `wherry enqueue`.
GRANT INSERT ON {table} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT EXECUTE ON {wherry_enqueue} TO {role};
