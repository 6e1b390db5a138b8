--
-- Partitions of the native layout on PostgreSQL.

-- name: add-partitions
-- Index of open rows by partition.  It has abs(status) and id + 0, like the part "of".  So no other
-- index fits that part, which would read the rows of other relays, and this index fits no other
-- statement.
CREATE INDEX IF NOT EXISTS {bare_partition} ON {table}({partition}, abs(status), (id + 0))
  WHERE abs(status) IN (0, 1, 3);

-- name: partitions-ready
-- Whether the index exists and is valid.
SELECT count(*) FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = {'table}::regclass::oid AND c.relname = {name} || '_partition' AND i.indisvalid;

-- part: of
-- Condition: the row is of partition n, in one state.
abs(status) IN (0, 1, 3) AND {partition} = n AND abs(status) = st

-- part: share_engine
'exclusive'

-- part: share_ends
coalesce((SELECT min(a.id) FROM generate_series(0, 63) AS n CROSS JOIN (VALUES (0)) AS p(st)
    CROSS JOIN LATERAL (SELECT id FROM {table} WHERE {of} ORDER BY id + 0 LIMIT 1) AS a
    WHERE s.mask >> n & 1::bigint = 1), 0),
coalesce((SELECT max(a.id) FROM generate_series(0, 63) AS n CROSS JOIN (VALUES (0)) AS p(st)
    CROSS JOIN LATERAL (SELECT id FROM {table} WHERE {of} ORDER BY id + 0 DESC LIMIT 1) AS a
    WHERE s.mask >> n & 1::bigint = 1), 0)

-- include: postgres.shares.sql

-- part: states_asked
-- With :open rows of all open states, else pending rows.
SELECT st FROM (VALUES (0), (1), (3)) AS s(st) WHERE st = 0 OR :open::bigint <> 0

-- name: partitions-read
-- Open rows of some partitions behind the cursor: some of each partition, up to the first id behind
-- which a partition may have more.  Also pending rows before the cursor that may have been committed
-- late, except those that the relay has (late_ids_of_a_share_leave_before_higher_ones).
WITH ahead AS MATERIALIZED (
  SELECT n, st, a.id
  FROM unnest(:partitions::smallint[]) AS n CROSS JOIN ({states_asked}) AS s CROSS JOIN LATERAL (
    SELECT id FROM {table} WHERE {of} AND id + 0 > :after::bigint
    ORDER BY id + 0 LIMIT :each::bigint) AS a),
late AS MATERIALIZED (
  SELECT a.id
  FROM unnest(:partitions::smallint[]) AS n CROSS JOIN (VALUES (0)) AS p(st) CROSS JOIN LATERAL (
    SELECT id FROM {table}
    WHERE {of} AND id + 0 > :late::bigint AND id + 0 <= :after::bigint
    ORDER BY id + 0) AS a
  WHERE a.id NOT IN (
    SELECT known FROM unnest(translate(:known::text, '[]', '{}')::bigint[]) AS known)),
picked AS (
  SELECT id AS place FROM late
  UNION ALL
  (SELECT id FROM ahead
   WHERE id <= coalesce((SELECT min(last) FROM (
     SELECT max(id) AS last FROM ahead GROUP BY n, st HAVING count(*) >= :each::bigint) AS f),
     9223372036854775807)
   ORDER BY id LIMIT :limit::bigint))
SELECT {open_columns}
FROM (SELECT place FROM picked ORDER BY place) AS p
CROSS JOIN LATERAL (SELECT * FROM {table} WHERE id = place OFFSET 0) AS t
ORDER BY place;

-- name: partitions-dead-keys
SELECT id, {key_texts}
FROM {table} WHERE status = 4 AND id > :after AND {partition} = ANY (:partitions::smallint[])
ORDER BY id LIMIT :limit;
