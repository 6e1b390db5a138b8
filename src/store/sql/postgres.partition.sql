--
-- The partition of a message on PostgreSQL; see postgres.shares.sql.

-- part: partition
-- Partition of a message.  The hash is of bytes, whatever the database's collation is.
((coalesce(hashtextextended((CASE
    WHEN {.}partition_key <> '' THEN '=' || {.}partition_key
    WHEN {.}aggregate_type <> '' OR {.}aggregate_id <> ''
    THEN length({.}aggregate_type)::text || ':' || {.}aggregate_type || {.}aggregate_id
  END) COLLATE "C", 0::bigint), {.}id) & 63::bigint)::smallint)
