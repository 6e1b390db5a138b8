--
-- Reads an append-only table on PostgreSQL exactly.  Each row has the number of its transaction in the
-- column tx (xid8 DEFAULT pg_current_xact_id()), with an index on (tx, id).
--
-- A position is the highest id that was read and the snapshot of the statement that read
-- it.  Rows that are not read yet are those with a higher id, and *late* rows.  A late row has a
-- lower id, and its transaction was not visible in the snapshot.
--
-- Files include it behind their parts "judged_row", all columns of a row, called e, and what is computed of
-- them, and "message", the columns of those that are returned.  In front of these are: id, twice, whether its transaction is
-- visible, and three columns of the first row.
--
-- A relay looks up to a thousand times a second, and finds one row or none.  The server then spends its time on setting up the
-- statement, so what is computed of a row is written once, above the union, and "OFFSET 0" keeps it there.

-- part: seen
(SELECT :seen::text::pg_snapshot)

-- part: late
-- Ids and transactions of late rows, at most one more than :limit.  Late rows are few, so
-- they are looked for in the index on tx.  "id + 0", a range in place of "=" and the order
-- by tx keep the planner away from the primary key, which it would walk from its beginning.
  SELECT x.id, x.tx FROM (
    (SELECT t.id, t.tx FROM {table} AS t
     WHERE t.tx >= pg_snapshot_xmax({seen}) AND t.id + 0 <= :high
     ORDER BY t.tx LIMIT :limit + 1)
    UNION ALL
    (SELECT t.id, t.tx FROM pg_snapshot_xip({seen}) AS open(tx)
     CROSS JOIN LATERAL (SELECT e.id, e.tx FROM {table} AS e
                         WHERE e.tx BETWEEN open.tx AND open.tx AND e.id + 0 <= :high
                         ORDER BY e.tx LIMIT :limit + 1) AS t
     LIMIT :limit + 1)) AS x

-- name: read-log
-- The first row says what was found: the snapshot
-- of this statement; whether more rows are late than :limit, and then no other rows come;
-- whether the numbers of transactions began again, which a restored dump does.  Then come
-- late rows, then rows with a higher id, each in the order of their ids.  One statement has
-- one snapshot, so no row is missed or read twice.
WITH late AS MATERIALIZED ({late}
), head AS MATERIALIZED (
  SELECT pg_current_snapshot() AS now, (SELECT count(*) FROM late) AS n
)
SELECT at, at, visible, now, many, restored, {message} FROM (SELECT {judged_row} FROM (
  (SELECT -9223372036854775808 AS at, true AS visible, h.now::text AS now, h.n > :limit AS many,
          pg_snapshot_xmax(h.now) < pg_snapshot_xmax({seen})
            OR EXISTS (SELECT 1 FROM late AS l WHERE NOT pg_visible_in_snapshot(l.tx, h.now))
            AS restored,
          t.*
   FROM head AS h LEFT JOIN {table} AS t ON false)
  UNION ALL
  (SELECT t.id, true, NULL, NULL, NULL, t.*
   FROM late AS l CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = l.id OFFSET 0) AS t
   WHERE (SELECT h.n FROM head AS h) <= :limit
   ORDER BY t.id)
  UNION ALL
  (SELECT t.id, coalesce(pg_visible_in_snapshot(t.tx, (SELECT h.now FROM head AS h)), true), NULL, NULL, NULL, t.*
   FROM (SELECT * FROM {table} AS e WHERE e.id > :high AND (SELECT h.n FROM head AS h) <= :limit
         ORDER BY e.id LIMIT :limit) AS t)) AS e
ORDER BY at, now OFFSET 0) AS r
ORDER BY at, now;

-- name: late-start
-- Before the first of many late rows.
SELECT coalesce(greatest(min(x.id), -9223372036854775807) - 1, :high) FROM (
  SELECT min(t.id + 0) AS id FROM {table} AS t
  WHERE t.tx >= pg_snapshot_xmax({seen}) AND t.id + 0 <= :high
  UNION ALL
  SELECT min(t.id) FROM pg_snapshot_xip({seen}) AS open(tx)
  CROSS JOIN LATERAL (SELECT min(e.id + 0) AS id FROM {table} AS e
                      WHERE e.tx BETWEEN open.tx AND open.tx AND e.id + 0 <= :high) AS t) AS x;

-- name: late-page
-- Many late rows, page by page in the order of their ids, behind a first row as that of
-- "read-log".  Rows that became visible after the snapshot :until belong to the next round.
SELECT at, at, true, NULL, false, restored, {message} FROM (SELECT {judged_row} FROM (
  (SELECT -9223372036854775808 AS at,
          pg_snapshot_xmax(pg_current_snapshot())
            < pg_snapshot_xmax((SELECT :until::text::pg_snapshot)) AS restored,
          t.*
   FROM (SELECT 1) AS one LEFT JOIN {table} AS t ON false)
  UNION ALL
  (SELECT t.id, false, t.*
   FROM (SELECT * FROM {table} AS e WHERE e.id > :late AND e.id <= :high
           AND NOT pg_visible_in_snapshot(e.tx, {seen})
           AND pg_visible_in_snapshot(e.tx, (SELECT :until::text::pg_snapshot))
         ORDER BY e.id LIMIT :limit) AS t)) AS e
ORDER BY at, restored OFFSET 0) AS r
ORDER BY at, restored;

-- name: log-end
-- The position behind all rows that are visible now, and behind an id.
SELECT coalesce(:high::bigint, (SELECT max(t.id) FROM {table} AS t), 0), pg_current_snapshot()::text;
