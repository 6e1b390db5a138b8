-- layout: name=doctor
--
-- Checks of `wherry doctor` on SQLite, of what all tables need.

-- part: ready
EXISTS (SELECT 1 FROM {table} WHERE status = 0)
  OR EXISTS (SELECT 1 FROM {table} WHERE status = 3 AND coalesce(next_retry_at, 0) <= (SELECT ms FROM wherry_clock))

-- include: sqlite.doctor.sql

-- part: behind
-- Number of messages that wait behind c, among the next pending rows.
(SELECT count(*) FROM (
   SELECT ordering_key AS key FROM {table} WHERE status = 0 AND id > c.id
   ORDER BY id LIMIT 10000) AS next WHERE next.key = c.ordering_key)

-- name: tables
SELECT 2, name FROM (SELECT {name} || '_archive' AS name UNION ALL SELECT 'wherry_outbox'
                     UNION ALL SELECT 'wherry_lease') AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type = 'table' AND s.name = t.name COLLATE NOCASE);

-- name: indexes
SELECT 2, name
FROM (SELECT {name} || s.column1 AS name FROM (
        VALUES ('_message_id'), ('_open'), ('_done'), ('_dead'), ('_busy'), ('_due'),
               ('_archive_message_id'), ('_archive_done')) AS s) AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type = 'index' AND s.name = t.name COLLATE NOCASE);

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT 1, c.id, {now} - c.created_at,
  coalesce((SELECT '; the last error is: ' || substr(last_error, 1, 300) FROM {table}
            WHERE status = 3 AND last_error IS NOT NULL
            ORDER BY coalesce(next_retry_at, 0) DESC LIMIT 1), '')
FROM (SELECT * FROM {table} WHERE status = 0 ORDER BY id LIMIT 100) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM wherry_outbox
                            WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM wherry_lease WHERE outbox = :name AND state = 'retrying')
  AND c.created_at <= {now} - :older
  AND NOT EXISTS (
    SELECT 1 FROM {table} AS b
    WHERE (b.status = 1 OR b.status = 3 OR b.status = 4
           OR b.claim_token IS NOT NULL AND b.status = 0)
      AND b.ordering_key = c.ordering_key AND b.id < c.id)
ORDER BY c.id LIMIT 1;

-- name: claims
SELECT 1, count(*), {now} - min(since), min(id)
FROM (SELECT id, coalesce(next_retry_at, claimed_at) AS since FROM {table}
      WHERE status = 1 AND coalesce(next_retry_at, 0) <= {now}
        AND (next_retry_at IS NOT NULL OR NOT {led})
      LIMIT 1000)
HAVING count(*) > 0;

-- name: held
SELECT 1, c.id, {key_shown}, {failed}, max(coalesce(c.next_retry_at, 0) - {now}, 0),
  coalesce(substr(c.last_error, 1, 300), 'no reason given'), {behind}
FROM {table} AS c WHERE c.status = 3 ORDER BY coalesce(c.next_retry_at, 0) LIMIT 5;

-- name: parked
SELECT 1, c.id, {key_shown}, {after},
  coalesce(substr(c.last_error, 1, 300), 'no reason given'), {behind}
FROM {table} AS c WHERE c.status = 4 ORDER BY c.id LIMIT 5;

-- name: acknowledgements
SELECT 1, 'trigger ' || name FROM sqlite_schema
WHERE type = 'trigger' AND tbl_name = {name} COLLATE NOCASE
  AND replace(upper(sql), ' ', '') LIKE '%RAISE(IGNORE)%';
