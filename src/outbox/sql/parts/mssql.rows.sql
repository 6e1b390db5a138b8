--
-- Rows of an outbox on SQL Server.

-- part: unlocked
-- Committed rows that no open transaction has changed.  READCOMMITTEDLOCK: READPAST needs locks, and a
-- database with READ_COMMITTED_SNAPSHOT would take none.
WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)

-- part: key
-- The ordering key: the explicit one, else the pair of aggregate type and id, with a character for each
-- byte of the type in front, so that ("ab", "c") and ("a", "bc") differ.  STUFF joins texts: a TDS
-- server at hand takes no other way in a computed column.
CAST(CASE
    WHEN DATALENGTH({.}partition_key) > 0 THEN HASHBYTES('SHA2_256', {.}partition_key)
    WHEN DATALENGTH({.}aggregate_type) > 0 OR DATALENGTH({.}aggregate_id) > 0
    THEN HASHBYTES('SHA2_256', STUFF(STUFF(STUFF(N':.', 2, 0, {.}aggregate_id), 2, 0, {.}aggregate_type), 1, 0,
                                     REPLICATE(N'1', DATALENGTH({.}aggregate_type))))
  END AS BINARY(32))

-- part: patterns
-- Patterns of topics, "orders.*,billing", as those of LIKE.
REPLACE(REPLACE(REPLACE(REPLACE({.}topics, N'[', N'[[]'), N'%', N'[%]'), N'_', N'[_]'), N'*', N'%')
