--
-- Checks of `wherry doctor` on SQLite that the layouts of outboxes share; postgres.doctor.sql explains their form.

-- part: now
(SELECT ms FROM wherry_clock)

-- name: others
-- Wherry's other tables in the database.
SELECT 0, model, name FROM wherry_schema WHERE model NOT IN ('outbox', 'log') ORDER BY model, name;

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

-- name: bloat
SELECT 1, 'file', (p.page_count * s.page_size / 1048576) || ' MB',
  'all that is in ' || (p.page_count - f.freelist_count) || ' of its ' || p.page_count
  || ' pages', 'VACUUM'
FROM pragma_page_count AS p, pragma_page_size AS s, pragma_freelist_count AS f
WHERE p.page_count > 1000 AND f.freelist_count > p.page_count / 2;

-- name: absent
SELECT 2,
  CASE WHEN :number > last THEN 'ids up to ' || last || ' have been given out so far'
       ELSE '' END, ''
FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = {name} COLLATE NOCASE), 0)
        AS last);

-- name: any-table
-- Tables that may be Wherry's, without queues: every layout of an outbox and of a delayed queue has a
-- column `payload`, an inbox has `accepted_at`, a table of schedules `until_ms`.
SELECT name FROM sqlite_schema AS t
WHERE (type = 'table' OR EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE name = 'at_once')) AND substr(name, 1, 7) <> 'wherry_'
  AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE name IN ('payload', 'accepted_at', 'until_ms'))
ORDER BY name;
