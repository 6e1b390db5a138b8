-- layout: name=native columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,attempts,updates
--
-- Delayed queues on SQLite.  Times are Unix milliseconds: of the database's clock, or of the
-- caller's, in :now.
--
-- The first eight columns are those of the JVM library DelayedQueue, which can work on the table
-- as well.  "scheduledAtInitially" is the time that was offered.  "scheduledAt" is when the message
-- can be polled next: a poll moves it to the end of the lease.  "lockUuid" is the lease's token,
-- NULL after an offer.  "createdAt" is the version of the message: it grows with each offer that
-- changes the message.

-- include: sqlite.sql
-- include: sqlite.relays.sql

-- part: at_now
-- A sum has no affinity: see the part "now".
(coalesce(:now, (SELECT ms FROM wherry_clock)) + 0)

-- include: sqlite.times.sql

-- part: dead_fits
-- Condition: the table can store the dead message d again.
d.id BETWEEN 1 AND 4611686018427387903 AND typeof(d."pKey") = 'text' AND length(d."pKey") <= 200

-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  "pKey"      TEXT NOT NULL,
  "pKind"     TEXT NOT NULL,
  payload     BLOB NOT NULL,
  "scheduledAt"          INTEGER NOT NULL,
  "scheduledAtInitially" INTEGER NOT NULL,
  "lockUuid"  TEXT,
  "createdAt" INTEGER NOT NULL,
  attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 1000000000),
  updates     INTEGER NOT NULL DEFAULT 0 CHECK (updates BETWEEN 0 AND 1000000000),
  due_at      INTEGER,                      -- "scheduledAt" before the last poll
  last_error  TEXT,
  CHECK (id > 0 AND id < 4611686018427387904), CHECK (typeof("pKey") = 'text' AND length("pKey") <= 200),
  CHECK (length("pKind") <= 100),
  CHECK (typeof("scheduledAt") = 'integer' AND "scheduledAt" BETWEEN 0 AND 253402300799999),
  CHECK (typeof("scheduledAtInitially") = 'integer'
         AND "scheduledAtInitially" BETWEEN 0 AND 253402300799999),
  CHECK (typeof("createdAt") = 'integer' AND "createdAt" BETWEEN 0 AND 253402300799999)
);
CREATE UNIQUE INDEX IF NOT EXISTS {table_key} ON {table}("pKind", "pKey");
CREATE INDEX IF NOT EXISTS {table_time} ON {table}("pKind", "scheduledAt", id);
CREATE TABLE IF NOT EXISTS {table_dead}(
  id          INTEGER PRIMARY KEY,
  "pKey"      TEXT NOT NULL,
  "pKind"     TEXT NOT NULL,
  payload     BLOB NOT NULL,
  "scheduledAtInitially" INTEGER NOT NULL,
  "createdAt" INTEGER NOT NULL,
  attempts    INTEGER NOT NULL,
  died_at     INTEGER NOT NULL,
  last_error  TEXT
);
CREATE INDEX IF NOT EXISTS {table_dead_kind} ON {table_dead}("pKind", id);
INSERT INTO wherry_schema(model, name, version, min_program)
  VALUES ('delayed', {name}, 1, 100) ON CONFLICT DO NOTHING;

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM wherry_schema WHERE model = 'delayed' AND name = :name;

-- name: indexes-missing
SELECT count(*)
FROM (SELECT {name} || s.column1 AS name FROM (
        VALUES ('_key'), ('_time'), ('_dead'), ('_dead_kind')) AS s) AS t
WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.name = t.name COLLATE NOCASE);

-- name: columns
{column_names};

-- name: drop
DROP TABLE {table};
DROP TABLE {table_dead};
{drop_relays_of_parts}
DELETE FROM wherry_schema WHERE model = 'delayed' AND name = {name};

-- name: others-left
SELECT count(*) FROM wherry_schema;

-- name: drop-shared
{drop_own}

-- part: offered
INSERT INTO {table} AS m("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
SELECT :key, :kind, :body, t.due, t.due, {at_now}
FROM (SELECT coalesce(:at, {after_delay}) AS due) AS t WHERE true
ON CONFLICT ("pKind", "pKey")

-- name: offer
-- Returns 0 if the message was created, more if it was replaced, and no row if the key has the same
-- message.  The version always grows
-- (an_acknowledgement_of_a_message_read_before_an_update_in_the_same_millisecond_deletes_nothing).
{offered} DO UPDATE SET
  payload = excluded.payload, "scheduledAt" = excluded."scheduledAt",
  "scheduledAtInitially" = excluded."scheduledAtInitially", "lockUuid" = NULL,
  "createdAt" = CASE WHEN m."createdAt" < 253402300799999
    THEN max(excluded."createdAt", m."createdAt" + 1) ELSE excluded."createdAt" + 1 END,
  attempts = 0, updates = min(m.updates, 999999999) + 1, due_at = NULL, last_error = NULL
WHERE m.payload <> excluded.payload OR m."scheduledAtInitially" <> excluded."scheduledAtInitially"
RETURNING updates;

-- name: offer-absent
{offered} DO NOTHING
RETURNING updates;

-- part: shown
id, "pKey", "scheduledAtInitially", "scheduledAt", "createdAt", due_at, attempts,
  CASE WHEN "scheduledAt" <= {at_now} THEN 0 WHEN "lockUuid" IS NOT NULL THEN 1
       WHEN attempts > 0 THEN 3 ELSE 0 END,
  "lockUuid", last_error, payload

-- part: lease
UPDATE {table} NOT INDEXED SET
  "lockUuid" = :token, due_at = "scheduledAt", "scheduledAt" = {until},
  attempts = min(attempts, 999999999) + 1,
  last_error = CASE WHEN "lockUuid" IS NOT NULL THEN 'its lease expired before it was acknowledged'
                    ELSE last_error END

-- name: poll
-- Lease messages in one statement.  The attempt is counted before it is made.  If a row still has a
-- token, its lease has expired.
{lease}
WHERE id IN (SELECT id FROM {table} INDEXED BY {table_time}
             WHERE "pKind" = :kind AND "scheduledAt" <= {at_now} AND (:most = 0 OR attempts < :most)
             ORDER BY "scheduledAt", id LIMIT :limit)
RETURNING {shown};

-- part: first_due
SELECT id, attempts FROM {table} INDEXED BY {table_time} WHERE "pKind" = :kind AND "scheduledAt" <= {at_now}
ORDER BY "scheduledAt", id LIMIT

-- name: poll-exhausted
-- If the first due message has had all its attempts: the messages among the first :limit that have had theirs.
-- Polls skip them, so they become the first.
{lease}
WHERE (SELECT attempts FROM ({first_due} 1)) >= :most
  AND id IN (SELECT id FROM ({first_due} :limit) WHERE attempts >= :most)
RETURNING id;

-- include: sqlite.settle.sql

-- name: nack
-- :back is the number of recorded attempts that were not made; if there are any, the message has its old place.
UPDATE {table} SET "scheduledAt" = CASE WHEN :back > 0 THEN coalesce(due_at, {at_now}) ELSE {after_delay} END,
  "lockUuid" = NULL, due_at = NULL, attempts = max(attempts - :back, 0),
  last_error = coalesce(:error, last_error)
WHERE {own} RETURNING id;

-- name: extend-lease
UPDATE {table} SET "scheduledAt" = {until} WHERE {own} RETURNING id;

-- name: make-dead
-- Copy the message to the dead ones; "ack" then deletes it, in the same transaction.  The copy replaces a
-- dead message of its id (a_message_that_dies_replaces_a_dead_one_of_its_id).  :back is the number of
-- recorded attempts that were not made.
INSERT OR REPLACE INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                                    died_at, last_error)
SELECT id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", max(attempts - :back, 0),
  {at_now}, coalesce(:error, last_error)
FROM {table} WHERE {own} RETURNING id;

-- name: versions
-- Messages that were not settled, because an offer changed them or other consumers have leased them.
SELECT id, "createdAt" FROM {table} WHERE id IN {ids} AND +"pKind" = :kind;

-- part: matching
-- Keys from :prefix up to :prefix_end, except those from :except up to :except_end.  If :untouched is
-- not 0, only messages that nobody has polled, and that are due after it.
"pKind" = :kind AND "pKey" >= :prefix AND "pKey" < :prefix_end
  AND NOT ("pKey" >= :except AND "pKey" < :except_end)
  AND (:untouched = 0 OR (attempts = 0 AND "lockUuid" IS NULL
                          AND "scheduledAt" = "scheduledAtInitially" AND "scheduledAt" > :untouched))

-- include: sqlite.keys.sql

-- name: list
SELECT {shown} FROM {table} INDEXED BY {table_key} WHERE {matching} AND "pKey" >= :from
ORDER BY "pKey" LIMIT :limit;

-- name: next-due
-- Milliseconds until a message can be polled; 0: now; -1: no message waits or is leased.
SELECT coalesce((SELECT max({at} - {at_now}, 0) FROM {table} INDEXED BY {table_time}
                 WHERE "pKind" = :kind ORDER BY "scheduledAt", id LIMIT 1), -1);

-- include: sqlite.dead.sql

-- include: sqlite.relayed.sql

-- part: in_time
-- Index of rows in the order of their times.
{table} INDEXED BY {table_time}

-- part: tried_so_far
attempts

-- part: is_new
-- Condition: no relay or consumer has tried the message since it was offered.
"lockUuid" IS NULL AND attempts = 0 AND last_error IS NULL

-- part: is_failed
"lockUuid" IS NULL AND (attempts <> 0 OR last_error IS NOT NULL)

-- part: claims
-- If the message is not tried, "scheduledAt" gets the value of due_at back.
"lockUuid" = :token, due_at = "scheduledAt", "scheduledAt" = {claimed_until}

-- part: head
-- The first due rows.  A search for failed or expired rows among all due ones would read a whole backlog
-- each time.  Rows behind the first are claimed when they have become the first, like in a poll
-- (a_failed_message_behind_a_long_backlog_is_delivered_too).
SELECT id, "lockUuid", {is_failed} AS failed, "scheduledAt" FROM {in_time}
WHERE {due_now} ORDER BY "scheduledAt", id LIMIT 300

-- include: sqlite.claims.sql

-- name: claim-expired
UPDATE {table} NOT INDEXED SET {claims}, attempts = min(max(attempts, 0), 999999999) + 1
WHERE id = (SELECT id FROM ({head}) WHERE "lockUuid" IS NOT NULL ORDER BY "scheduledAt", id LIMIT 1)
RETURNING id, 1, attempts - 1, {relayed};

-- name: reap
UPDATE {table} SET "lockUuid" = NULL, due_at = NULL
WHERE "pKind" = {kind} AND "lockUuid" IS NOT NULL
  AND "scheduledAt" <= {now} - min(:timeout, 3153600000000);

-- part: tried
-- :nth is the number of the attempt, so a failure that is written twice counts once.
CASE WHEN :nth > 0 THEN max(attempts, :nth) ELSE min(max(attempts + :count, 0), 1000000000) END

-- name: fail
UPDATE {table} SET attempts = {tried}, "lockUuid" = NULL, due_at = NULL, last_error = :error,
  "scheduledAt" = min({now} + min(:delay, 3153600000000), 253402300799999)
WHERE id = :id AND {named} AND {claimed_by};

-- name: dead-copy
-- Copy a message that the relay gives up to the dead ones; "dead-drop" then deletes it.
INSERT OR REPLACE INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                                    died_at, last_error)
SELECT id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", {tried}, {now}, :error
FROM {table} WHERE id = :id AND {named} AND {claimed_by};

-- name: requeue
UPDATE {table} SET "scheduledAt" = coalesce(due_at, "scheduledAtInitially"), "lockUuid" = NULL, due_at = NULL
WHERE id IN {ids} AND {claimed_by} AND {named_in_list};

-- name: try
UPDATE {table} SET attempts = CASE WHEN :nth > 0 THEN max(attempts, :nth)
                                   ELSE min(max(attempts, 0), 999999999) + 1 END
WHERE id = :id AND {named} AND {claimed_by};
