--
-- The tables of the JVM library DelayedQueue on SQL Server.  The file of each layout makes and recognises its
-- table, and says how it stores times and bodies.  See funfix.postgres.sql: TABLE_tries and TABLE_dead are
-- Wherry's own.
--
-- Keys.  In the table's collation two keys may be equal that differ in case, in accents or in blanks at the
-- end, and its unique index can store only one of them.  Statements find a key by that index and then compare
-- its bytes.  An offer of a key that the index has for another key is refused, since it would replace the
-- message of that key (an_offer_of_a_key_that_the_table_takes_for_another_is_refused).
--
-- Locks are those of the head of native.mssql.sql: statements find ids first, and lock rows by the primary key.
-- They write a row of TABLE_tries under the lock of its message, in the same transaction.

-- include: mssql.dead_table.sql

-- part: tries_table
IF OBJECT_ID(N{'table_tries}, N'U') IS NULL
  CREATE TABLE {table_tries}(
    id         BIGINT NOT NULL PRIMARY KEY CLUSTERED,
    version    BIGINT NOT NULL,     -- "createdAt" of the message
    attempts   INT NOT NULL CHECK (attempts BETWEEN 0 AND 1000000000),
    due_at     BIGINT NULL,         -- "scheduledAt" before the last poll
    last_error NVARCHAR(500) NULL
  );

-- part: same_bytes
-- Texts that are equal for SQL Server and have the same length are identical.
"pKey" COLLATE Latin1_General_BIN2 = @key AND DATALENGTH("pKey") = DATALENGTH(@key)

-- part: this_key
"pKind" = @kind AND "pKey" = @key AND {same_bytes}

-- part: key
{.}"pKey" COLLATE Latin1_General_BIN2

-- part: key_bytes
DATALENGTH({.}"pKey")

-- part: equal_key
-- Equal by the table's collation, whatever that of the other column is.
t."pKey" = CAST(CAST({.}"pKey" AS VARBINARY(800)) AS NVARCHAR(400))

-- part: same_key
{equal_key:.}
  AND t."pKey" COLLATE Latin1_General_BIN2 = {.}"pKey" AND DATALENGTH(t."pKey") = DATALENGTH({.}"pKey")

-- part: key_fits
-- The column has 200 units of UTF-16, which are fewer characters if some take two units.
IF DATALENGTH(@key) > 400
  THROW 51207, N'the key has more than 200 units of UTF-16, for which the table has no room', 1;

-- part: keys_fit
IF EXISTS (SELECT 1 FROM @given WHERE DATALENGTH("pKey") > 400)
  THROW 51207, N'a key has more than 200 units of UTF-16, for which the table has no room', 1;

-- part: dead_fits
-- Condition: the table can store the dead message d again.  LEN counts units of UTF-16, but no blanks at the end.
LEN(d."pKey" + N'.') <= 201

-- part: refuse_equal
IF EXISTS (SELECT 1 FROM {table} WITH (READCOMMITTEDLOCK)
           WHERE "pKind" = @kind AND "pKey" = @key AND NOT ({same_bytes}))
  THROW 51206, N'the collation of the table takes the key for that of another message, from which it differs in case, accents or blanks at the end: choose another key', 1;

-- part: refuse_equals
IF EXISTS (SELECT 1 FROM @given AS g
           JOIN {table} AS t WITH (READCOMMITTEDLOCK) ON t."pKind" = @kind AND {equal_key:g}
           WHERE g.made IS NULL AND NOT ({same_key:g}))
  THROW 51206, N'the collation of the table takes a key for that of another message, from which it differs in case, accents or blanks at the end: choose another key', 1;

-- part: of_tries
-- Attempts of a message that Wherry has recorded.
FROM {table_tries} AS s WHERE s.id = {.}id AND s.version = {version_ms:.}

-- part: untried
NOT EXISTS (SELECT 1 {of_tries:.})

-- part: with_tries
LEFT JOIN {table_tries} AS s ON s.id = t.id AND s.version = {version_ms:t}

-- part: with_free_tries
LEFT JOIN {table_tries} AS s WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) ON s.id = t.id AND s.version = {version_ms:t}

-- part: polled_once
-- Number of polls of a message without a row in TABLE_tries, 1 or 0.  A token of a relay, a UUID of
-- version 7, does not count: a relay counts an attempt after it has failed.  Other tokens have version 4.
CASE WHEN {.}"lockUuid" IS NULL THEN CASE WHEN {.}"scheduledAt" > {.}"scheduledAtInitially" THEN 1 ELSE 0 END
     WHEN SUBSTRING({.}"lockUuid", 15, 1) = '7' THEN 0 ELSE 1 END

-- part: replaced
-- Columns that an offer changes in the message of its key, in addition to body and time.
"lockUuid" = NULL, "createdAt" = {new_version}

-- part: due_columns
l.id, {scheduled_ms:l} AS due, {version_ms:l} AS version,
  CASE WHEN l."lockUuid" IS NOT NULL THEN 1 ELSE 0 END AS expired,
  CASE WHEN l."lockUuid" IS NOT NULL OR l."scheduledAt" > l."scheduledAtInitially" THEN 1 ELSE 0 END AS polled,
  {polled_once:l} AS attempts

-- part: not_exhausted
-- The statement returns no attempts: poll.c examines the rows that it got.

-- include: mssql.offer.sql

-- part: no_index
-- Condition: there is no index with these first two columns.  It may have any name.
NOT EXISTS (SELECT 1 FROM sys.index_columns AS x
            JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
            JOIN sys.index_columns AS y ON y.object_id = x.object_id AND y.index_id = x.index_id AND y.key_ordinal = 2
            JOIN sys.columns AS d ON d.object_id = y.object_id AND d.column_id = y.column_id
            WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.key_ordinal = 1 AND CONCAT(c.name, N',', d.name) =

-- part: no_key
-- Condition: there is no unique index of the keys.
NOT EXISTS (SELECT 1 FROM sys.indexes AS n
            JOIN sys.index_columns AS x ON x.object_id = n.object_id AND x.index_id = n.index_id AND x.key_ordinal = 1
            JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
            JOIN sys.index_columns AS y ON y.object_id = x.object_id AND y.index_id = x.index_id AND y.key_ordinal = 2
            JOIN sys.columns AS d ON d.object_id = y.object_id AND d.column_id = y.column_id
            WHERE n.object_id = OBJECT_ID(N{'table}, N'U') AND n.is_unique = 1
              AND CONCAT(c.name, N',', d.name) IN (N'pKind,pKey', N'pKey,pKind'))

-- name: migrate-1
-- The library's migration leaves an existing table unchanged, so a missing index is made here.
IF OBJECT_ID(N{'table}, N'U') IS NULL
  {library_table}
ELSE IF NOT ({is_the_librarys})
  THROW 51208, N'the columns of the table have other types than the library gives them: choose another name', 1;
IF {no_key}
  {key_index}
{id_index}
IF {no_index} N'pKind,scheduledAt')
  CREATE INDEX {bare__KindPlusScheduledAtIndex} ON {table}("pKind", "scheduledAt");
IF {no_index} N'lockUuid,id')
  CREATE INDEX {bare__LockUuidPlusIdIndex} ON {table}("lockUuid", id);
{dead_table}
{tries_table}

-- name: schema-version
SELECT 1, 100
WHERE {is_the_librarys}
  AND NOT EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N{'table}, N'U') AND name = N'attempts');

-- name: columns
{column_names};

-- name: indexes-missing
-- True also if a table of Wherry's is missing.
SELECT CASE WHEN {no_key} THEN 1 ELSE 0 END + CASE WHEN {no_id} THEN 1 ELSE 0 END
  + CASE WHEN {no_index} N'pKind,scheduledAt') THEN 1 ELSE 0 END
  + CASE WHEN {no_index} N'lockUuid,id') THEN 1 ELSE 0 END
  + CASE WHEN {no_dead_kind} THEN 1 ELSE 0 END
  + CASE WHEN OBJECT_ID(N{'table_tries}, N'U') IS NULL THEN 1 ELSE 0 END;

-- part: tried
COALESCE(s.attempts, {polled_once:t})

-- part: shown
t.id, t."pKey", {offered_ms:t}, {scheduled_ms:t}, {version_ms:t}, s.due_at, {tried},
  CASE WHEN t."scheduledAt" <= {at_now} THEN 0 WHEN t."lockUuid" IS NOT NULL THEN 1
       WHEN {tried} > 0 THEN 3 ELSE 0 END,
  t."lockUuid", s.last_error, t.payload

-- part: begin
-- A failure rolls back all statements, except perhaps if a table is missing, so both tables are read before.
SET XACT_ABORT ON;
DECLARE @there INT = (SELECT COUNT(*) FROM {table} AS t JOIN {table_tries} AS s ON s.id = t.id WHERE t.id = 0);
BEGIN TRANSACTION;

-- name: poll
-- Lease messages.  A message that was polled or given back before gets a row in TABLE_tries; for other messages the
-- statement writes only to the library's table.  The conditions of the update are for servers without UPDLOCK.
{for_kind}
{for_now}
DECLARE @limit BIGINT = :limit, @token VARCHAR(36) = :token, @span BIGINT = :lasts;
{later}
DECLARE @due TABLE(id BIGINT NOT NULL PRIMARY KEY, due BIGINT NOT NULL, version BIGINT NOT NULL, expired BIT NOT NULL,
                   polled BIT NOT NULL, attempts INT NOT NULL);
DECLARE @leased TABLE(id BIGINT NOT NULL PRIMARY KEY, "key" NVARCHAR(400) NOT NULL, offered BIGINT NOT NULL,
                      version BIGINT NOT NULL, body {body_type} NOT NULL, attempts INT NULL, error NVARCHAR(500) NULL);
{begin}
INSERT INTO @due(id, due, version, expired, polled, attempts)
{due}
OPTION (LOOP JOIN, FORCE ORDER);
UPDATE t SET "lockUuid" = @token, "scheduledAt" = {at_later}
OUTPUT inserted.id, inserted."pKey", {offered_ms:inserted}, {version_ms:inserted}, inserted.payload
  INTO @leased(id, "key", offered, version, body)
FROM @due AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE {scheduled_ms:t} = d.due AND {version_ms:t} = d.version
OPTION (LOOP JOIN, FORCE ORDER);
DELETE d FROM @due AS d WHERE NOT EXISTS (SELECT 1 FROM @leased AS l WHERE l.id = d.id);
UPDATE s SET version = d.version, due_at = d.due,
  attempts = CASE WHEN s.version <> d.version THEN d.attempts + 1
                  WHEN s.attempts < 1000000000 THEN s.attempts + 1 ELSE s.attempts END,
  last_error = CASE WHEN d.expired = 1 THEN N'its lease expired before it was acknowledged'
                    WHEN s.version = d.version THEN s.last_error END
FROM @due AS d JOIN {table_tries} AS s {by_seek} ON s.id = d.id
WHERE d.polled = 1 OR s.version = d.version
OPTION (LOOP JOIN, FORCE ORDER);
INSERT INTO {table_tries}(id, version, attempts, due_at, last_error)
SELECT d.id, d.version, d.attempts + 1, d.due,
  CASE WHEN d.expired = 1 THEN N'its lease expired before it was acknowledged' END
FROM @due AS d
WHERE d.polled = 1 AND NOT EXISTS (SELECT 1 FROM {table_tries} AS s WHERE s.id = d.id);
UPDATE l SET attempts = s.attempts, error = s.last_error
FROM @leased AS l JOIN {table_tries} AS s ON s.id = l.id AND s.version = l.version;
COMMIT TRANSACTION;
SELECT l.id, l."key", l.offered, @later, l.version, d.due, COALESCE(l.attempts, 1),
  CASE WHEN @later <= @now THEN 0 ELSE 1 END, @token, l.error, l.body
FROM @leased AS l JOIN @due AS d ON d.id = l.id ORDER BY d.due, d.id;

-- include: mssql.keys.sql

-- part: gone
-- Messages that are deleted, and the recorded attempts of them.
DECLARE @gone TABLE(id BIGINT NOT NULL PRIMARY KEY);
{begin}
DELETE t OUTPUT deleted.id INTO @gone

-- part: forgotten
DELETE s FROM @gone AS g JOIN {table_tries} AS s {by_seek} ON s.id = g.id
OPTION (LOOP JOIN, FORCE ORDER);
COMMIT TRANSACTION;
SELECT id FROM @gone

-- name: ack
{gone}
{own};
{forgotten};

-- name: ack-read
-- A message that was read, unless an offer has changed it.
{gone}
FROM {table} AS t WITH (ROWLOCK) WHERE t.id = :id AND {version_ms:t} = :version
  AND {offered_ms:t} = :offered AND t."pKind" = :kind;
{forgotten};

-- name: nack
{for_now}
DECLARE @span BIGINT = :delay, @unmade INT = :back, @error NVARCHAR(500) = :error;
{later}
DECLARE @back TABLE(id BIGINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL);
{begin}
UPDATE t SET "scheduledAt" = {at_later}, "lockUuid" = NULL
OUTPUT inserted.id, {version_ms:inserted} INTO @back
{own};
UPDATE s SET version = b.version, due_at = NULL,
  attempts = CASE WHEN s.version <> b.version THEN 1 - @unmade WHEN s.attempts > @unmade THEN s.attempts - @unmade ELSE 0 END,
  last_error = CASE WHEN @error IS NOT NULL THEN @error WHEN s.version = b.version THEN s.last_error END
FROM @back AS b JOIN {table_tries} AS s {by_seek} ON s.id = b.id
OPTION (LOOP JOIN, FORCE ORDER);
INSERT INTO {table_tries}(id, version, attempts, last_error)
SELECT b.id, b.version, 1 - @unmade, @error FROM @back AS b
WHERE NOT EXISTS (SELECT 1 FROM {table_tries} AS s WHERE s.id = b.id);
COMMIT TRANSACTION;
SELECT id FROM @back;

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
SELECT t.id, t."pKey", t."pKind", t.payload, {offered_ms:t}, {version_ms:t},
  CASE WHEN {tried} > @back THEN {tried} - @back ELSE 0 END, @now, COALESCE(CAST(:error AS NVARCHAR(500)), s.last_error)
FROM {ids} AS i JOIN {table} AS t WITH (UPDLOCK, ROWLOCK, FORCESEEK) ON t.id = i.id {with_tries}
WHERE t."lockUuid" = CAST(:token AS VARCHAR(36)) AND t."pKind" = :kind
OPTION (LOOP JOIN, FORCE ORDER);
SELECT id FROM @settled;

-- name: forget-strays
-- Rows of messages that were deleted, the oldest first (rows_of_messages_that_the_library_deleted_go_too).
-- Reads without locks find them, and a second read waits until the message is certainly deleted.  It
-- locks nothing meanwhile, since a transaction that deletes a message has the message's lock and waits for
-- the lock of this row.
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO @ids
SELECT TOP (:limit) s.id FROM {table_tries} AS s WITH (NOLOCK)
WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WITH (NOLOCK) WHERE t.id = s.id) ORDER BY s.id;
DELETE i FROM @ids AS i WHERE EXISTS (SELECT 1 FROM {table} AS t WITH (READCOMMITTEDLOCK) WHERE t.id = i.id);
DELETE s FROM @ids AS i JOIN {table_tries} AS s {by_seek} ON s.id = i.id
OPTION (LOOP JOIN, FORCE ORDER);

-- include: mssql.dead.sql

-- include: mssql.relayed.sql

-- part: is_new
-- Condition: no relay or consumer has tried the message since it was offered.
{.}"lockUuid" IS NULL AND {.}"scheduledAt" = {.}"scheduledAtInitially" AND {untried:.}

-- part: is_failed
{.}"lockUuid" IS NULL AND ({.}"scheduledAt" <> {.}"scheduledAtInitially" OR EXISTS (SELECT 1 {of_tries:.}))

-- part: tried_so_far
COALESCE((SELECT s.attempts {of_tries:.}), 0)

-- part: picked_columns
l.id, {scheduled_ms:l} AS due, {version_ms:l} AS version, {polled_once:l} AS attempts

-- part: pick
-- Runs in a transaction, like all statements of relays.
DECLARE @picked TABLE(id BIGINT NOT NULL PRIMARY KEY, due BIGINT NOT NULL, version BIGINT NOT NULL, attempts INT NOT NULL);
DECLARE @got TABLE(id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO @picked(id, due, version, attempts)

-- part: picked
-- A second statement, since the row cannot store the time that the claim replaces.  The conditions are for
-- servers without UPDLOCK.
OPTION (LOOP JOIN, FORCE ORDER);
UPDATE t SET "lockUuid" = CAST(:token AS VARCHAR(36)), "scheduledAt" = {at_later}
OUTPUT inserted.id INTO @got
FROM @picked AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE {relayed:t} AND {scheduled_ms:t} = d.due AND {version_ms:t} = d.version

-- part: claimed
-- Return the rows that were claimed, in the order in which they can be polled.
SELECT t.id, 0, {tried_so_far:t}, {version_ms:t}, 0,
  {texts}
FROM @got AS g JOIN @picked AS d ON d.id = g.id JOIN {table} AS t ON t.id = g.id ORDER BY d.due, t.id

-- include: mssql.claims.sql

-- part: noted
-- Write the attempts of message @id, in the transaction that has its lock.
UPDATE {table_tries} SET version = @version, due_at = NULL, attempts = @tried, last_error = @error WHERE id = @id;
IF @@ROWCOUNT = 0
  INSERT INTO {table_tries}(id, version, attempts, last_error) VALUES (@id, @version, @tried, @error);

-- name: claim-expired
{for_claims}
DECLARE @id BIGINT, @version BIGINT, @tried INT, @error NVARCHAR(500);
{pick}
{first_expired}
{picked} AND t."lockUuid" IS NOT NULL
{loop};
SELECT @id = d.id, @version = d.version, @tried = COALESCE(s.attempts, d.attempts), @error = s.last_error
FROM @got AS g JOIN @picked AS d ON d.id = g.id
LEFT JOIN {table_tries} AS s ON s.id = d.id AND s.version = d.version;
SET @tried = CASE WHEN @tried < 1000000000 THEN @tried + 1 ELSE @tried END;
IF @id IS NOT NULL
BEGIN
  {noted}
END;
SELECT t.id, 1, @tried - 1, {version_ms:t}, 0,
  {texts}
FROM @got AS g JOIN {table} AS t ON t.id = g.id;

-- name: done-delete
-- NOCOUNT: only the rows of messages count.
DECLARE @gone TABLE(id BIGINT NOT NULL PRIMARY KEY);
{given};
DELETE t OUTPUT deleted.id INTO @gone
{listed};
SET NOCOUNT ON;
DELETE s FROM @gone AS g JOIN {table_tries} AS s {by_seek} ON s.id = g.id
{loop};
SET NOCOUNT OFF;

-- name: reap
-- NOCOUNT: only the rows that are returned count.
DECLARE @until BIGINT = {clock} - CASE WHEN :timeout < 3153600000000 THEN :timeout ELSE 3153600000000 END;
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @ids SELECT m.id FROM {table} AS m WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
WHERE {relayed:m} AND m."lockUuid" IS NOT NULL AND m."scheduledAt" <= {at_until};
SET NOCOUNT OFF;
UPDATE t SET "lockUuid" = NULL,
  "scheduledAt" = CASE WHEN COALESCE((SELECT s.attempts {of_tries:t}), {polled_once:t}) > 0
                       THEN t."scheduledAt" ELSE t."scheduledAtInitially" END
FROM @ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id
WHERE {relayed:t} AND t."lockUuid" IS NOT NULL AND t."scheduledAt" <= {at_until}
{loop};

-- part: look_at_it
-- A claimed message, whose lock the transaction keeps, and its recorded attempts.
DECLARE @id BIGINT = :id, @version BIGINT, @tried INT, @was NVARCHAR(500);
SET NOCOUNT ON;
SELECT @version = {version_ms:t}, @tried = COALESCE(s.attempts, 0), @was = s.last_error
FROM {table} AS t WITH (UPDLOCK, ROWLOCK) {with_tries} WHERE {named:t};

-- part: count_it
-- :nth is the number of the attempt, so a failure that is written twice counts once.
SET @tried = CASE WHEN :nth > 0 THEN CASE WHEN @tried > :nth THEN @tried ELSE :nth END
                  WHEN @tried + :count < 0 THEN 0
                  WHEN @tried + :count > 1000000000 THEN 1000000000 ELSE @tried + :count END;

-- name: fail
-- NOCOUNT: only the row of the message counts.
{look_at_it}
{count_it}
DECLARE @now BIGINT = {clock}, @span BIGINT = :delay, @error NVARCHAR(500) = :error;
{later}
IF @version IS NOT NULL
BEGIN
  {noted}
END;
SET NOCOUNT OFF;
UPDATE {table} SET "lockUuid" = NULL, "scheduledAt" = {at_later} WHERE id = @id AND @version IS NOT NULL;

-- name: dead-copy
-- Copy a message that the relay gives up to the dead ones; "dead-drop" then deletes it.
{look_at_it}
{count_it}
DELETE d FROM (SELECT @id AS id WHERE @version IS NOT NULL) AS t {of_dead} t.id
OPTION (LOOP JOIN, FORCE ORDER);
SET NOCOUNT OFF;
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                         died_at, last_error)
SELECT t.id, t."pKey", t."pKind", t.payload, {offered_ms:t}, {version_ms:t}, @tried, {clock}, CAST(:error AS NVARCHAR(500))
FROM {table} AS t WHERE t.id = @id AND @version IS NOT NULL;

-- name: dead-drop
-- NOCOUNT: only the row of the message counts.
DECLARE @id BIGINT = :id;
DELETE t FROM {table} AS t WITH (ROWLOCK) WHERE t.id = @id AND {named:t};
IF @@ROWCOUNT = 1
BEGIN
  SET NOCOUNT ON;
  DELETE FROM {table_tries} WHERE id = @id;
  SET NOCOUNT OFF;
END;

-- name: requeue
{given};
UPDATE t SET "scheduledAt" = t."scheduledAtInitially", "lockUuid" = NULL
{listed};

-- name: try
{look_at_it}
DECLARE @error NVARCHAR(500) = @was;
SET @tried = CASE WHEN :nth > 0 THEN CASE WHEN @tried > :nth THEN @tried ELSE :nth END
                  WHEN @tried < 1000000000 THEN @tried + 1 ELSE @tried END;
SET NOCOUNT OFF;
IF @version IS NOT NULL
BEGIN
  {noted}
END;
