-- layout: name=native names=qualified columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,attempts,updates message_ids=json
--
-- Delayed queues on SQL Server.  Times are Unix milliseconds: of the database's clock, or of the
-- caller's, in :now.
--
-- The first eight columns are those of the JVM library DelayedQueue, which can work on the table
-- as well.  "scheduledAtInitially" is the time that was offered.  "scheduledAt" is when the message
-- can be polled next: a poll moves it to the end of the lease.  "lockUuid" is the lease's token,
-- NULL after an offer.  "createdAt" is the version of the message: it grows with each offer that
-- changes the message.
--
-- SQL Server ignores blanks at the end of a text when it compares, whatever the collation.  Two
-- texts that are equal to it and have the same length are the same, so the unique index has the
-- length too (keys_compare_byte_for_byte).
--
-- Locks.  A row has an entry in three indexes: the primary key, which is the table, NAME_key and
-- NAME_time.  A statement that found a row by NAME_key or NAME_time would hold the lock of that entry
-- while it waits for the row, and a statement that deletes the row holds the row and waits for the
-- entry: a deadlock.  So every statement that writes first finds ids, by reads that hold no lock while
-- they wait, and then locks rows by the primary key, several in ascending order.
-- docs/internals/odbc.md has a table of the statements that wait for each other.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.report.sql

-- include: mssql.relays.sql

-- include: mssql.ms.sql

-- include: mssql.dead_table.sql

-- part: no_key
-- Condition: there is no index on kind and key.
NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS i
  JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
  WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.key_ordinal = 2 AND c.name = N'pKey')

-- part: no_time
NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS i
  JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
  WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.key_ordinal = 2 AND c.name = N'scheduledAt')

-- part: this_key
"pKind" = @kind AND "pKey" = @key AND key_bytes = DATALENGTH(@key)

-- part: key
{.}"pKey"

-- part: key_bytes
{.}key_bytes

-- part: same_key
t."pKey" = {.}"pKey" AND t.key_bytes = DATALENGTH({.}"pKey")

-- part: equal_key
{same_key:.}

-- part: key_fits
-- Every key fits into the column,

-- part: keys_fit

-- part: dead_fits
-- Condition: the table can store the dead message d again.  Its key column has the same width.
1 = 1

-- part: refuse_equal
-- and only the same key is equal to it, so no offer is refused.

-- part: refuse_equals

-- part: due_columns
l.id

-- part: untried
{.}attempts = 0

-- part: with_tries
-- This table has a column of attempts.

-- part: with_free_tries

-- part: replaced
-- Columns that an offer changes in the message of its key, in addition to body and time.
"lockUuid" = NULL, "createdAt" = {new_version}, attempts = 0,
  updates = CASE WHEN t.updates < 1000000000 THEN t.updates + 1 ELSE t.updates END, due_at = NULL, last_error = NULL

-- part: not_exhausted
-- A poll skips messages that have had all their attempts (@most; 0: any number).
  AND (@most IS NULL OR @most <= 0 OR l.attempts < @most)

-- include: mssql.offer.sql

-- include: mssql.offer_many.sql

-- part: leased_table
-- Lease messages.  The attempt is counted before it is made.  If a row still has a token, its lease has
-- expired.  The condition on the row is for servers without READPAST, which wait instead: the row may
-- have been leased meanwhile.
DECLARE @leased TABLE(id BIGINT NOT NULL, "key" NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
                      offered BIGINT NOT NULL, at BIGINT NOT NULL, version BIGINT NOT NULL, due BIGINT NOT NULL,
                      attempts INT NOT NULL, token VARCHAR(36) NOT NULL, error NVARCHAR(500) NULL,
                      body VARBINARY(MAX) NOT NULL);

-- part: lease
UPDATE t SET "lockUuid" = @token, due_at = t."scheduledAt", "scheduledAt" = @later,
  attempts = CASE WHEN t.attempts < 1000000000 THEN t.attempts + 1 ELSE t.attempts END,
  last_error = CASE WHEN t."lockUuid" IS NOT NULL THEN N'its lease expired before it was acknowledged'
                    ELSE t.last_error END
OUTPUT inserted.id, inserted."pKey", inserted."scheduledAtInitially", inserted."scheduledAt", inserted."createdAt",
  inserted.due_at, inserted.attempts, inserted."lockUuid", inserted.last_error, inserted.payload INTO @leased

-- part: leased
{leased_table}
{lease}
FROM ({due}) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t."pKind" = @kind AND t."scheduledAt" <= @now AND (@most IS NULL OR @most <= 0 OR t.attempts < @most)
OPTION (LOOP JOIN, FORCE ORDER);

-- include: mssql.procedures.sql

-- name: migrate-1
{own_tables}
IF OBJECT_ID(N{'table}, N'U') IS NULL
  CREATE TABLE {table}(
    id          BIGINT IDENTITY(1, 1) NOT NULL CHECK (id > 0),
    "pKey"      NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
    "pKind"     NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,
    payload     VARBINARY(MAX) NOT NULL,
    "scheduledAt"          BIGINT NOT NULL CHECK ("scheduledAt" BETWEEN 0 AND 253402300799999),
    "scheduledAtInitially" BIGINT NOT NULL CHECK ("scheduledAtInitially" BETWEEN 0 AND 253402300799999),
    "lockUuid"  VARCHAR(36) COLLATE Latin1_General_BIN2 NULL,
    "createdAt" BIGINT NOT NULL CHECK ("createdAt" BETWEEN 0 AND 253402300799999),
    attempts    INT NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 1000000000),  -- polls since the message was offered
    updates     INT NOT NULL DEFAULT 0 CHECK (updates BETWEEN 0 AND 1000000000),   -- offers that replaced it
    due_at      BIGINT NULL,         -- "scheduledAt" before the last poll
    last_error  NVARCHAR(500) NULL,
    key_bytes   AS DATALENGTH("pKey") PERSISTED NOT NULL,
    PRIMARY KEY CLUSTERED (id)
  );
IF {no_key}
  CREATE UNIQUE INDEX {bare_key} ON {table}("pKind", "pKey", key_bytes);
IF {no_time}
  CREATE INDEX {bare_time} ON {table}("pKind", "scheduledAt", id);
{dead_table}
{stub_procedures}
{make_procedures}
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'delayed' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'delayed', N{name}, 1, 100);

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'delayed' AND name = :name;

-- name: columns
{column_names};

-- name: indexes-missing
-- If a procedure is missing or of another version, the table needs to be made again.
SELECT {procedures_stale} + CASE WHEN {no_key} THEN 1 ELSE 0 END + CASE WHEN {no_time} THEN 1 ELSE 0 END
  + CASE WHEN {no_dead_kind} THEN 1 ELSE 0 END;

-- name: drop
DROP TABLE {table};
DROP TABLE {table_dead};
DELETE FROM {wherry_schema} WHERE model = N'delayed' AND name = N{name};
{drop_relays_of_parts}
{drop_procedures}

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- part: shown
t.id, t."pKey", t."scheduledAtInitially", t."scheduledAt", t."createdAt", t.due_at, t.attempts,
  CASE WHEN t."scheduledAt" <= @now THEN 0 WHEN t."lockUuid" IS NOT NULL THEN 1
       WHEN t.attempts > 0 THEN 3 ELSE 0 END,
  t."lockUuid", t.last_error, t.payload

-- name: poll
{for_kind}
{for_now}
DECLARE @limit BIGINT = :limit, @token VARCHAR(36) = :token, @span BIGINT = :lasts, @most INT = :most;
{later}
{leased}
SELECT id, "key", offered, at, version, due, attempts, CASE WHEN at <= @now THEN 0 ELSE 1 END, token, error, body
FROM @leased ORDER BY due, id;

-- part: leased_exhausted
{lease}
FROM ({exhausted}) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t."pKind" = @kind AND t."scheduledAt" <= @now AND t.attempts >= @most
OPTION (LOOP JOIN, FORCE ORDER);

-- name: poll-exhausted
-- If the first due message has had all its attempts: the messages among the first 1,000 that have had theirs.
-- Polls skip them, so they become the first.
{for_kind}
{for_now}
DECLARE @limit BIGINT = :limit, @token VARCHAR(36) = :token, @span BIGINT = :lasts, @most INT = :most;
{later}
{leased_table}
IF {first_exhausted}
{leased_exhausted}
SELECT id FROM @leased;

-- include: mssql.keys.sql

-- name: ack
{settled}
DELETE t OUTPUT deleted.id INTO @settled
{own};
SELECT id FROM @settled;

-- name: ack-read
-- A message that was read, unless an offer has changed it.
{settled}
DELETE t OUTPUT deleted.id INTO @settled FROM {table} AS t WITH (ROWLOCK)
WHERE t.id = :id AND t."createdAt" = :version AND t."scheduledAtInitially" = :offered AND t."pKind" = :kind;
SELECT id FROM @settled;

-- name: nack
-- :back is the number of recorded attempts that were not made; if there are any, the message has its old place.
{for_now}
DECLARE @span BIGINT = :delay, @back INT = :back;
{later}
{settled}
UPDATE t SET "scheduledAt" = CASE WHEN @back > 0 THEN COALESCE(t.due_at, @later) ELSE @later END, "lockUuid" = NULL, due_at = NULL,
  attempts = CASE WHEN t.attempts > @back THEN t.attempts - @back ELSE 0 END,
  last_error = COALESCE(CAST(:error AS NVARCHAR(500)), t.last_error)
OUTPUT inserted.id INTO @settled
{own};
SELECT id FROM @settled;

-- name: make-dead
-- Copy the message to the dead ones; "ack" then deletes it, in the same transaction.  UPDLOCK locks the
-- row for that.  :back is the number of recorded attempts that were not made.
{for_now}
DECLARE @back INT = :back;
{settled}
{replace_dead}
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                         died_at, last_error)
OUTPUT inserted.id INTO @settled
SELECT t.id, t."pKey", t."pKind", t.payload, t."scheduledAtInitially", t."createdAt",
  CASE WHEN t.attempts > @back THEN t.attempts - @back ELSE 0 END, @now, COALESCE(CAST(:error AS NVARCHAR(500)), t.last_error)
FROM {ids} AS i JOIN {table} AS t WITH (UPDLOCK, ROWLOCK, FORCESEEK) ON t.id = i.id
WHERE t."lockUuid" = CAST(:token AS VARCHAR(36)) AND t."pKind" = :kind
OPTION (LOOP JOIN, FORCE ORDER);
SELECT id FROM @settled;

-- include: mssql.dead.sql

-- include: mssql.relayed.sql

-- part: is_new
-- Condition: no relay or consumer has tried the message since it was offered.
{.}"lockUuid" IS NULL AND {.}attempts = 0 AND {.}last_error IS NULL

-- part: is_failed
{.}"lockUuid" IS NULL AND ({.}attempts <> 0 OR {.}last_error IS NOT NULL)

-- part: tried_so_far
{.}attempts

-- part: picked_columns
l.id

-- part: claims
-- Columns of the rows d.  If the message is not tried, "scheduledAt" gets the value of due_at back.
DECLARE @got TABLE(id BIGINT NOT NULL PRIMARY KEY);
UPDATE t SET "lockUuid" = CAST(:token AS VARCHAR(36)), due_at = t."scheduledAt", "scheduledAt" = @later

-- part: pick
{claims}
OUTPUT inserted.id INTO @got
FROM (

-- part: picked
-- The condition on the row is for servers without READPAST, which wait instead.
) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE {relayed:t} AND t."scheduledAt" <= @now

-- part: claimed
-- Return the rows that were claimed, in the order in which they can be polled.
SELECT t.id, 0, t.attempts, t."createdAt", 0,
  {texts}
FROM @got AS g JOIN {table} AS t ON t.id = g.id ORDER BY t.due_at, t.id

-- part: lock_row
-- Other transactions wait for the lock of the row in the primary key.
INDEX(1), FORCESEEK

-- part: whole_row

-- include: mssql.claims.sql

-- name: claim-expired
{for_claims}
{claims}, attempts = CASE WHEN t.attempts < 0 THEN 1 WHEN t.attempts < 999999999 THEN t.attempts + 1 ELSE 1000000000 END
OUTPUT inserted.id INTO @got
FROM ({first_expired} {picked} AND t."lockUuid" IS NOT NULL
{loop};
SELECT t.id, 1, t.attempts - 1, t."createdAt", 0,
  {texts}
FROM @got AS g JOIN {table} AS t ON t.id = g.id;

-- name: done-delete
{given};
DELETE t
{listed};

-- name: reap
-- NOCOUNT: only the rows that are returned count.
DECLARE @until BIGINT = {clock} - CASE WHEN :timeout < 3153600000000 THEN :timeout ELSE 3153600000000 END;
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @ids SELECT id FROM {table} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
WHERE {relayed} AND "lockUuid" IS NOT NULL AND "scheduledAt" <= @until;
SET NOCOUNT OFF;
UPDATE t SET "lockUuid" = NULL, due_at = NULL
FROM @ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id
WHERE {relayed:t} AND t."lockUuid" IS NOT NULL AND t."scheduledAt" <= @until
{loop};

-- part: tried
-- :nth is the number of the attempt, so a failure that is written twice counts once.
CASE WHEN :nth > 0 THEN CASE WHEN attempts > :nth THEN attempts ELSE :nth END
     WHEN attempts + :count < 0 THEN 0
     WHEN attempts + :count > 1000000000 THEN 1000000000 ELSE attempts + :count END

-- name: fail
DECLARE @now BIGINT = {clock}, @span BIGINT = :delay;
{later}
UPDATE {table} SET attempts = {tried}, "lockUuid" = NULL, due_at = NULL, last_error = CAST(:error AS NVARCHAR(500)),
  "scheduledAt" = @later
WHERE {named};

-- name: dead-copy
-- Copy a message that the relay gives up to the dead ones; "dead-drop" then deletes it.  UPDLOCK locks
-- the row for that.
SET NOCOUNT ON;
DELETE d FROM (SELECT id FROM {table} WITH (UPDLOCK, ROWLOCK) WHERE {named}) AS t {of_dead} t.id
OPTION (LOOP JOIN, FORCE ORDER);
SET NOCOUNT OFF;
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                         died_at, last_error)
SELECT id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", {tried}, {clock}, CAST(:error AS NVARCHAR(500))
FROM {table} WITH (UPDLOCK, ROWLOCK) WHERE {named};

-- name: dead-drop
DELETE FROM {table} WHERE {named};

-- name: requeue
{given};
UPDATE t SET "scheduledAt" = COALESCE(t.due_at, t."scheduledAtInitially"), "lockUuid" = NULL, due_at = NULL
{listed};

-- name: try
UPDATE {table} SET attempts = CASE WHEN :nth <= 0 THEN CASE WHEN attempts < 0 THEN 1 WHEN attempts < 999999999 THEN attempts + 1
                                                              ELSE 1000000000 END
                                   WHEN attempts > :nth THEN attempts ELSE :nth END
WHERE {named};
