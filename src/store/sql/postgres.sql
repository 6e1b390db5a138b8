--
-- Expressions that statements on PostgreSQL share.

-- part: key
-- Ordering key, as an expression of the index of rows that may hold others back.  A B-tree cannot store
-- a text of more than 2,704 bytes, so the index has two hashes of a longer key, and no other key begins
-- with '~'.  Two keys with equal hashes would only wait for each other.
(CASE
    WHEN octet_length({.}partition_key) > 1000
    THEN '~' || hashtextextended({.}partition_key COLLATE "C", 1::bigint)::text
         || hashtextextended({.}partition_key COLLATE "C", 2::bigint)::text
    WHEN {.}partition_key <> '' THEN '=' || {.}partition_key
    WHEN octet_length({.}aggregate_type) + octet_length({.}aggregate_id) > 1000
    THEN '~' || length({.}aggregate_type)::text || ':'
         || hashtextextended(({.}aggregate_type || {.}aggregate_id) COLLATE "C", 1::bigint)::text
         || hashtextextended(({.}aggregate_type || {.}aggregate_id) COLLATE "C", 2::bigint)::text
    WHEN {.}aggregate_type <> '' OR {.}aggregate_id <> ''
    THEN length({.}aggregate_type)::text || ':' || {.}aggregate_type || {.}aggregate_id
  END) COLLATE "C"
