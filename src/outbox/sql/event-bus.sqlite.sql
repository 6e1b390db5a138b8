-- layout: name=event-bus ordered=no fence=claim body=json columns=id,type,payload,occurred_at,status,retry_count,last_error,next_retry_at,created_on,started_on,keep_alive,expire_in_seconds archive=id,type,payload,occurred_at,status,retry_count,last_error,created_on,started_on,completed_on,!next_retry_at
-- unused: aggregate_id aggregate_type headers id key token trace_id
--
-- The tables of the TypeScript library outbox-event-bus on SQLite.  Wherry adds nothing to
-- them, and the library may work on them at the same time.
--
-- Limits of this layout: rows have no key, so there is no order (ordered=no).  There are no
-- columns for headers, a trace or an aggregate.  The tables cannot store a lease or a pause, so
-- relays only compete (meet.c), each fenced by its claims (fence=claim).  A delivered row
-- moves to the archive at once (done=archive).
--
-- The id that the C code sees is the rowid, which may change: VACUUM may renumber a table
-- without an INTEGER PRIMARY KEY, and SQLite uses the number of the last row again after it is
-- deleted.  So a claim is settled by the message's own id and by started_on, which grows with
-- each claim of a row (an_acknowledgement_survives_vacuum,
-- two_claims_within_a_millisecond_are_two).  Ids of the archive begin at 1000000000001.
--
-- A dead message is failed and has NULL in next_retry_at, so no clause of the library finds it.
-- Wherry ignores rows without an id, which SQLite allows.  An id that is a BLOB differs from the
-- same bytes as text, so the identity that a claim returns says which of the two it is
-- (an_event_whose_id_is_a_blob_is_settled).
--
-- Times are text, ISO 8601 in UTC with milliseconds and Z.

-- name: migrate-1
CREATE TABLE IF NOT EXISTS {table}(
  id                TEXT PRIMARY KEY,
  type              TEXT NOT NULL,
  payload           TEXT NOT NULL,
  occurred_at       TEXT NOT NULL,
  status            TEXT NOT NULL DEFAULT 'created',
  retry_count       INTEGER NOT NULL DEFAULT 0,
  last_error        TEXT,
  next_retry_at     TEXT,
  created_on        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_on        TEXT,
  completed_on      TEXT,
  keep_alive        TEXT,
  expire_in_seconds INTEGER NOT NULL DEFAULT 300
);
CREATE TABLE IF NOT EXISTS {table_archive}(
  id           TEXT PRIMARY KEY,
  type         TEXT NOT NULL,
  payload      TEXT NOT NULL,
  occurred_at  TEXT NOT NULL,
  status       TEXT NOT NULL,
  retry_count  INTEGER NOT NULL,
  last_error   TEXT,
  created_on   TEXT NOT NULL,
  started_on   TEXT,
  completed_on TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS {idx_table_status_retry} ON {table}(status, next_retry_at);

-- name: schema-version
-- The columns identify this layout; 0: the archive is missing.
SELECT 10 = (SELECT count(*) FROM pragma_table_info(:name || '_archive')
             WHERE name IN ('id', 'type', 'payload', 'occurred_at', 'status', 'retry_count',
                            'last_error', 'created_on', 'started_on', 'completed_on')), 100
WHERE 12 = (SELECT count(*) FROM pragma_table_info(:name)
            WHERE name IN ('id', 'type', 'payload', 'occurred_at', 'status', 'retry_count',
                           'last_error', 'next_retry_at', 'created_on', 'started_on',
                           'keep_alive', 'expire_in_seconds'));

-- name: columns
SELECT name FROM pragma_table_info(:name);

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- part: mark
-- Columns that a claim writes.  started_on is its fence: now, or a millisecond after the claim before,
-- if that is later.  keep_alive and expire_in_seconds tell the library when the claim expires
-- (a_claim_that_lives_is_not_taken_by_the_library).
status = 'active',
  started_on = CASE WHEN started_on >= {now}
    THEN coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', started_on, '+0.001 seconds'), {now})
    ELSE {now} END,
  keep_alive = {now}, expire_in_seconds = (:lasts + 999) / 1000

-- part: standard
-- Duration of the next claim of the row, from the table's default.
coalesce((SELECT nullif(CAST(dflt_value AS INTEGER), 0) FROM pragma_table_info({name})
          WHERE name = 'expire_in_seconds'), 300)

-- part: left
-- Seconds until a claim expires; 0 for a claim without a time.
coalesce((julianday(coalesce(keep_alive, started_on)) - julianday('now')) * 86400.0
         + expire_in_seconds, -1)

-- part: happened
-- A time of the table in Unix milliseconds.
CAST((coalesce(julianday(occurred_at), julianday(created_on), 2440587.5) - 2440587.5)
     * 86400000.0 + 0.5 AS INTEGER)

-- part: never
-- Condition: the retry time of this failed row sorts behind every year, so it is not a time and would
-- never come.  The row counts as due (a_retry_time_that_is_not_a_time_is_due).
status = 'failed' AND next_retry_at >= ':' AND id IS NOT NULL

-- part: fence
-- Identity of a claim.
started_on || CASE typeof(id) WHEN 'blob' THEN ' blob' ELSE '' END

-- part: state
CASE status WHEN 'created' THEN 0 WHEN 'active' THEN 1 WHEN 'completed' THEN 2
  ELSE CASE WHEN status <> 'failed' OR next_retry_at IS NULL THEN 4 ELSE 3 END END

-- part: open
(status = 'created' OR status = 'active' OR status = 'failed' AND next_retry_at IS NOT NULL)
  AND id IS NOT NULL

-- part: held
-- Rows of these claims.
SELECT e.rowid FROM json_each(:ids) AS c CROSS JOIN {table} AS e
WHERE e.id = json_extract(c.value, '$[0]') AND e.started_on = json_extract(c.value, '$[1]')
  AND e.status = 'active'
UNION ALL
SELECT e.rowid FROM json_each(:ids) AS c CROSS JOIN {table} AS e
WHERE json_extract(c.value, '$[1]') LIKE '% blob'
  AND e.id = CAST(json_extract(c.value, '$[0]') AS BLOB)
  AND e.started_on || ' blob' = json_extract(c.value, '$[1]') AND e.status = 'active'

-- part: this
-- Row of one claim.
(id = :message_id AND started_on = :started
 OR id = CAST(:message_id AS BLOB) AND started_on || ' blob' = :started) AND status = 'active'

-- part: young
(:since = 0 OR coalesce((julianday('now') - julianday(occurred_at)) * 86400000.0, 0) <= :since)

-- part: row
-- An open row to list or show.
rowid, {state}, retry_count, {happened},
  CASE status WHEN 'active' THEN
    CAST((julianday(started_on) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) END,
  CASE status
    WHEN 'active' THEN
      CAST((julianday(coalesce(keep_alive, started_on)) - 2440587.5) * 86400000.0 + 0.5
           AS INTEGER) + expire_in_seconds * 1000
    WHEN 'failed' THEN
      CAST((julianday(next_retry_at) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) END,
  NULL, id, type, '', '', NULL, '{}', NULL, payload, last_error, 0, 0

-- part: archived
rowid + 1000000000000, 2, retry_count, {happened}, NULL, NULL,
  CAST((julianday(completed_on) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER),
  id, type, '', '', NULL, '{}', NULL, payload, last_error, 0, 0

-- part: wanted
id IS NOT NULL AND rowid > :after AND (:states >> {state} & 1)
  AND (:ident IS NULL OR id = :ident
       OR (rowid = :number AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = :ident)))
  AND (:topic IS NULL OR type = :topic) AND {young}

-- part: wanted-archived
id IS NOT NULL AND rowid + 1000000000000 > :after AND (:states & 4)
  AND (:ident IS NULL OR id = :ident
       OR (rowid + 1000000000000 = :number
           AND NOT EXISTS (SELECT 1 FROM {table_archive} WHERE id = :ident)))
  AND (:topic IS NULL OR type = :topic) AND {young}

-- name: enqueue
-- An id that was delivered is a duplicate too, as long as the archive has it.
INSERT INTO {table}(id, type, payload, occurred_at, status, created_on)
SELECT :message_id, :topic, :payload, {now}, 'created', {now}
WHERE NOT EXISTS (SELECT 1 FROM {table_archive} WHERE id = :message_id)
ON CONFLICT DO NOTHING;

-- name: claim-end
-- No row is ever skipped, since there are no keys.
SELECT 0, count(*) FROM (
  SELECT 1 FROM {table} WHERE status = 'created' AND id IS NOT NULL LIMIT 1);

-- name: claim
-- The oldest rows first, in the order of the library's index; its rows without a retry time are in the
-- order in which they were written.
UPDATE {table} SET {mark}
WHERE rowid IN (
  SELECT rowid FROM {table} WHERE status = 'created' AND id IS NOT NULL
  ORDER BY next_retry_at, rowid LIMIT :limit)
RETURNING rowid, 0, retry_count, {happened}, 0, id, type, '', '', NULL, '{}', NULL,
  payload, {fence};

-- name: claim-due
-- Failed rows come before rows that were never tried, so that they do not starve.
UPDATE {table} SET {mark}
WHERE rowid IN (
  SELECT rowid FROM (
    SELECT rowid FROM (
      SELECT rowid FROM {table}
      WHERE status = 'failed' AND next_retry_at <= {now} AND id IS NOT NULL
      ORDER BY next_retry_at, rowid LIMIT :limit)
    UNION ALL
    SELECT rowid FROM {table} WHERE {never})
  LIMIT :limit)
RETURNING rowid, 0, retry_count, {happened}, 0, id, type, '', '', NULL, '{}', NULL,
  payload, {fence};

-- name: expired
-- Rows that were claimed together, by Wherry or by the library, have one started_on.
SELECT f.started_on, (
  SELECT count(*) FROM {table}
  WHERE status = 'active' AND id IS NOT NULL AND started_on = f.started_on
    AND {left} <= 0.0001)
FROM (
  SELECT started_on FROM {table}
  WHERE status = 'active' AND id IS NOT NULL AND {left} <= 0.0001
  ORDER BY {left}, rowid LIMIT 1) AS f;

-- name: claim-share
-- No attempt is recorded, since only one of these rows can have crashed its program, if any did.
UPDATE {table} SET {mark}
WHERE rowid IN (
  SELECT rowid FROM {table}
  WHERE status = 'active' AND id IS NOT NULL AND started_on = :of AND {left} <= 0.0001
  ORDER BY rowid LIMIT :limit)
RETURNING rowid, 0, retry_count, {happened}, 0, id, type, '', '', NULL, '{}', NULL,
  payload, {fence};

-- name: claim-expired
-- One row whose claim has expired.  The attempt is recorded before it is made, so that an event
-- that crashes its program runs out of attempts.
UPDATE {table} SET {mark}, retry_count = retry_count + 1
WHERE rowid = (
  SELECT rowid FROM {table}
  WHERE status = 'active' AND id IS NOT NULL AND {left} <= 0.0001
  ORDER BY {left}, rowid LIMIT 1)
RETURNING rowid, 1, retry_count - 1, {happened}, 0, id, type, '', '', NULL, '{}', NULL,
  payload, {fence};

-- name: claim-next
SELECT (SELECT CAST(min({left}) * 1000.0 + 0.5 AS INTEGER)
        FROM {table} WHERE status = 'active' AND id IS NOT NULL),
       CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE {never}) THEN 0 ELSE
         (SELECT CAST((julianday(next_retry_at) - julianday('now')) * 86400000.0 + 0.5
                      AS INTEGER)
          FROM {table} WHERE status = 'failed' AND next_retry_at IS NOT NULL
            AND id IS NOT NULL
          ORDER BY next_retry_at LIMIT 1) END;

-- name: extend
-- An expired claim is not extended.
UPDATE {table} SET keep_alive = {now}, expire_in_seconds = (:lasts + 999) / 1000
WHERE rowid IN ({held}) AND {left} > 0.0001;

-- name: open-upto
-- Up to the time that last-open gave: rowids may be used again meanwhile
-- (until_empty_ends_though_rowids_are_used_again).
SELECT count(*) FROM (
  SELECT 1 FROM {table}
  WHERE {open}
    AND coalesce(CAST((julianday(created_on) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER), 0)
        <= :upto
  LIMIT 1);

-- name: last-open
SELECT coalesce(max(CAST((julianday(created_on) - 2440587.5) * 86400000.0 + 0.5
                         AS INTEGER)), 0)
FROM {table} WHERE {open};

-- name: done-delete
-- Change only rows that this claim holds (an_acknowledgement_of_a_lost_claim_changes_nothing_…).
DELETE FROM {table} WHERE rowid IN ({held});

-- name: done-archive
-- Runs before done-delete, in the same transaction.  If the archive has the id, it was used
-- again, and its row is replaced (defect_5_an_archived_id_is_settled_once).
INSERT OR REPLACE INTO {table_archive}(id, type, payload, occurred_at, status, retry_count,
  last_error, created_on, started_on, completed_on)
SELECT id, type, payload, occurred_at, 'completed', retry_count, last_error, created_on,
       started_on, {now}
FROM {table} WHERE rowid IN ({held});

-- name: fail
-- The time of the next attempt is counted from now, by the database's clock.
UPDATE {table} SET status = 'failed',
  retry_count = CASE WHEN retry_count BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                     ELSE retry_count + :count END,
  next_retry_at = CASE WHEN NOT :dead THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now',
    printf('+%d.%03d seconds', :delay / 1000, :delay % 1000)) END,
  last_error = :error, expire_in_seconds = {standard}
WHERE {this};

-- name: requeue
-- started_on stays, so that the next one grows.
UPDATE {table} SET status = 'created', next_retry_at = NULL, keep_alive = NULL,
  expire_in_seconds = {standard}
WHERE rowid IN ({held});

-- name: try
UPDATE {table} SET
  retry_count = CASE WHEN retry_count BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                     ELSE retry_count + 1 END
WHERE {this};

-- name: reap
UPDATE {table} SET status = 'created', next_retry_at = NULL, keep_alive = NULL,
  expire_in_seconds = {standard}
WHERE status = 'active' AND id IS NOT NULL AND {left} <= 0.0001
  AND coalesce((julianday(started_on) - julianday('now')) * 86400000.0, -9e18)
      <= 0.1 - :timeout;

-- part: old_rows
-- Delivered rows are in the archive.
{table_archive} WHERE completed_on <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now',
  printf('-%d.%03d seconds', :age / 1000, :age % 1000))

-- name: purge
DELETE FROM {table_archive} WHERE rowid IN (SELECT rowid FROM {old_rows} LIMIT :limit);

-- name: purge-count
SELECT count(*) FROM {old_rows};

-- name: retry-dead
-- Like retryEvents of the library, except that rows that a claim holds are left out.
UPDATE {table} SET status = 'created', retry_count = 0, last_error = NULL,
  next_retry_at = NULL
WHERE rowid IN (
  SELECT rowid FROM {table} WHERE status = 'failed' AND {wanted}
  ORDER BY rowid LIMIT :limit);

-- name: discard
-- Delivered rows are in the archive.
DELETE FROM {table} WHERE id IS NOT NULL AND status <> 'completed' AND (:states = 0 OR :states >> {state} & 1)
  AND (id = :ident
       OR (rowid = :number AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = :ident)));

-- part: asked
(:prefix IS NULL OR substr(type, 1, length(:prefix)) = :prefix)
  AND (:older = 0 OR julianday(created_on) <= julianday('now') - :older / 86400000.0)
  AND (:text IS NULL OR instr(type, :text) OR instr(id, :text)
       OR instr(CAST(payload AS TEXT), :text))

-- name: list
SELECT {row} FROM {table} WHERE {wanted} AND {asked} ORDER BY rowid LIMIT :limit;

-- name: list-any
-- Delivered rows come last, since they are in another table.
SELECT {row} FROM {table} WHERE {wanted} AND {asked}
UNION ALL
SELECT {archived} FROM {table_archive} WHERE {wanted-archived} AND {asked}
ORDER BY 1 LIMIT :limit;

-- name: list-newest
SELECT {row} FROM {table} WHERE {wanted} AND rowid < :before AND {asked}
ORDER BY rowid DESC LIMIT :limit;

-- name: list-any-newest
-- Delivered rows come first, since they are in another table and have the higher numbers.
SELECT {row} FROM {table} WHERE {wanted} AND rowid < :before AND {asked}
UNION ALL
SELECT {archived} FROM {table_archive}
WHERE {wanted-archived} AND rowid + 1000000000000 < :before AND {asked}
ORDER BY 1 DESC LIMIT :limit;

-- name: show
-- Rows of the archive have the higher numbers.
SELECT * FROM (
  SELECT {row} FROM {table}
  WHERE id = :ident
     OR (rowid = :number AND id IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM {table_archive} WHERE id = :ident))
  ORDER BY id = :ident DESC LIMIT 1)
UNION ALL
SELECT * FROM (
  SELECT {archived} FROM {table_archive}
  WHERE id = :ident OR rowid = :number - 1000000000000 AND id IS NOT NULL
  ORDER BY id = :ident DESC LIMIT 1)
ORDER BY 1 LIMIT 1;

-- name: count
-- The archive has all delivered rows.  Of these up to :done are counted, and of pending ones up to :most.  The last number has
-- the bit of a state, if there may be more messages of it.
WITH n AS MATERIALIZED (
  SELECT (SELECT count(*) FROM (SELECT 1 FROM {table} WHERE status = 'created' AND id IS NOT NULL LIMIT :most)) AS created,
         (SELECT count(*) FROM (SELECT 1 FROM {table_archive} LIMIT :done)) AS archived)
SELECT n.created,
  (SELECT count(*) FROM {table} WHERE status = 'active' AND id IS NOT NULL),
  n.archived + (SELECT count(*) FROM {table} WHERE status = 'completed'),
  (SELECT count(*) FROM {table} WHERE status = 'failed' AND next_retry_at IS NOT NULL
                                  AND id IS NOT NULL),
  (SELECT count(*) FROM {table} WHERE status = 'failed' AND next_retry_at IS NULL
                                  AND id IS NOT NULL),
  iif(n.created >= :most, 1, 0) + iif(n.archived >= :done, 4, 0)
FROM n;

-- name: ready
SELECT count(*),
       coalesce(max(CAST((julianday('now') - julianday(created_on)) * 86400000.0 + 0.5
                         AS INTEGER)), 0)
FROM {table}
WHERE status = 'failed' AND (next_retry_at <= {now} OR next_retry_at >= ':')
  AND id IS NOT NULL;

-- name: oldest-pending
SELECT coalesce(CAST((julianday('now') - julianday(created_on)) * 86400000.0 + 0.5
                     AS INTEGER), 0)
FROM {table} WHERE status = 'created' AND id IS NOT NULL
ORDER BY next_retry_at, rowid LIMIT 1;
