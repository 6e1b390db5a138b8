-- layout: name=doctor
--
-- Checks of `wherry doctor` on SQLite; doctor.postgres.sql explains their form.

-- part: now
(SELECT ms FROM wherry_clock)

-- part: key_shown
coalesce(nullif(c.partition_key, ''), nullif(c.aggregate_type || ' ' || c.aggregate_id, ' '),
         'none')

-- part: failed
-- Reasons of failures that count no attempt, since the destination may have caused them.
CASE WHEN c.attempts < 1 THEN 'was refused, which counts as no attempt'
     WHEN c.attempts = 1 THEN 'failed once' ELSE 'failed ' || c.attempts || ' times' END

-- part: after
CASE WHEN c.attempts < 1 THEN '' WHEN c.attempts = 1 THEN ' after one attempt'
     ELSE ' after ' || c.attempts || ' attempts' END

-- part: behind
-- Number of messages that wait behind c, among the next pending rows.
(SELECT count(*) FROM (
   SELECT ordering_key AS key FROM {table} WHERE status = 0 AND id > c.id
   ORDER BY id LIMIT 10000) AS next WHERE next.key = c.ordering_key)

-- part: gone
-- The process of the lease's holder ran on this machine and has ended.
instr(:gone, char(10) || process || char(10)) > 0

-- part: live
outbox = :name AND expires_at > {now} AND NOT {gone}

-- part: led
(SELECT count(*) > 0 FROM wherry_lease WHERE {live})

-- name: processes
SELECT DISTINCT process FROM wherry_lease
WHERE outbox = :name AND expires_at > {now} AND process <> '';

-- name: others
-- Wherry's other tables in the database.
SELECT 0, model, name FROM wherry_schema WHERE model <> 'outbox' ORDER BY model, name;

-- name: time
SELECT ms FROM wherry_clock;

-- name: server
SELECT 0, sqlite_version(), (SELECT journal_mode FROM pragma_journal_mode),
  (SELECT (p.page_count * s.page_size + 1048575) / 1048576
   FROM pragma_page_count AS p, pragma_page_size AS s) || ' MB';

-- name: journal
SELECT 1, journal_mode FROM pragma_journal_mode WHERE journal_mode NOT IN ('wal', 'memory');

-- name: durability
-- Each connection has its own value; `db.synchronous` sets that of Wherry's connections.
SELECT 1, 'synchronous', 'a power loss can take back a transaction whose message has left',
  'leave out --set db.synchronous=normal'
FROM pragma_synchronous WHERE synchronous < 2;

-- name: clock
SELECT CASE WHEN abs(ahead) > 2000 THEN 1 ELSE 0 END, abs(ahead),
  CASE WHEN ahead < 0 THEN 'behind' ELSE 'ahead of' END
FROM (SELECT ms - :local AS ahead FROM wherry_clock);

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

-- name: bloat
SELECT 1, 'file', (p.page_count * s.page_size / 1048576) || ' MB',
  'all that is in ' || (p.page_count - f.freelist_count) || ' of its ' || p.page_count
  || ' pages', 'VACUUM'
FROM pragma_page_count AS p, pragma_page_size AS s, pragma_freelist_count AS f
WHERE p.page_count > 1000 AND f.freelist_count > p.page_count / 2;

-- name: paused
SELECT 2, {now} - paused_at, strftime('%Y-%m-%d %H:%M:%S UTC', paused_at / 1000, 'unixepoch')
FROM wherry_outbox WHERE name = :name AND paused_at IS NOT NULL;

-- name: relay
SELECT 0, owner, engine, epoch, expires_at - {now}
FROM wherry_lease WHERE {live}
UNION ALL
SELECT CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE status = 0) OR EXISTS (
              SELECT 1 FROM {table} WHERE status = 3
              AND coalesce(next_retry_at, 0) <= {now})
            THEN 2 ELSE 1 END,
  coalesce((SELECT 'the last was ' || owner || CASE
              WHEN {gone} THEN ', whose process has ended'
              WHEN expires_at > 86400000 THEN ', whose lease expired at '
                || strftime('%Y-%m-%d %H:%M:%S UTC', expires_at / 1000, 'unixepoch')
              ELSE ', which ended in good order' END
            FROM wherry_lease WHERE outbox = :name ORDER BY expires_at DESC LIMIT 1),
           'none has been here so far'), '', '', ''
WHERE NOT {led};

-- name: lease
-- No relay takes a lease for longer than an hour (relay.lease).
SELECT 2, owner, min(expires_at - {now}, 3153600000000),
  'UPDATE wherry_lease SET expires_at = 0 WHERE outbox = ' || quote(:name) || ' AND number = ' || number
FROM wherry_lease WHERE outbox = :name AND expires_at > {now} + 3660000 AND NOT {gone};

-- name: destination
SELECT 2, CASE destination WHEN '' THEN 'the destination' ELSE destination END, error,
  {now} - state_since
FROM wherry_lease WHERE {live} AND state = 'retrying';

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

-- name: absent
SELECT 2,
  CASE WHEN :number > last THEN 'ids up to ' || last || ' have been given out so far'
       ELSE '' END, ''
FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = {name} COLLATE NOCASE), 0)
        AS last);

-- name: acknowledgements
SELECT 1, 'trigger ' || name FROM sqlite_schema
WHERE type = 'trigger' AND tbl_name = {name} COLLATE NOCASE
  AND replace(upper(sql), ' ', '') LIKE '%RAISE(IGNORE)%';

-- name: any-table
-- Tables that may be Wherry's, without queues: every layout of an outbox and of a delayed queue has a
-- column `payload`, an inbox has `accepted_at`, a table of schedules `until_ms`.
SELECT name FROM sqlite_schema AS t
WHERE type = 'table' AND substr(name, 1, 7) <> 'wherry_'
  AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE name IN ('payload', 'accepted_at', 'until_ms'))
ORDER BY name;
