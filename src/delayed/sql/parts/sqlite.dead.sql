--
-- Numbers of messages, and statements for dead messages, for the tables of both layouts.

-- name: count
-- Number of due, leased, waiting and dead messages; milliseconds since the first became due, and until
-- the next can be polled; -1: there is none.
SELECT count(*) FILTER (WHERE t.at <= t.now), count(*) FILTER (WHERE t.at > t.now AND t.leased),
  count(*) FILTER (WHERE t.at > t.now AND NOT t.leased),
  (SELECT count(*) FROM {table_dead} WHERE "pKind" = :kind),
  max(coalesce(max(t.now - t.at), 0), 0), max(coalesce(min(t.at - t.now), -1), CASE WHEN count(*) THEN 0 ELSE -1 END)
FROM (SELECT {at} AS at, "lockUuid" IS NOT NULL AS leased, {at_now} AS now
      FROM {table} WHERE "pKind" = :kind) AS t;

-- name: count-table
-- Messages of all queues: those that are not dead, those that could be polled, and the dead.
SELECT (SELECT count(*) FROM {table}), (SELECT count(*) FROM {table} WHERE "scheduledAt" <= {at_now}),
  (SELECT count(*) FROM {table_dead});

-- name: list-dead
SELECT id, "pKey", "scheduledAtInitially", died_at, "createdAt", NULL, attempts, 4, NULL, last_error, payload
FROM {table_dead} WHERE "pKind" = :kind AND id > :after ORDER BY id LIMIT :limit;

-- name: last-dead
SELECT coalesce(max(id), 0) FROM {table_dead} WHERE "pKind" = :kind;

-- part: again_at
-- Time when a dead message was due, cut to the years that a message may have.
CASE WHEN typeof(d."scheduledAtInitially") = 'integer'
  THEN min(max(d."scheduledAtInitially", 0), 253402300799999) ELSE {at_now} END

-- name: retry-dead
-- Insert dead messages whose keys have no other message again; "delete-dead" then deletes their copies.  A row of
-- another program that the table cannot store stays dead, and stops no other (tests/crash/role_rows.sh).
INSERT INTO {table}(id, "pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
SELECT d.id, d."pKey", d."pKind", d.payload, min({again_at}, {at_now}), {again_at},
  CASE WHEN typeof(d."createdAt") = 'integer' AND d."createdAt" < 253402300799999
    THEN max({at_now}, d."createdAt" + 1) ELSE {at_now} END
FROM {table_dead} AS d
WHERE d."pKind" = :kind AND d.id BETWEEN :first AND :last
  AND {dead_fits}
  AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t."pKind" = d."pKind" AND t."pKey" = d."pKey")
ORDER BY d.id LIMIT :limit
ON CONFLICT DO NOTHING RETURNING id;

-- name: delete-dead
DELETE FROM {table_dead} WHERE id IN {ids};

-- name: purge-dead
DELETE FROM {table_dead} WHERE "pKind" = :kind AND (:id = 0 OR id = :id);
