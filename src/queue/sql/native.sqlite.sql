-- layout: name=native columns=id,message_id,body,state,available_at,lease_token
--
-- The native queue on SQLite.  Times are Unix milliseconds.  SQLite has one writer at a time: ids
-- appear in commit order, and nothing is ever locked by another receiver.
--
-- state: 0 ready, 1 leased, 3 waiting (delayed, or to be retried), 4 dead.  available_at is NULL
-- while a message is ready; the end of the lease while it is leased; when it is due while it waits.
-- Acknowledged messages are deleted.  Each state has a separate index, and a row is in one.

-- include: sqlite.sql
-- include: sqlite.relays.sql

-- part: until
{now} + min(:lasts, 3153600000000)

-- part: after_delay
{now} + min(:delay, 3153600000000)

-- part: ids
(SELECT value FROM json_each(:ids))

-- part: timed
(state = 1 OR state = 3)

-- part: index_ready
CREATE INDEX IF NOT EXISTS {table_ready} ON {table}(id) WHERE state = 0;

-- part: index_timed
CREATE INDEX IF NOT EXISTS {table_timed} ON {table}(available_at) WHERE {timed};

-- part: index_dead
CREATE INDEX IF NOT EXISTS {table_dead} ON {table}(id) WHERE state = 4;

-- part: index_expires
CREATE INDEX IF NOT EXISTS {table_expires} ON {table}(expires_at) WHERE expires_at IS NOT NULL AND state <> 4;

-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS wherry_subscription(
  topic TEXT NOT NULL,
  queue TEXT NOT NULL COLLATE NOCASE,
  PRIMARY KEY (topic, queue)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {table}(
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id     TEXT NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
                   CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) >> 16,
                   CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) & 65535,
                   random() & 4095, 32768 | (random() & 16383), random() & 281474976710655)),
  topic          TEXT,               -- it was published to; NULL: it was sent to this queue
  correlation_id TEXT,
  reply_to       TEXT,
  headers        TEXT NOT NULL DEFAULT '{}',
  state          INTEGER NOT NULL DEFAULT 0
                 CHECK (state = 0 OR state = 1 OR state = 3 OR state = 4),
  attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 1000000000),
  max_attempts   INTEGER CHECK (max_attempts > 0),  -- it dies after so many; NULL: the receiver says how many
  available_at   INTEGER CHECK (available_at BETWEEN 0 AND 253402300799999),
  expires_at     INTEGER CHECK (expires_at BETWEEN 0 AND 253402300799999),
  lease_token    TEXT,
  created_at     INTEGER NOT NULL DEFAULT
                   (CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER))
                 CHECK (created_at BETWEEN 0 AND 253402300799999),
  last_error     TEXT,
  body           TEXT NOT NULL,
  CHECK (id > 0 AND id < 4611686018427387904),
  CHECK (length(message_id) <= 1048576), CHECK (length(topic) <= 1048576),
  CHECK (length(correlation_id) <= 1048576), CHECK (length(reply_to) <= 1048576),
  CHECK (length(headers) <= 1048576),
  CHECK (CASE WHEN state = 0 THEN available_at IS NULL ELSE state = 4 OR available_at IS NOT NULL END),
  CHECK (state <> 1 OR lease_token IS NOT NULL)
);
{index_ready}
{index_timed}
{index_dead}
{index_expires}
INSERT INTO wherry_schema(model, name, version, min_program)
  VALUES ('queue', {name}, 1, 100) ON CONFLICT DO NOTHING;

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM wherry_schema WHERE model = 'queue' AND name = :name;

-- name: indexes-missing
SELECT count(*)
FROM (SELECT {name} || s.column1 AS name FROM (
        VALUES ('_ready'), ('_timed'), ('_dead'), ('_expires')) AS s) AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type = 'index' AND s.name = t.name COLLATE NOCASE);

-- name: columns
{column_names};

-- name: drop
DROP TABLE {table};
DELETE FROM wherry_subscription WHERE queue = {name};
{drop_relays}
DELETE FROM wherry_schema WHERE model = 'queue' AND name = {name};

-- name: others-left
SELECT count(*) FROM wherry_schema;

-- name: drop-shared
{drop_own}

-- name: send
-- A message expires :expires milliseconds after it is due.
INSERT INTO {table}(message_id, topic, correlation_id, reply_to, headers, body, state,
                    available_at, expires_at)
VALUES (:message_id, :topic, :correlation_id, :reply_to, :headers, :body,
  CASE WHEN :delay > 0 THEN 3 ELSE 0 END,
  CASE WHEN :delay > 0 THEN {after_delay} END,
  CASE WHEN :ttl > 0 THEN {after_delay} + min(:ttl, 3153600000000) END);

-- name: cancel
-- Delete a message that nobody has received.
DELETE FROM {table} WHERE id = :id AND (state = 0 OR state = 3);

-- part: these
-- Rows that a receive takes: ready rows above an id, and due rows.  With :full = 1 due rows come first, with 2 last.
-- SQLite runs the parts of UNION ALL in their order (messages_given_back_and_ready_ones_take_turns).  An ORDER BY
-- instead would cost seven times as much, since it makes two more temporary tables.
id IN (
  SELECT id FROM (
    SELECT id FROM {table} INDEXED BY {table_timed}
    WHERE :full = 1 AND {timed} AND available_at <= {now} ORDER BY available_at LIMIT :limit)
  UNION ALL
  SELECT id FROM (
    SELECT id FROM {table} INDEXED BY {table_ready}
    WHERE state = 0 AND id > :after ORDER BY id LIMIT :limit)
  UNION ALL
  SELECT id FROM (
    SELECT id FROM {table} INDEXED BY {table_timed}
    WHERE :full = 2 AND {timed} AND available_at <= {now} ORDER BY available_at LIMIT :limit)
  LIMIT :limit)

-- part: too_long
-- Condition: the body is longer than the limit.  For a blob, SQLite reads only its length in the row.
(typeof(body) IN ('blob', 'text') AND length(body) > 67108864)

-- part: fields
id, state, attempts, created_at, available_at, expires_at,
  expires_at IS NOT NULL AND expires_at <= {now},
  message_id, topic, correlation_id, reply_to, headers, last_error

-- part: shown
{fields}, body

-- part: dies
-- Condition: the body is too long, or the message has had all its attempts.  The receiver sets the number, or else the
-- last receiver or the sender did.
({too_long} OR coalesce(attempts > 0 AND attempts >= CASE WHEN :most > 0 THEN :most ELSE max_attempts END, 0))

-- name: receive
-- Lease messages.  The attempt is counted before it is made.  A message that has had all its attempts becomes dead,
-- since it may have crashed its receivers.  The row keeps the maximum, so that giving the message back can make it dead.
UPDATE {table} NOT INDEXED SET
  state = CASE WHEN {dies} THEN 4 ELSE 1 END,
  last_error = CASE WHEN {too_long} THEN 'the body is over its limit of 67108864 bytes'
                    WHEN state = 1 THEN 'its lease expired before it was acknowledged' ELSE last_error END,
  attempts = CASE WHEN {dies} THEN attempts ELSE min(max(attempts, 0), 999999999) + 1 END,
  max_attempts = CASE WHEN :most > 0 THEN :most ELSE max_attempts END,
  lease_token = CASE WHEN NOT {dies} THEN :token END,
  available_at = CASE WHEN NOT {dies} THEN {until} END
WHERE {these}
RETURNING {fields}, CASE WHEN NOT {too_long} THEN body END, 0;

-- name: take
-- Delete messages and return them, in the open transaction or in a separate one.
DELETE FROM {table} NOT INDEXED WHERE {these} RETURNING {shown}, 0;

-- name: make-dead
-- Insert a message that was deleted and cannot be handled again, as dead.  Its values are cut to those that
-- the table's constraints allow, since a row may have been written while they were not enforced.
INSERT INTO {table}(id, message_id, topic, correlation_id, reply_to, headers, body, state,
                    attempts, created_at, last_error)
VALUES (:id, substr(:message_id, 1, 1048576), substr(:topic, 1, 1048576), substr(:correlation_id, 1, 1048576),
  substr(:reply_to, 1, 1048576), substr(:headers, 1, 1048576), :body, 4,
  min(max(:attempts, 0), 1000000000), min(max(:created, 0), 253402300799999), :error);

-- part: own
id IN {ids} AND lease_token = :token AND state = 1

-- name: ack
DELETE FROM {table} WHERE {own};

-- part: spent
-- Condition: this was the last attempt.
coalesce(max(attempts - :back, 0) >= max_attempts, 0)

-- name: nack
-- A message that is given back waits for its delay, or is due at once.  Receives alternate between due and ready
-- messages, so messages that fail keep no others waiting (a_message_given_back_at_once_keeps_no_other_waiting).  If the
-- attempt is not counted, the message is ready in its old place.  After its last attempt it becomes dead
-- (a_message_given_back_after_its_last_attempt_is_dead).
UPDATE {table} SET
  state = CASE WHEN {spent} THEN 4 WHEN :delay > 0 OR :back = 0 THEN 3 ELSE 0 END,
  available_at = CASE WHEN (:delay > 0 OR :back = 0) AND NOT {spent} THEN {after_delay} END,
  attempts = max(attempts - :back, 0),
  lease_token = NULL, last_error = coalesce(:error, last_error,
    CASE WHEN {spent} THEN 'it was given back after its last attempt' END)
WHERE {own};

-- name: extend
UPDATE {table} SET available_at = {until} WHERE {own};

-- name: dead-letter
UPDATE {table} SET state = 4, lease_token = NULL, available_at = NULL, last_error = :error
WHERE {own};

-- part: over
{table} INDEXED BY {table_expires} WHERE expires_at IS NOT NULL AND state <> 4 AND expires_at <= {now}

-- name: expire
-- Delete messages that have expired, but no leased ones except those of the token in :token.
DELETE FROM {table} WHERE id IN (
  SELECT id FROM {over}
    AND (state <> 1 OR available_at <= {now} OR lease_token = :token)
  ORDER BY expires_at LIMIT :limit);

-- name: peek
SELECT {shown} FROM {table}
WHERE id > :after AND (:states >> state) & 1 ORDER BY id LIMIT :limit;

-- name: show
SELECT {shown} FROM {table} WHERE id = :id;

-- name: count
-- Count ready, leased, waiting and dead messages, read the age of the oldest ready one, and count the
-- expired ones.  An expired message has its state until a receiver deletes it.
SELECT (SELECT count(*) FROM {table} INDEXED BY {table_ready} WHERE state = 0),
       (SELECT count(*) FROM {table} INDEXED BY {table_timed} WHERE {timed} AND state = 1),
       (SELECT count(*) FROM {table} INDEXED BY {table_timed} WHERE {timed} AND state = 3),
       (SELECT count(*) FROM {table} INDEXED BY {table_dead} WHERE state = 4),
       coalesce((SELECT {now} - created_at FROM {table} INDEXED BY {table_ready}
                 WHERE state = 0 ORDER BY id LIMIT 1), 0),
       (SELECT count(*) FROM {over} AND (state <> 1 OR available_at <= {now}));

-- name: estimate
-- Count the ready rows, since SQLite has no statistics.
SELECT count(*) FROM {table} INDEXED BY {table_ready} WHERE state = 0;

-- name: next-due
-- Milliseconds until a message can be received; 0: now; -1: no message waits or is leased.
SELECT coalesce((SELECT 0 FROM {table} INDEXED BY {table_ready} WHERE state = 0 ORDER BY id LIMIT 1),
                (SELECT max(available_at - {now}, 0) FROM {table} INDEXED BY {table_timed}
                 WHERE {timed} ORDER BY available_at LIMIT 1), -1);

-- name: inspect
-- Faults of the table, each with the SQL that repairs it.
SELECT 'the index ' || t.name || ' is missing', rtrim(t.sql, char(10))
FROM (SELECT {name} || '_ready' AS name, {'index_ready} AS sql
      UNION ALL SELECT {name} || '_timed', {'index_timed}
      UNION ALL SELECT {name} || '_dead', {'index_dead}
      UNION ALL SELECT {name} || '_expires', {'index_expires}) AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s
                  WHERE s.type = 'index' AND s.name = t.name COLLATE NOCASE);

-- name: retry-dead
-- Make dead messages ready again, in the order of their ids.
UPDATE {table} SET state = 0, attempts = 0, lease_token = NULL, available_at = NULL
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_dead}
             WHERE state = 4 AND (:id = 0 OR id = :id) ORDER BY id LIMIT :limit);

-- name: discard
-- Delete a message of any state.  A receiver that has leased it cannot acknowledge it afterwards.
DELETE FROM {table} WHERE id = :id;

-- name: purge-states
DELETE FROM {table} WHERE id IN (
  SELECT id FROM {table} WHERE state <> 1 AND (:states >> state) & 1 ORDER BY id LIMIT :limit);

-- part: relayed
-- Columns of a claimed row, in the form that the store reads.
created_at, 0, message_id, coalesce(topic, {name}), '', '', NULL, headers, NULL, body

-- part: lives
-- Condition: the message has not expired.
(expires_at IS NULL OR expires_at > {now})

-- part: claims
state = 1, lease_token = :token, available_at = {until}

-- part: is_due
{timed} AND available_at <= {now}

-- name: claim-end
-- Rows have no keys, so a claim skips none and begins with the first row.
SELECT 0, count(*) FROM (SELECT 1 FROM {table} INDEXED BY {table_ready} WHERE state = 0 LIMIT 1);

-- name: claim
UPDATE {table} NOT INDEXED SET {claims}
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_ready}
             WHERE state = 0 AND {lives} ORDER BY id LIMIT :limit)
RETURNING id, 0, attempts, {relayed};

-- name: claim-due
UPDATE {table} NOT INDEXED SET {claims}
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_timed}
             WHERE {is_due} AND state = 3 AND {lives} ORDER BY available_at LIMIT :limit)
RETURNING id, 0, attempts, {relayed};

-- name: expired
SELECT lease_token, count(*) FROM {table} INDEXED BY {table_timed}
WHERE {is_due} AND state = 1 AND {lives}
GROUP BY lease_token ORDER BY min(available_at) LIMIT 1;

-- name: claim-share
UPDATE {table} NOT INDEXED SET {claims}
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_timed}
             WHERE {is_due} AND state = 1 AND lease_token = :of AND {lives} ORDER BY id LIMIT :limit)
RETURNING id, 0, attempts, {relayed};

-- name: claim-expired
UPDATE {table} NOT INDEXED SET {claims}, attempts = min(max(attempts, 0), 999999999) + 1
WHERE id = (SELECT id FROM {table} INDEXED BY {table_timed}
            WHERE {is_due} AND state = 1 AND {lives} ORDER BY available_at LIMIT 1)
RETURNING id, 1, attempts - 1, {relayed};

-- name: claim-next
SELECT (SELECT available_at - {now} FROM {table} INDEXED BY {table_timed}
        WHERE {timed} AND state = 1 AND {lives} ORDER BY available_at LIMIT 1),
       (SELECT available_at - {now} FROM {table} INDEXED BY {table_timed}
        WHERE {timed} AND state = 3 AND {lives} ORDER BY available_at LIMIT 1);

-- name: read-ids
SELECT id, state, attempts, {relayed} FROM {table} WHERE id IN {ids} AND state <> 4 ORDER BY id;

-- name: last-open
SELECT max(
  coalesce((SELECT id FROM {table} INDEXED BY {table_ready}
            WHERE state = 0 AND {lives} ORDER BY id DESC LIMIT 1), 0),
  coalesce((SELECT max(id) FROM {table} INDEXED BY {table_timed} WHERE {timed} AND {lives}), 0));

-- name: open-upto
-- Delayed messages are open too.
SELECT count(*) FROM (
  SELECT 1 FROM (SELECT 1 FROM {table} INDEXED BY {table_ready}
                 WHERE state = 0 AND id <= :upto AND {lives} LIMIT 1)
  UNION ALL
  SELECT 1 FROM (SELECT 1 FROM {table} INDEXED BY {table_timed}
                 WHERE {timed} AND id <= :upto AND {lives} LIMIT 1));

-- name: reap
UPDATE {table} SET state = 0, lease_token = NULL, available_at = NULL
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_timed}
             WHERE {timed} AND state = 1 AND available_at <= {now} - min(:timeout, 3153600000000));

-- name: done-delete
DELETE FROM {table} WHERE {own};

-- name: fail
-- :nth is the number of the attempt, so a failure that is written twice counts once.
UPDATE {table} SET
  state = CASE WHEN :dead THEN 4 ELSE 3 END,
  attempts = CASE WHEN :nth > 0 THEN max(attempts, :nth)
                  ELSE min(max(attempts + :count, 0), 1000000000) END,
  available_at = CASE WHEN NOT :dead THEN {after_delay} END,
  lease_token = NULL, last_error = :error
WHERE id = :id AND (:message_id IS NULL OR message_id = :message_id)
  AND lease_token = :token AND state = 1;

-- name: requeue
UPDATE {table} SET state = 0, lease_token = NULL, available_at = NULL WHERE {own};

-- name: try
UPDATE {table} SET attempts = CASE WHEN :nth > 0 THEN max(attempts, :nth)
                                   ELSE min(max(attempts, 0), 999999999) + 1 END
WHERE id = :id AND (:message_id IS NULL OR message_id = :message_id)
  AND lease_token = :token AND state = 1;
