--
-- Numbers of messages, and statements for dead messages, for the tables of both layouts.

-- name: count
-- Number of due, leased, waiting and dead messages; milliseconds since the first became due, and until
-- the next can be polled; -1: there is none.
SELECT count(*) FILTER (WHERE t.at <= t.now), count(*) FILTER (WHERE t.at > t.now AND t.leased),
  count(*) FILTER (WHERE t.at > t.now AND NOT t.leased),
  (SELECT count(*) FROM {table_dead} AS d WHERE {of_kind:d}),
  greatest(coalesce(max(t.now - t.at), 0), 0), greatest(coalesce(min(t.at - t.now), -1), CASE WHEN count(*) > 0 THEN 0 ELSE -1 END)
FROM (SELECT {at} AS at, "lockUuid" IS NOT NULL AS leased, {now} AS now
      FROM {table} WHERE {of_kind}) AS t;

-- name: count-table
-- Messages of all queues: those that are not dead, those that could be polled, and the dead.
SELECT (SELECT count(*) FROM {table}), (SELECT count(*) FROM {table} WHERE {at} <= {now}),
  (SELECT count(*) FROM {table_dead});

-- name: next-due
-- Milliseconds until a message can be polled; 0: now; -1: no message waits or is leased.
SELECT coalesce((SELECT greatest({at} - {now}, 0) FROM {table}
                 WHERE {of_kind} ORDER BY "pKind", "scheduledAt", id LIMIT 1), -1);

-- name: list-dead
SELECT id, "pKey", "scheduledAtInitially", died_at, "createdAt", NULL::bigint, attempts, 4,
  NULL::pg_catalog.text, last_error, payload
FROM {table_dead} WHERE {of_kind} AND id > :after::bigint ORDER BY "pKind", id LIMIT :limit::bigint;

-- name: last-dead
SELECT coalesce(max(id), 0) FROM {table_dead} WHERE {of_kind};

-- part: again_at
-- Time when a dead message was due, cut to the years that a message may have.
least(greatest(d."scheduledAtInitially", 0), 253402300799999)

-- name: retry-dead
-- Insert dead messages whose keys have no other message again; "delete-dead" then deletes their copies.  A row of
-- another program that the table cannot store stays dead, and stops no other (tests/crash/role_rows.sh).
INSERT INTO {table}(id, "pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
SELECT d.id, d."pKey", d."pKind", d.payload, least({again_at}, {now}), {again_at},
  CASE WHEN d."createdAt" < 253402300799999 THEN greatest({now}, d."createdAt" + 1) ELSE {now} END
FROM {table_dead} AS d
WHERE {of_kind:d} AND d.id BETWEEN :first::bigint AND :last::bigint
  AND {dead_fits}
  AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t."pKind" = d."pKind" AND t."pKey" = d."pKey")
ORDER BY d.id LIMIT :limit::bigint FOR UPDATE OF d SKIP LOCKED
ON CONFLICT DO NOTHING RETURNING id;

-- name: delete-dead
DELETE FROM {table_dead} WHERE id = ANY ({ids});

-- name: purge-dead
-- A row that another transaction has locked is waited for if it is named, and otherwise stays.
DELETE FROM {table_dead} WHERE id = :id::bigint AND {of_kind} OR :id::bigint = 0 AND id = ANY (ARRAY(
  SELECT id FROM {table_dead} WHERE {of_kind} AND :id::bigint = 0 FOR UPDATE SKIP LOCKED));
