--
-- Offers of many messages as one statement, for tables whose bodies are bytes.

-- part: new_due
(SELECT s.due FROM @some AS s WHERE s.id = t.id)

-- part: replaced_many
payload = (SELECT s.body FROM @some AS s WHERE s.id = t.id), "scheduledAt" = {new_due}, "scheduledAtInitially" = {new_due},
  {replaced}

-- part: offered_many
-- Offers of different keys.  Their ids have the order of the offers, so rows are inserted in this order and
-- not in that of the keys.  Two transactions that insert the same keys could wait for each other, so batches
-- of a queue run one after another, by a lock that ends with the transaction
-- (two_batches_with_the_same_keys_do_not_deadlock).  An offer of one message does not take this lock.
-- Each statement writes 1,000 rows at most: at 5,000 locks SQL Server locks the table instead.  If others
-- insert keys of the batch again and again, rows are inserted one by one.
DECLARE @turn INT, @resource NVARCHAR(255) = CONCAT(N'wherry_offer_', OBJECT_ID(N{'table}, N'U'), N'_', @kind);
DECLARE @given TABLE(nth INT NOT NULL PRIMARY KEY, "pKey" NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
                     body VARBINARY(MAX) NOT NULL, due BIGINT NOT NULL, id BIGINT NULL, made INT NULL);
DECLARE @some TABLE(id BIGINT NOT NULL PRIMARY KEY, nth INT NOT NULL, body VARBINARY(MAX) NOT NULL, due BIGINT NOT NULL);
DECLARE @done TABLE(id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO @given(nth, "pKey", body, due)
SELECT CAST(j."key" AS INT), m."key", SUBSTRING(@bodies, m.first, m.bytes),
  COALESCE(m.at, CASE WHEN m.delay < 3153600000000 THEN @now + m.delay ELSE @now + 3153600000000 END)
FROM OPENJSON(@messages) AS j
CROSS APPLY OPENJSON(j.value) WITH ("key" NVARCHAR(400) '$.key', first BIGINT '$.first', bytes BIGINT '$.bytes',
                                    at BIGINT '$.at', delay BIGINT '$.delay') AS m;
UPDATE @given SET due = 253402300799999 WHERE due > 253402300799999;
{keys_fit}
EXEC @turn = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
IF @turn < 0 THROW 51222, N'another transaction offers a batch to this queue, for longer than the lock timeout', 1;
WHILE @tries < 1000 AND EXISTS (SELECT 1 FROM @given WHERE made IS NULL)
BEGIN
  SET @tries = @tries + 1;
  UPDATE g SET id = (SELECT t.id FROM {table} AS t WITH (READCOMMITTEDLOCK)
                     WHERE t."pKind" = @kind AND {same_key:g})
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
    FROM @some AS g JOIN {table} AS t {by_seek} ON t.id = g.id
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
      SELECT TOP (CASE WHEN @tries > 3 THEN 1 ELSE 1000 END) g."pKey", @kind, g.body, g.due, g.due, @now
      FROM @given AS g WHERE g.made IS NULL AND g.id IS NULL ORDER BY g.nth;
      UPDATE @given SET made = 0
      WHERE nth IN (SELECT TOP (CASE WHEN @tries > 3 THEN 1 ELSE 1000 END) nth FROM @given WHERE made IS NULL AND id IS NULL ORDER BY nth);
    END TRY
    BEGIN CATCH
      IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
      {refuse_equals}
      BREAK;
    END CATCH;
  END;
END;
IF EXISTS (SELECT 1 FROM @given WHERE made IS NULL)
  THROW 51205, N'others changed messages of the batch each time', 1;
SELECT "pKey", made FROM @given WHERE made >= 0;

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
