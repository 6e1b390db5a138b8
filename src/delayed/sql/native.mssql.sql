-- layout: name=native ids=integer names=qualified columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,attempts,updates archive=
--
-- Delayed queues on SQL Server.  Times are Unix milliseconds: of the database's clock, or of the
-- caller's, in :now.
--
-- The first eight columns are those of the JVM library DelayedQueue, which can work on the table
-- as well.  "scheduledAtInitially" is the time that was offered.  "scheduledAt" is when the message
-- can be polled next: a poll moves it to the end of the lease.  "lockUuid" is the lease's token,
-- NULL after an offer.  "createdAt" grows with each offer that changes the message: it is its
-- version.
--
-- SQL Server ignores blanks at the end of a text when it compares, whatever the collation.  Two
-- texts that are equal to it and have the same length are the same, so the unique index has the
-- length too (keys_compare_byte_for_byte).
--
-- Locks.  A row has an entry in three indexes: the primary key, which is the table, NAME_key and
-- NAME_time.  A statement that went to a row by one of the others would hold the entry's lock while
-- it waits for the row, and one that deletes the row holds it and waits for the entry: a deadlock.
-- So every statement that writes finds ids first, by reads that hold no lock while they wait, and
-- then locks rows by the primary key, several in ascending order.  docs/internals/odbc.md has the
-- table of who waits for whom.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.dead_table.sql

-- part: for_kind
DECLARE @kind NVARCHAR(100) = :kind;

-- part: for_now
DECLARE @now BIGINT = COALESCE(CAST(:now AS BIGINT), {clock});

-- part: later
-- @later is @span milliseconds from @now: a hundred years at most, and before the year 10000.
DECLARE @later BIGINT = @now + CASE WHEN @span < 3153600000000 THEN @span ELSE 3153600000000 END;
SET @later = CASE WHEN @later < 253402300799999 THEN @later ELSE 253402300799999 END;

-- part: no_key
-- Is there no index on kind and key?
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

-- part: replaced
-- What an offer changes of the message that its key has, beside body and time.
"lockUuid" = NULL, "createdAt" = CASE WHEN @now > t."createdAt" THEN @now ELSE t."createdAt" + 1 END, attempts = 0,
  updates = CASE WHEN t.updates < 1000000000 THEN t.updates + 1 ELSE t.updates END, due_at = NULL, last_error = NULL

-- part: offered
-- An offer of one message: @made is 0 if it was created, 1 if it was replaced, -1 if it was left alone.
--
-- It looks for the key, and then inserts or updates a row.  If another offer inserted the key
-- meanwhile, or the row was deleted, it begins again.  READCOMMITTEDLOCK reads what is committed
-- now, also in a transaction with a snapshot, and waits for others that write this key, and for no
-- others.  It holds no lock afterwards: with HOLDLOCK a transaction would also stop offers of the keys
-- beside this one until it ends.
DECLARE @id BIGINT, @made INT;
WHILE @made IS NULL AND @tries < 1000
BEGIN
  SET @tries = @tries + 1;
  SET @id = NULL;
  SELECT @id = id FROM {table} WITH (READCOMMITTEDLOCK) WHERE {this_key};
  IF @id IS NULL
    BEGIN TRY
      INSERT INTO {table}("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
      VALUES (@key, @kind, @body, @due, @due, @now);
      SET @made = 0;
    END TRY
    BEGIN CATCH
      IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
    END CATCH
  ELSE IF @absent = 1
    SET @made = -1;
  ELSE
  BEGIN
    UPDATE t SET payload = @body, "scheduledAt" = @due, "scheduledAtInitially" = @due, {replaced}
    FROM {table} AS t WITH (ROWLOCK)
    WHERE t.id = @id AND (t.payload <> @body OR DATALENGTH(t.payload) <> DATALENGTH(@body)
                          OR t."scheduledAtInitially" <> @due);
    IF @@ROWCOUNT = 1
      SET @made = 1;
    ELSE IF EXISTS (SELECT 1 FROM {table} WITH (READCOMMITTEDLOCK) WHERE id = @id)
      SET @made = -1;
  END
END;
IF @made IS NULL THROW 51205, N'others changed the message of the key each time', 1;

-- part: due
-- The first rows that are due and that nobody else has locked.  The entries of NAME_time are read
-- without locks: they say only where to look, and what they say is compared with the row under its
-- lock.  Of the rows, READPAST passes over those that others have locked, UPDLOCK keeps those that
-- it takes for the update, ROWLOCK locks no page, which READPAST might not pass over, and
-- READCOMMITTEDLOCK lets READPAST do so in a database with READ_COMMITTED_SNAPSHOT.  2,000 rows
-- at most: at 5,000 locks of an index SQL Server locks the table instead.
SELECT TOP (CASE WHEN @limit < 2000 THEN @limit ELSE 2000 END) l.id
FROM {table} AS e WITH (NOLOCK)
JOIN {table} AS l WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK) ON l.id = e.id
WHERE e."pKind" = @kind AND e."scheduledAt" <= @now
  AND l."pKind" = @kind AND l."scheduledAt" = e."scheduledAt"
ORDER BY e."scheduledAt", e.id

-- part: leased
-- Lease messages.  The attempt is counted before it is made.  A row that still has a token is one
-- whose lease expired.  The condition on the row is for servers that know no READPAST and wait
-- instead: the row may have been leased meanwhile.
DECLARE @leased TABLE(id BIGINT NOT NULL, "key" NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
                      offered BIGINT NOT NULL, at BIGINT NOT NULL, version BIGINT NOT NULL, due BIGINT NOT NULL,
                      attempts INT NOT NULL, token VARCHAR(36) NOT NULL, error NVARCHAR(500) NULL,
                      body VARBINARY(MAX) NOT NULL);
UPDATE t SET "lockUuid" = @token, due_at = t."scheduledAt", "scheduledAt" = @later,
  attempts = CASE WHEN t.attempts < 1000000000 THEN t.attempts + 1 ELSE t.attempts END,
  last_error = CASE WHEN t."lockUuid" IS NOT NULL THEN N'its lease expired before it was acknowledged'
                    ELSE t.last_error END
OUTPUT inserted.id, inserted."pKey", inserted."scheduledAtInitially", inserted."scheduledAt", inserted."createdAt",
  inserted.due_at, inserted.attempts, inserted."lockUuid", inserted.last_error, inserted.payload INTO @leased
FROM ({due}) AS d JOIN {table} AS t WITH (ROWLOCK) ON t.id = d.id
WHERE t."pKind" = @kind AND t."scheduledAt" <= @now
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
{procedures}
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'delayed' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'delayed', N{name}, 1, 100);

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'delayed' AND name = :name;

-- name: columns
{column_names};

-- name: indexes-missing
SELECT CASE WHEN {no_key} THEN 1 ELSE 0 END + CASE WHEN {no_time} THEN 1 ELSE 0 END
  + CASE WHEN {no_dead_kind} THEN 1 ELSE 0 END;

-- name: drop
DROP TABLE {table};
DROP TABLE {table_dead};
DELETE FROM {wherry_schema} WHERE model = N'delayed' AND name = N{name};
{drop_procedures}

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- part: for_offers
-- A key that is there must not end the caller's transaction: so XACT_ABORT is off, for this batch
-- alone, as SQL Server restores it at the end of a prepared statement.
SET XACT_ABORT OFF;
{for_kind}
{for_now}
DECLARE @tries INT = 0;

-- part: offer_given
-- The message of an offer.
DECLARE @key NVARCHAR(400) = :key, @body VARBINARY(MAX) = :body, @span BIGINT = :delay;
{later}
DECLARE @due BIGINT = COALESCE(CAST(:at AS BIGINT), @later);

-- name: offer
-- Returns 0 for a message that was created, more for one that was replaced, and no row if the key
-- has the same message.  The version always grows
-- (an_acknowledgement_of_a_message_read_before_an_update_in_the_same_millisecond_deletes_nothing).
{for_offers}
{offer_given}
DECLARE @absent BIT = 0;
{offered}
IF @made >= 0 SELECT @made;

-- name: offer-absent
{for_offers}
{offer_given}
DECLARE @absent BIT = 1;
{offered}
IF @made >= 0 SELECT @made;

-- part: new_due
(SELECT s.due FROM @some AS s WHERE s.id = t.id)

-- part: replaced_many
payload = (SELECT s.body FROM @some AS s WHERE s.id = t.id), "scheduledAt" = {new_due}, "scheduledAtInitially" = {new_due},
  {replaced}

-- part: offered_many
-- Different keys.  Their ids have the order given, so rows are inserted in this order and not in that
-- of the keys.  So two transactions that insert the same keys could wait for each other: batches of a
-- queue come one after the other, by a lock that ends with the transaction
-- (two_batches_with_the_same_keys_do_not_deadlock).  An offer of one message does not take this lock.
-- Each statement writes 1,000 rows at most: at 5,000 locks SQL Server locks the table instead.
DECLARE @turn INT, @resource NVARCHAR(255) = CONCAT(N'wherry_offer_', OBJECT_ID(N{'table}, N'U'), N'_', @kind);
DECLARE @given TABLE(nth INT NOT NULL PRIMARY KEY, "key" NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
                     body VARBINARY(MAX) NOT NULL, due BIGINT NOT NULL, id BIGINT NULL, made INT NULL);
DECLARE @some TABLE(id BIGINT NOT NULL PRIMARY KEY, nth INT NOT NULL, body VARBINARY(MAX) NOT NULL, due BIGINT NOT NULL);
DECLARE @done TABLE(id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO @given(nth, "key", body, due)
SELECT CAST(j."key" AS INT), m."key", SUBSTRING(@bodies, m.first, m.bytes),
  COALESCE(m.at, CASE WHEN m.delay < 3153600000000 THEN @now + m.delay ELSE @now + 3153600000000 END)
FROM OPENJSON(@messages) AS j
CROSS APPLY OPENJSON(j.value) WITH ("key" NVARCHAR(400) '$.key', first BIGINT '$.first', bytes BIGINT '$.bytes',
                                    at BIGINT '$.at', delay BIGINT '$.delay') AS m;
UPDATE @given SET due = 253402300799999 WHERE due > 253402300799999;
EXEC @turn = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
IF @turn < 0 THROW 51222, N'another transaction offers a batch to this queue, for longer than the lock timeout', 1;
WHILE @tries < 1000 AND EXISTS (SELECT 1 FROM @given WHERE made IS NULL)
BEGIN
  SET @tries = @tries + 1;
  UPDATE g SET id = (SELECT t.id FROM {table} AS t WITH (READCOMMITTEDLOCK)
                     WHERE t."pKind" = @kind AND t."pKey" = g."key" AND t.key_bytes = DATALENGTH(g."key"))
  FROM @given AS g WHERE g.made IS NULL;
  IF @absent = 1
    UPDATE @given SET made = -1 WHERE made IS NULL AND id IS NOT NULL;
  WHILE EXISTS (SELECT 1 FROM @given WHERE made IS NULL AND id IS NOT NULL)
  BEGIN
    DELETE FROM @some;
    DELETE FROM @done;
    INSERT INTO @some(id, nth, body, due)
    SELECT TOP (1000) id, nth, body, due FROM @given WHERE made IS NULL AND id IS NOT NULL ORDER BY id;
    UPDATE t SET {replaced_many}
    OUTPUT inserted.id INTO @done
    FROM @some AS g JOIN {table} AS t WITH (ROWLOCK) ON t.id = g.id
    WHERE t.payload <> g.body OR DATALENGTH(t.payload) <> DATALENGTH(g.body) OR t."scheduledAtInitially" <> g.due
    OPTION (LOOP JOIN, FORCE ORDER);
    UPDATE g SET made = CASE WHEN EXISTS (SELECT 1 FROM @done AS d WHERE d.id = g.id) THEN 1
                             WHEN EXISTS (SELECT 1 FROM {table} AS t WITH (READCOMMITTEDLOCK) WHERE t.id = g.id) THEN -1 END,
                 id = NULL
    FROM @given AS g WHERE g.nth IN (SELECT nth FROM @some);
  END;
  WHILE EXISTS (SELECT 1 FROM @given WHERE made IS NULL AND id IS NULL)
  BEGIN
    BEGIN TRY
      INSERT INTO {table}("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
      SELECT TOP (1000) g."key", @kind, g.body, g.due, g.due, @now
      FROM @given AS g WHERE g.made IS NULL AND g.id IS NULL ORDER BY g.nth;
      UPDATE @given SET made = 0
      WHERE nth IN (SELECT TOP (1000) nth FROM @given WHERE made IS NULL AND id IS NULL ORDER BY nth);
    END TRY
    BEGIN CATCH
      IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
      BREAK;
    END CATCH;
  END;
END;
IF EXISTS (SELECT 1 FROM @given WHERE made IS NULL)
  THROW 51205, N'others changed messages of the batch each time', 1;
SELECT "key", made FROM @given WHERE made >= 0;

-- part: many_given
DECLARE @messages NVARCHAR(MAX) = :messages, @bodies VARBINARY(MAX) = :bodies;

-- name: offer-many
{for_offers}
{many_given}
DECLARE @absent BIT = 0;
{offered_many}

-- name: offer-many-absent
{for_offers}
{many_given}
DECLARE @absent BIT = 1;
{offered_many}

-- part: shown
t.id, t."pKey", t."scheduledAtInitially", t."scheduledAt", t."createdAt", t.due_at, t.attempts,
  CASE WHEN t."scheduledAt" <= @now THEN 0 WHEN t."lockUuid" IS NOT NULL THEN 1
       WHEN t.attempts > 0 THEN 3 ELSE 0 END,
  t."lockUuid", t.last_error, t.payload

-- name: poll
{for_kind}
{for_now}
DECLARE @limit BIGINT = :limit, @token VARCHAR(36) = :token, @span BIGINT = :lasts;
{later}
{leased}
SELECT id, "key", offered, at, version, due, attempts, CASE WHEN at <= @now THEN 0 ELSE 1 END, token, error, body
FROM @leased ORDER BY due, id;

-- part: own
FROM {ids} AS i JOIN {table} AS t WITH (ROWLOCK) ON t.id = i.id
WHERE t."lockUuid" = CAST(:token AS VARCHAR(36)) AND t."pKind" = :kind
OPTION (LOOP JOIN, FORCE ORDER)

-- name: ack
DELETE t OUTPUT deleted.id
{own};

-- name: ack-read
-- A message that was read, if no offer has changed it.
DELETE t OUTPUT deleted.id FROM {table} AS t WITH (ROWLOCK)
WHERE t.id = :id AND t."createdAt" = :version AND t."pKind" = :kind;

-- name: nack
{for_now}
DECLARE @span BIGINT = :delay;
{later}
UPDATE t SET "scheduledAt" = @later, "lockUuid" = NULL, due_at = NULL,
  last_error = COALESCE(CAST(:error AS NVARCHAR(500)), t.last_error)
OUTPUT inserted.id
{own};

-- name: extend-lease
{for_now}
DECLARE @span BIGINT = :lasts;
{later}
UPDATE t SET "scheduledAt" = @later OUTPUT inserted.id
{own};

-- name: bury
-- A copy among the dead; "ack" then deletes the message, in the same transaction.  UPDLOCK keeps
-- the row for it.  :back attempts were not made.
{for_now}
DECLARE @back INT = :back;
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                         died_at, last_error)
OUTPUT inserted.id
SELECT t.id, t."pKey", t."pKind", t.payload, t."scheduledAtInitially", t."createdAt",
  CASE WHEN t.attempts > @back THEN t.attempts - @back ELSE 0 END, @now, COALESCE(CAST(:error AS NVARCHAR(500)), t.last_error)
FROM {ids} AS i JOIN {table} AS t WITH (UPDLOCK, ROWLOCK) ON t.id = i.id
WHERE t."lockUuid" = CAST(:token AS VARCHAR(36)) AND t."pKind" = :kind
OPTION (LOOP JOIN, FORCE ORDER);

-- name: versions
-- Messages that were not settled, because an offer changed them or others have them.
SELECT t.id, t."createdAt" FROM {ids} AS i JOIN {table} AS t ON t.id = i.id WHERE t."pKind" = :kind;

-- part: for_key
{for_kind}
DECLARE @key NVARCHAR(400) = :key;

-- name: read
{for_key}
{for_now}
SELECT {shown} FROM {table} AS t WHERE {this_key};

-- name: contains
{for_key}
SELECT COUNT_BIG(*) FROM {table} WHERE {this_key};

-- name: drop-key
-- The key's row may be gone and another be there meanwhile: then there was a time when the key had none.
SET NOCOUNT ON;
{for_key}
DECLARE @id BIGINT = (SELECT id FROM {table} WITH (READCOMMITTEDLOCK) WHERE {this_key});
SET NOCOUNT OFF;
DELETE FROM {table} WITH (ROWLOCK) WHERE id = @id;

-- part: for_keys
-- Keys that begin with a prefix.  LIKE finds them by the index, and unlike a comparison it sees blanks
-- at the end of a prefix.  A range of keys has no last one in SQL Server's order, which is that of UTF-16.
{for_kind}
DECLARE @prefix NVARCHAR(2000) = REPLACE(REPLACE(REPLACE(REPLACE(:prefix COLLATE Latin1_General_BIN2,
  N'\', N'\\'), N'%', N'\%'), N'_', N'\_'), N'[', N'\[') + N'%';
DECLARE @except NVARCHAR(2000) = REPLACE(REPLACE(REPLACE(REPLACE(:except COLLATE Latin1_General_BIN2,
  N'\', N'\\'), N'%', N'\%'), N'_', N'\_'), N'[', N'\[') + N'%';
DECLARE @untouched BIGINT = :untouched;

-- part: matching
-- Keys that begin with :prefix, except those that begin with :except.  If :untouched is not 0, only
-- messages that nobody has polled, and that are due after it.
t."pKind" = @kind AND t."pKey" LIKE @prefix ESCAPE N'\'
  AND (@except = N'%' OR t."pKey" NOT LIKE @except ESCAPE N'\')
  AND (@untouched = 0 OR (t.attempts = 0 AND t."lockUuid" IS NULL
                          AND t."scheduledAt" = t."scheduledAtInitially" AND t."scheduledAt" > @untouched))

-- name: drop-keys
-- NOCOUNT: only the rows that are deleted count.
-- unused: prefix_end except_end
{for_keys}
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @ids SELECT t.id FROM {table} AS t WITH (READCOMMITTEDLOCK) WHERE {matching};
SET NOCOUNT OFF;
DELETE t FROM @ids AS i JOIN {table} AS t WITH (ROWLOCK) ON t.id = i.id WHERE {matching}
OPTION (LOOP JOIN, FORCE ORDER);

-- name: drop-all
{for_kind}
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @ids SELECT t.id FROM {table} AS t WITH (READCOMMITTEDLOCK) WHERE t."pKind" = @kind;
SET NOCOUNT OFF;
DELETE t FROM @ids AS i JOIN {table} AS t WITH (ROWLOCK) ON t.id = i.id
OPTION (LOOP JOIN, FORCE ORDER);

-- name: list
-- unused: prefix_end except_end
-- A plain read: it writes nothing, and READPAST lets it wait for nobody.
{for_keys}
{for_now}
DECLARE @after NVARCHAR(400) = :after;
SELECT TOP (:limit) {shown} FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST)
WHERE {matching} AND (t."pKey" > @after OR (t."pKey" = @after AND t.key_bytes > DATALENGTH(@after)))
ORDER BY t."pKey", t.key_bytes;

-- part: same_key
t."pKind" = d."pKind" AND t."pKey" = d."pKey" AND t.key_bytes = DATALENGTH(d."pKey")

-- include: mssql.dead.sql
