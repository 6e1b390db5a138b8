-- layout: name=eventferry ordered=yes columns=id,message_id,topic,payload,status,claim_token
--
-- A table like that of eventferry, on SQLite: its rows say what became of each message, and relays compete.  A
-- claim is a token in the row, and its end is in next_retry_at.

-- include: sqlite.sql

-- include: sqlite.relays.sql


-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id     TEXT NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
                   CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) >> 16,
                   CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) & 65535,
                   random() & 4095, 32768 | (random() & 16383), random() & 281474976710655)),
  topic          TEXT NOT NULL,
  aggregate_type TEXT NOT NULL DEFAULT '',
  aggregate_id   TEXT NOT NULL DEFAULT '',
  partition_key  TEXT,
  headers        TEXT NOT NULL DEFAULT '{}',
  trace_id       TEXT,
  status         INTEGER NOT NULL DEFAULT 0
                 CHECK (status = 0 OR status = 1 OR status = 2 OR status = 3 OR status = 4),
  attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 1000000000),
  claimed_at     INTEGER CHECK (claimed_at BETWEEN 0 AND 253402300799999),
  claim_token    TEXT,
  next_retry_at  INTEGER CHECK (next_retry_at BETWEEN 0 AND 253402300799999),
  created_at     INTEGER NOT NULL DEFAULT
                   (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                 CHECK (created_at BETWEEN 0 AND 253402300799999),
  processed_at   INTEGER CHECK (processed_at BETWEEN 0 AND 253402300799999),
  last_error     TEXT,
  payload        TEXT NOT NULL,
  ordering_key   TEXT AS (CASE
    WHEN partition_key <> '' THEN '=' || partition_key
    WHEN aggregate_type <> '' OR aggregate_id <> ''
    THEN length(aggregate_type) || ':' || aggregate_type || aggregate_id END),
  CHECK (id > 0 AND id < 4611686018427387904),
  CHECK (length(message_id) <= 1048576), CHECK (length(topic) <= 1048576),
  CHECK (length(aggregate_type) <= 1048576), CHECK (length(aggregate_id) <= 1048576),
  CHECK (length(partition_key) <= 1048576), CHECK (length(headers) <= 1048576),
  CHECK (length(trace_id) <= 1048576)
);
CREATE UNIQUE INDEX IF NOT EXISTS {table_message_id} ON {table}(message_id);
CREATE INDEX IF NOT EXISTS {table_open} ON {table}(status)
  WHERE status = 0 OR status = 1 OR status = 3;
CREATE INDEX IF NOT EXISTS {table_done} ON {table}(processed_at, status) WHERE status = 2;
CREATE INDEX IF NOT EXISTS {table_dead} ON {table}(id) WHERE status = 4;
CREATE INDEX IF NOT EXISTS {table_busy} ON {table}(ordering_key, id)
  WHERE status = 1 OR status = 3 OR claim_token IS NOT NULL AND status = 0;
CREATE INDEX IF NOT EXISTS {table_due} ON {table}(status,
  {due})
  WHERE status = 1 OR status = 3;
INSERT INTO wherry_outbox(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- name: schema-version
SELECT 1, 100 WHERE EXISTS (SELECT 1 FROM pragma_table_info(:name) WHERE name = 'claim_token');

-- name: columns
{column_names};

-- name: enqueue
-- A message id that exists changes no row and leaves the transaction intact
-- (a_duplicate_message_id_leaves_the_transaction_intact).  RETURNING would cost half as
-- much again: SQLite collects the returned rows in a temporary table.
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, partition_key,
                    headers, trace_id, payload)
VALUES (:message_id, :topic, :aggregate_type, :aggregate_id, :key, :headers, :trace_id,
        :payload)
ON CONFLICT (message_id) DO NOTHING;

-- part: busy
-- Condition of the index of rows that may hold others back.
(b.status = 1 OR b.status = 3 OR b.claim_token IS NOT NULL AND b.status = 0)

-- part: held_back
-- A row of its key holds c back: it is under a live claim, or it is before c and has failed, or was retried or
-- requeued while c is not pending.
SELECT 1 FROM {table} AS b INDEXED BY {table_busy}
WHERE {busy} AND b.ordering_key = c.ordering_key AND b.id <> c.id
  AND (b.status = 1 AND {due:b} > (SELECT ms FROM wherry_clock)
       OR b.id < c.id AND (b.status = 3 OR b.status = 0 AND c.status <> 0 OR

-- part: free
(:unordered OR c.ordering_key IS NULL OR NOT EXISTS ({held_back} b.status = 1))))

-- part: free_expired
-- With :share rows that expired with c are claimed with it.
(:unordered OR c.ordering_key IS NULL OR NOT EXISTS (
  {held_back} b.status = 1 AND (NOT :share OR b.claim_token IS NOT c.claim_token)))))

-- name: claim-end
-- Range of one claim: the last of the first pending rows, and their number.
SELECT coalesce(max(id), 0), count(*) FROM (
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 0 AND id > :after ORDER BY id LIMIT :scan);

-- name: claim
-- Claim pending rows between two ids, those of one key together.  A key is left out if one of its rows
-- is being tried, or if an earlier one failed, was retried or was skipped by a claim before this one
-- (two_claims_never_hold_messages_of_one_key).
UPDATE {table} NOT INDEXED SET status = 1, claim_token = :token,
  claimed_at = (SELECT ms FROM wherry_clock),
  next_retry_at = (SELECT ms FROM wherry_clock) + :lasts
WHERE id IN (
  SELECT c.id FROM {table} AS c INDEXED BY {table_open}
  WHERE c.status = 0 AND c.id > :after AND c.id <= :upto
    AND (:unordered OR c.ordering_key IS NULL
         OR c.ordering_key NOT IN (
           SELECT p.ordering_key FROM {table} AS p INDEXED BY {table_open}
           WHERE p.status = 0 AND p.id <= :after AND p.ordering_key IS NOT NULL))
    AND {free}
  ORDER BY c.id LIMIT :limit)
RETURNING id, 0, attempts, created_at, 0, message_id, topic, aggregate_type,
  aggregate_id, partition_key, headers, trace_id, payload;

-- name: claim-due
-- Claim failed rows that are due, each the first of its key.
UPDATE {table} NOT INDEXED SET status = 1, claim_token = :token,
  claimed_at = (SELECT ms FROM wherry_clock),
  next_retry_at = (SELECT ms FROM wherry_clock) + :lasts
WHERE id IN (
  SELECT c.id FROM {table} AS c INDEXED BY {table_due}
  WHERE c.status = 3 AND {due:c} <= {now}
    AND {free}
  ORDER BY {due:c} LIMIT :limit)
RETURNING id, 0, attempts, created_at, 0, message_id, topic, aggregate_type,
  aggregate_id, partition_key, headers, trace_id, payload;

-- name: expired
-- The claim that expired first, among rows that nothing holds back, and the number of rows that expired
-- with it.
SELECT claim_token, (
  SELECT count(*) FROM {table} AS d INDEXED BY {table_due}
  WHERE d.status = 1 AND {due:d} <= {now}
    AND d.claim_token = f.claim_token)
FROM (
  SELECT c.claim_token FROM {table} AS c INDEXED BY {table_due}
  WHERE c.status = 1 AND {due:c} <= {now}
    AND {free_expired}
  ORDER BY {due:c} LIMIT 1) AS f;

-- name: claim-share
-- Claim some of the rows that expired together, in id order.  No attempt is recorded, since only one of
-- them can have crashed the relay, if any did (what_expires_again_is_shared_out_smaller).
UPDATE {table} NOT INDEXED SET status = 1, claim_token = :token,
  claimed_at = (SELECT ms FROM wherry_clock),
  next_retry_at = (SELECT ms FROM wherry_clock) + :lasts
WHERE id IN (
  SELECT c.id FROM {table} AS c INDEXED BY {table_due}
  WHERE c.status = 1 AND {due:c} <= {now}
    AND c.claim_token = :of AND {free_expired}
  ORDER BY c.id LIMIT :limit)
RETURNING id, 0, attempts, created_at, 0, message_id, topic, aggregate_type,
  aggregate_id, partition_key, headers, trace_id, payload;

-- name: claim-expired
-- Claim one row whose claim has expired, to be tried alone.  The attempt is recorded before it is made, so
-- that a message that crashes its relay runs out of attempts.  The row is the first of its key, and no
-- row of the key is under a live claim.
UPDATE {table} NOT INDEXED SET status = 1, claim_token = :token,
  attempts = max(0, min(attempts, 999999999)) + 1,
  claimed_at = (SELECT ms FROM wherry_clock),
  next_retry_at = (SELECT ms FROM wherry_clock) + :lasts
WHERE id = (
  SELECT c.id FROM {table} AS c INDEXED BY {table_due}
  WHERE c.status = 1 AND {due:c} <= {now}
    AND {free_expired}
  ORDER BY {due:c} LIMIT 1)
RETURNING id, 1, attempts - 1, created_at, 0, message_id, topic,
  aggregate_type, aggregate_id, partition_key, headers, trace_id, payload;

-- name: claim-next
-- Milliseconds until the first claim expires, and until the first failed row is due.
SELECT (SELECT {due:c} - (SELECT ms FROM wherry_clock)
        FROM {table} AS c INDEXED BY {table_due} WHERE c.status = 1
        ORDER BY {due:c} LIMIT 1),
       (SELECT {due:c} - (SELECT ms FROM wherry_clock)
        FROM {table} AS c INDEXED BY {table_due} WHERE c.status = 3
        ORDER BY {due:c} LIMIT 1);

-- name: extend
-- An expired claim is not extended.
UPDATE {table} NOT INDEXED SET next_retry_at = (SELECT ms FROM wherry_clock) + :lasts
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 1 AND claim_token = :token
  AND next_retry_at > (SELECT ms FROM wherry_clock);

-- name: read-ids
-- Rows that were left behind a failed message of their key, or gaps.
SELECT id, status, attempts, created_at,
       max(0, {due} - (SELECT ms FROM wherry_clock)),
       message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       payload
FROM {table} NOT INDEXED
WHERE id IN (SELECT value FROM json_each(:ids)) AND (status = 0 OR status = 1 OR status = 3)
ORDER BY id;

-- name: open-upto
-- Whether a row is open up to this id.
SELECT count(*) FROM (
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 0 AND id <= :upto
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 1 AND id <= :upto
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 3 AND id <= :upto
  LIMIT 1);

-- name: last-open
SELECT max(coalesce((SELECT id FROM {table} INDEXED BY {table_open}
                     WHERE status = 0 ORDER BY id DESC LIMIT 1), 0),
           coalesce((SELECT id FROM {table} INDEXED BY {table_open}
                     WHERE status = 1 ORDER BY id DESC LIMIT 1), 0),
           coalesce((SELECT id FROM {table} INDEXED BY {table_open}
                     WHERE status = 3 ORDER BY id DESC LIMIT 1), 0));

-- part: this
-- Condition: the row is this message, and not another that has its id now.
(:message_id IS NULL OR CAST(message_id AS TEXT) = :message_id)

-- name: done-mark
-- With OR FAIL SQLite does not copy each changed page to a temporary file in order to undo the statement
-- alone.  The statement runs in a transaction, which is undone as a whole
-- (when_one_of_many_cannot_be_marked_none_is).
UPDATE OR FAIL {table} NOT INDEXED SET status = 2, processed_at = (SELECT ms FROM wherry_clock)
WHERE id IN (SELECT value FROM json_each(:ids)) AND (status = 0 OR status = 1 OR status = 3)
  AND (:token IS NULL OR claim_token = :token);

-- name: fail
-- If the number of the attempt is known, it is set and not increased: a transaction whose answer was
-- lost is written again (a_lost_answer_counts_no_attempt_twice).  An operator may have set the number
-- to 0 meanwhile.  A number that the table's constraint refuses becomes one that it accepts.
UPDATE {table} NOT INDEXED SET
  status = CASE WHEN :dead THEN 4 ELSE 3 END,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  ELSE max(0, min(attempts, 999999999)) + :count END,
  next_retry_at = CASE WHEN :dead THEN NULL ELSE (SELECT ms FROM wherry_clock)
                                             + min(:delay, 3153600000000) END,
  last_error = :error
WHERE id = :id AND (status = 0 OR status = 1 OR status = 3) AND {this}
  AND (:token IS NULL OR claim_token = :token);

-- name: requeue
-- The empty token marks the row, as in "retry-dead".
UPDATE {table} NOT INDEXED SET status = 0, next_retry_at = NULL, claimed_at = NULL,
  claim_token = ''
WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN (1, 3)
  AND (:token IS NULL OR claim_token = :token);

-- name: try
-- The attempt of a suspect is recorded before it is delivered, so that a message that crashes its relay
-- runs out of attempts (a_message_that_kills_its_relay_ends_dead).
UPDATE {table} NOT INDEXED SET status = 1,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  ELSE max(0, min(attempts, 999999999)) + 1 END,
  claimed_at = (SELECT ms FROM wherry_clock), claim_token = :token,
  next_retry_at = CASE WHEN status = 1 THEN next_retry_at END
WHERE id = :id AND (status = 0 OR status = 1 OR status = 3) AND {this}
  AND claim_token = :token;

-- name: reap
-- Live claims that were extended are left out (reaping_leaves_claims_that_live).
UPDATE {table} NOT INDEXED SET status = 0, claimed_at = NULL, claim_token = '',
  next_retry_at = NULL
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_open} WHERE status = 1)
  AND status = 1
  AND coalesce(claimed_at, 0) <= (SELECT ms FROM wherry_clock) - :timeout
  AND {due} <= (SELECT ms FROM wherry_clock);

-- part: old_rows
{table} INDEXED BY {table_done} WHERE status = 2 AND processed_at <= (SELECT ms FROM wherry_clock) - :age

-- name: purge
DELETE FROM {table} WHERE id IN (SELECT id FROM {old_rows} LIMIT :limit);

-- name: purge-count
SELECT count(*) FROM {old_rows};

-- name: retry-dead
-- A token that no relay has makes claims of later rows of the key wait for this row.
UPDATE {table} SET status = 0, attempts = 0, next_retry_at = NULL, claimed_at = NULL,
  claim_token = ''
WHERE id IN (SELECT id FROM {table} NOT INDEXED WHERE id IN (
  SELECT id FROM {table} INDEXED BY {table_dead} WHERE status = 4 AND (:states & 16)
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 3 AND (:states & 8))
  AND (:ident IS NULL OR message_id = :ident
       OR (id = :number AND NOT EXISTS (SELECT 1 FROM {table} WHERE message_id = :ident)))
  AND (:topic IS NULL OR topic = :topic)
  AND (:key IS NULL OR coalesce(nullif(partition_key, ''), aggregate_id) = :key)
  AND (:since = 0 OR created_at >= (SELECT ms FROM wherry_clock) - :since)
  AND id > :after
  ORDER BY id LIMIT :limit);

-- name: discard
-- Delivered rows are not deleted.  A relay that has the message in flight finds no row to acknowledge.
DELETE FROM {table} WHERE (status = 0 OR status = 1 OR status = 3 OR status = 4) AND (:states = 0 OR :states >> status & 1)
  AND id IN (SELECT id FROM {table} WHERE message_id = :ident
             UNION ALL
             SELECT id FROM {table} WHERE id = :number
               AND NOT EXISTS (SELECT 1 FROM {table} WHERE message_id = :ident));

-- name: count
SELECT
  (SELECT count(*) FROM {table} INDEXED BY {table_open} WHERE status = 0),
  (SELECT count(*) FROM {table} INDEXED BY {table_open} WHERE status = 1),
  (SELECT count(*) FROM {table} INDEXED BY {table_done} WHERE status = 2),
  (SELECT count(*) FROM {table} INDEXED BY {table_open} WHERE status = 3),
  (SELECT count(*) FROM {table} INDEXED BY {table_dead} WHERE status = 4);

-- name: ready
-- Number of failed rows that are due, and the age of the oldest message that may be delivered now.
SELECT count(*), coalesce(max((SELECT ms FROM wherry_clock) - created_at), 0)
FROM {table} INDEXED BY {table_open}
WHERE status = 3 AND next_retry_at <= (SELECT ms FROM wherry_clock);

-- part: waiting_behind
-- Condition: a failed message of the key of c is before c, and not due yet.
EXISTS (
  SELECT 1 FROM {table} AS b INDEXED BY {table_busy}
  WHERE {busy} AND b.ordering_key = c.ordering_key AND b.id < c.id
    AND b.status = 3 AND {due:b} > {now})

-- name: oldest-pending
-- The oldest message that nothing holds, among the first 10,000; if all of these are held, the next one.
-- It is almost always the first.
SELECT (SELECT ms FROM wherry_clock) - created_at
FROM {table} AS c INDEXED BY {table_open}
WHERE c.status = 0
  AND (NOT {waiting_behind}
       OR c.id >= coalesce((SELECT id FROM {table} INDEXED BY {table_open}
                            WHERE status = 0 ORDER BY id LIMIT 1 OFFSET 10000),
                           9223372036854775807))
ORDER BY c.id LIMIT 1;

-- part: listed
SELECT id, status, attempts, created_at, claimed_at, next_retry_at, processed_at,
       message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       payload, last_error, 0, 0

-- part: identified
(:ident IS NULL OR message_id = :ident
 OR (id = :number AND NOT EXISTS (SELECT 1 FROM {table} WHERE message_id = :ident)))

-- part: asked
(:topic IS NULL OR topic = :topic)
  AND (:prefix IS NULL OR substr(topic, 1, length(:prefix)) = :prefix)
  AND (:key IS NULL OR coalesce(nullif(partition_key, ''), aggregate_id) = :key)
  AND (:since = 0 OR created_at >= (SELECT ms FROM wherry_clock) - :since)
  AND (:older = 0 OR created_at <= (SELECT ms FROM wherry_clock) - :older)
  AND (:text IS NULL OR instr(topic, :text) OR instr(message_id, :text)
       OR instr(coalesce(partition_key, ''), :text) OR instr(coalesce(aggregate_id, ''), :text)
       OR instr(coalesce(last_error, ''), :text) OR instr(CAST(payload AS TEXT), :text))

-- name: list
-- Rows of states other than done, each state by its own index, so that dead letters are found at once in
-- a large table.
{listed}
FROM {table} NOT INDEXED
WHERE id IN (
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 0 AND (:states & 1) AND id > :after
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 1 AND (:states & 2) AND id > :after
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 3 AND (:states & 8) AND id > :after
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_dead}
  WHERE status = 4 AND (:states & 16) AND id > :after)
  AND {identified}
  AND {asked}
ORDER BY id LIMIT :limit;

-- name: list-any
{listed}
FROM {table} NOT INDEXED
WHERE id > :after AND (:states >> status & 1)
  AND {identified}
  AND {asked}
ORDER BY id LIMIT :limit;

-- name: list-newest
-- Like "list", from the highest id down.
{listed}
FROM {table} NOT INDEXED
WHERE id IN (
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 0 AND (:states & 1) AND id < :before
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 1 AND (:states & 2) AND id < :before
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_open}
  WHERE status = 3 AND (:states & 8) AND id < :before
  UNION ALL
  SELECT id FROM {table} INDEXED BY {table_dead}
  WHERE status = 4 AND (:states & 16) AND id < :before)
  AND {identified}
  AND {asked}
ORDER BY id DESC LIMIT :limit;

-- name: list-any-newest
{listed}
FROM {table} NOT INDEXED
WHERE id < :before AND (:states >> status & 1)
  AND {identified}
  AND {asked}
ORDER BY id DESC LIMIT :limit;

-- name: show
{listed} FROM {table} WHERE {identified} LIMIT 1;
