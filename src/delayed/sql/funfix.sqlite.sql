-- layout: name=funfix columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,!attempts
--
-- The table of the JVM library DelayedQueue (Funfix) on SQLite, as the library makes it.  Wherry adds
-- nothing to it, and the library may work on it at the same time.  See funfix.postgres.sql: TABLE_tries
-- and TABLE_dead are Wherry's own.  A statement of SQLite writes to one table, so a poll needs two
-- statements, and so does a settlement.

-- part: now
(CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) + 0)

-- part: at_now
(coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)) + 0)

-- include: sqlite.times.sql

-- part: dead_fits
-- Condition: the table can store the dead message d again.
d.id < 4611686018427387904

-- name: migrate-1
CREATE TABLE IF NOT EXISTS {table}(
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  "pKey"      TEXT NOT NULL,
  "pKind"     TEXT NOT NULL,
  payload     BLOB NOT NULL,
  "scheduledAt"          INTEGER NOT NULL,
  "scheduledAtInitially" INTEGER NOT NULL,
  "lockUuid"  TEXT,
  "createdAt" INTEGER NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS {table__PKindPKeyUniqueIndex} ON {table}("pKind", "pKey");
CREATE INDEX IF NOT EXISTS {table__KindPlusScheduledAtIndex} ON {table}("pKind", "scheduledAt");
CREATE INDEX IF NOT EXISTS {table__LockUuidPlusIdIndex} ON {table}("lockUuid", id);
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
CREATE TABLE IF NOT EXISTS {table_tries}(
  id         INTEGER PRIMARY KEY,
  version    INTEGER NOT NULL,   -- "createdAt" of the message
  attempts   INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND 1000000000),
  due_at     INTEGER,            -- "scheduledAt" before the last poll
  last_error TEXT
);

-- name: schema-version
SELECT 1, 100
WHERE 8 = (SELECT count(*) FROM pragma_table_info(:name)
           WHERE name IN ('id', 'pKey', 'pKind', 'payload', 'scheduledAt', 'scheduledAtInitially',
                          'lockUuid', 'createdAt')
             AND (name NOT IN ('id', 'scheduledAt', 'scheduledAtInitially', 'createdAt') OR upper(type) LIKE '%INT%'))
  AND NOT EXISTS (SELECT 1 FROM pragma_table_info(:name) WHERE name = 'attempts');

-- name: columns
SELECT name FROM pragma_table_info(:name);

-- name: indexes-missing
-- True also if a table of Wherry's, or an index that begins with these columns, is missing.  An index may have any name.
SELECT (SELECT count(*) FROM (SELECT {name} || s.column1 AS name FROM (
          VALUES ('_dead'), ('_dead_kind'), ('_tries')) AS s) AS t
        WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema AS s WHERE s.name = t.name COLLATE NOCASE))
  + (SELECT count(*) FROM (SELECT column1 AS columns FROM (
       VALUES ('pKind,pKey'), ('pKind,scheduledAt'), ('lockUuid,id')) AS s) AS w
     WHERE NOT EXISTS (
       SELECT 1 FROM pragma_index_list({name}) AS i WHERE i.partial = 0
         AND (SELECT group_concat(c.name) FROM pragma_index_info(i.name) AS c) || ',' LIKE w.columns || ',%'));

-- part: offered
INSERT INTO {table} AS m("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
SELECT :key, :kind, :body, t.due, t.due, {at_now}
FROM (SELECT coalesce(:at, {after_delay}) AS due) AS t WHERE true
ON CONFLICT ("pKind", "pKey")

-- part: replaced
-- An offer that inserts a message sets its version to now; one that replaces a message sets a later
-- version, which shows that it did.  The version always grows
-- (an_acknowledgement_of_a_message_read_before_an_update_in_the_same_millisecond_deletes_nothing).
  payload = excluded.payload, "scheduledAt" = excluded."scheduledAt",
  "scheduledAtInitially" = excluded."scheduledAtInitially", "lockUuid" = NULL,
  "createdAt" = CASE WHEN m."createdAt" < 253402300799999
    THEN max(excluded."createdAt", m."createdAt") ELSE excluded."createdAt" END + 1
WHERE m.payload <> excluded.payload OR m."scheduledAtInitially" <> excluded."scheduledAtInitially"

-- name: offer
-- Returns 0 if the message was created, 1 if it was replaced, and no row if the key has the same
-- message.
{offered} DO UPDATE SET
{replaced}
RETURNING "createdAt" > {at_now};

-- name: offer-absent
{offered} DO NOTHING
RETURNING 0;

-- part: of_tries
-- Attempts of the message that Wherry has recorded.
FROM {table_tries} AS s WHERE s.id = {table}.id AND s.version = {table}."createdAt"

-- part: polled_once
-- Number of polls of a message without a row in TABLE_tries.  A token of a relay, a UUID of version 7, does not
-- count: a relay counts an attempt after it has failed.  Other tokens have version 4.
CASE WHEN {.}"lockUuid" IS NULL THEN {.}"scheduledAt" > {.}"scheduledAtInitially"
     ELSE coalesce(substr({.}"lockUuid", 15, 1), '') <> '7' END

-- part: attempts
coalesce((SELECT s.attempts {of_tries}), {polled_once})

-- part: shown
id, "pKey", "scheduledAtInitially", "scheduledAt", "createdAt",
  coalesce((SELECT s.due_at {of_tries}), "scheduledAtInitially"), {attempts},
  CASE WHEN "scheduledAt" <= {at_now} THEN 0 WHEN "lockUuid" IS NOT NULL THEN 1
       WHEN {attempts} > 0 THEN 3 ELSE 0 END,
  "lockUuid", (SELECT s.last_error {of_tries}), payload

-- part: due
SELECT * FROM {table} WHERE "pKind" = :kind AND "scheduledAt" <= {at_now}
ORDER BY "scheduledAt", id LIMIT :limit

-- part: noted
-- The later of two versions counts.
ON CONFLICT (id) DO UPDATE SET version = excluded.version, due_at = excluded.due_at,
  last_error = CASE WHEN excluded.last_error IS NOT NULL THEN excluded.last_error
                    WHEN {table_tries}.version = excluded.version THEN {table_tries}.last_error END

-- name: note-poll
-- Runs before a poll: a message that was polled or given back before gets a row in TABLE_tries.
INSERT INTO {table_tries}(id, version, attempts, due_at, last_error)
SELECT d.id, d."createdAt", 1 + {polled_once:d}, d."scheduledAt",
  CASE WHEN d."lockUuid" IS NOT NULL THEN 'its lease expired before it was acknowledged' END
FROM ({due}) AS d
WHERE d."lockUuid" IS NOT NULL OR d."scheduledAt" > d."scheduledAtInitially"
  OR EXISTS (SELECT 1 FROM {table_tries} AS o WHERE o.id = d.id AND o.version = d."createdAt")
{noted}, attempts = CASE WHEN {table_tries}.version = excluded.version
                         THEN min({table_tries}.attempts, 999999999) + 1 ELSE excluded.attempts END;

-- name: poll
-- Lease messages; the part "shown" reads the rows that "note-poll" wrote.
UPDATE {table} SET "lockUuid" = :token, "scheduledAt" = {until}
WHERE id IN (SELECT id FROM ({due}))
RETURNING {shown};

-- include: sqlite.settle.sql

-- name: forget-tries
-- Runs after messages were deleted.
DELETE FROM {table_tries} WHERE id IN {ids};

-- name: nack
-- unused: error back
UPDATE {table} SET "scheduledAt" = {after_delay}, "lockUuid" = NULL WHERE {own} RETURNING id;

-- name: note-nack
-- Runs after messages were given back.  :back is the number of recorded attempts that were not made.
INSERT INTO {table_tries}(id, version, attempts, last_error)
SELECT id, "createdAt", 1 - :back, :error FROM {table} WHERE id IN {ids} AND true
{noted}, attempts = CASE WHEN {table_tries}.version = excluded.version
                         THEN max({table_tries}.attempts - :back, 0) ELSE excluded.attempts END;

-- name: extend-lease
UPDATE {table} SET "scheduledAt" = {until} WHERE {own} RETURNING id;

-- name: make-dead
-- Copy the message to the dead ones; "ack" then deletes it, in the same transaction.  The copy replaces a
-- dead message of its id (a_message_that_dies_replaces_a_dead_one_of_its_id).  :back is the number of
-- recorded attempts that were not made.
INSERT OR REPLACE INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                                    died_at, last_error)
SELECT id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", max({attempts} - :back, 0),
  {at_now}, coalesce(:error, (SELECT s.last_error {of_tries}))
FROM {table} WHERE {own} RETURNING id;

-- name: forget-strays
-- Rows of messages that were deleted, the oldest first (rows_of_messages_that_the_library_deleted_go_too).
DELETE FROM {table_tries} WHERE id IN (
  SELECT s.id FROM {table_tries} AS s WHERE NOT EXISTS (SELECT 1 FROM {table} AS m WHERE m.id = s.id)
  ORDER BY s.id LIMIT :limit);

-- name: versions
-- Messages that were not settled, because an offer changed them or other consumers have leased them.
SELECT id, "createdAt" FROM {table} WHERE id IN {ids} AND +"pKind" = :kind;

-- part: matching
-- Keys from :prefix up to :prefix_end, except those from :except up to :except_end.
"pKind" = :kind AND "pKey" >= :prefix AND "pKey" < :prefix_end
  AND NOT ("pKey" >= :except AND "pKey" < :except_end)
  AND (:untouched = 0 OR ("lockUuid" IS NULL AND "scheduledAt" = "scheduledAtInitially"
                          AND "scheduledAt" > :untouched
                          AND NOT EXISTS (SELECT 1 {of_tries})))

-- include: sqlite.keys.sql

-- name: list
SELECT {shown} FROM {table} WHERE {matching} AND "pKey" >= :from ORDER BY "pKey" LIMIT :limit;

-- name: next-due
-- Milliseconds until a message can be polled; 0: now; -1: no message waits or is leased.
SELECT coalesce((SELECT max({at} - {at_now}, 0) FROM {table}
                 WHERE "pKind" = :kind ORDER BY "scheduledAt", id LIMIT 1), -1);

-- include: sqlite.dead.sql

-- include: sqlite.relayed.sql

-- part: in_time
-- Index of rows in the order of their times.  The library's index may have any name.
{table}

-- part: tried_so_far
coalesce((SELECT s.attempts {of_tries}), 0)

-- part: is_new
-- Condition: no relay or consumer has tried the message since it was offered.
"lockUuid" IS NULL AND "scheduledAt" = "scheduledAtInitially" AND NOT EXISTS (SELECT 1 {of_tries})

-- part: is_failed
"lockUuid" IS NULL AND ("scheduledAt" <> "scheduledAtInitially" OR EXISTS (SELECT 1 {of_tries}))

-- part: claims
"lockUuid" = :token, "scheduledAt" = {claimed_until}

-- part: head
-- As in the native layout.
SELECT id, "lockUuid", {is_failed} AS failed, "scheduledAt" FROM {in_time}
WHERE {due_now} ORDER BY "scheduledAt", id LIMIT 300

-- include: sqlite.claims.sql

-- part: first_expired
(SELECT id FROM ({head}) WHERE "lockUuid" IS NOT NULL ORDER BY "scheduledAt", id LIMIT 1)

-- part: kept
-- The last error, if it belongs to the same version.
version = excluded.version, due_at = NULL,
  last_error = CASE WHEN {table_tries}.version = excluded.version THEN {table_tries}.last_error END

-- name: note-expired
-- Runs before "claim-expired", in the same transaction: record the attempt that is about to be made.
INSERT INTO {table_tries}(id, version, attempts)
SELECT m.id, m."createdAt", 1 + {polled_once:m} FROM {table} AS m WHERE m.id = {first_expired}
ON CONFLICT (id) DO UPDATE SET {kept},
  attempts = CASE WHEN {table_tries}.version = excluded.version
                  THEN min({table_tries}.attempts, 999999999) + 1 ELSE excluded.attempts END;

-- name: claim-expired
UPDATE {table} NOT INDEXED SET {claims} WHERE id = {first_expired}
RETURNING id, 1, {tried_so_far} - 1, {relayed};

-- name: reap
UPDATE {table} SET "lockUuid" = NULL,
  "scheduledAt" = CASE WHEN {attempts} > 0 THEN "scheduledAt" ELSE "scheduledAtInitially" END
WHERE "pKind" = {kind} AND "lockUuid" IS NOT NULL
  AND "scheduledAt" <= {now} - min(:timeout, 3153600000000);

-- part: tried
-- :nth is the number of the attempt, so a failure that is written twice counts once.
CASE WHEN :nth > 0 THEN max({tried_so_far}, :nth) ELSE min(max({tried_so_far} + :count, 0), 1000000000) END

-- name: note-fail
-- Runs before "fail", in the same transaction.
INSERT INTO {table_tries}(id, version, attempts, last_error)
SELECT id, "createdAt", {tried}, :error FROM {table} WHERE id = :id AND {named} AND {claimed_by}
ON CONFLICT (id) DO UPDATE SET version = excluded.version, due_at = NULL, attempts = excluded.attempts,
  last_error = excluded.last_error;

-- name: fail
-- unused: count nth error
UPDATE {table} SET "lockUuid" = NULL,
  "scheduledAt" = min({now} + min(:delay, 3153600000000), 253402300799999)
WHERE id = :id AND {named} AND {claimed_by};

-- name: dead-copy
-- Copy a message that the relay gives up to the dead ones; "dead-drop" then deletes it.
INSERT OR REPLACE INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                                    died_at, last_error)
SELECT id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", {tried}, {now}, :error
FROM {table} WHERE id = :id AND {named} AND {claimed_by};

-- name: forget-gone
-- Runs after messages were delivered or have become dead.
DELETE FROM {table_tries} WHERE id IN {ids} AND id NOT IN (SELECT m.id FROM {table} AS m WHERE m.id IN {ids});

-- name: requeue
UPDATE {table} SET "scheduledAt" = "scheduledAtInitially", "lockUuid" = NULL
WHERE id IN {ids} AND {claimed_by} AND {named_in_list};

-- name: try
INSERT INTO {table_tries}(id, version, attempts)
SELECT id, "createdAt", CASE WHEN :nth > 0 THEN max({tried_so_far}, :nth)
                             ELSE min({tried_so_far}, 999999999) + 1 END
FROM {table} WHERE id = :id AND {named} AND {claimed_by}
ON CONFLICT (id) DO UPDATE SET {kept}, attempts = excluded.attempts;
