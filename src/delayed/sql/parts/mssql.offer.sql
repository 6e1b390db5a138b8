--
-- Offers on SQL Server, and the rows that polls read, in the tables of all layouts, which define this_key.

-- part: for_kind
DECLARE @kind NVARCHAR(100) = :kind;

-- part: for_now
DECLARE @now BIGINT = COALESCE(CAST(:now AS BIGINT), {clock});

-- part: later
-- Set @later to @span milliseconds from @now: a hundred years at most, and before the year 10000.
DECLARE @later BIGINT = @now + CASE WHEN @span < 3153600000000 THEN @span ELSE 3153600000000 END;
SET @later = CASE WHEN @later < 253402300799999 THEN @later ELSE 253402300799999 END;

-- part: offered
-- An offer of one message sets @made: 0 if it was created, 1 if it was replaced, -1 if it is unchanged.
--
-- The statement finds the key, and then inserts or updates a row.  If another offer inserted the key
-- meanwhile, or the row was deleted, it begins again.  READCOMMITTEDLOCK reads committed rows, also in a
-- transaction with a snapshot, and waits only for transactions that write this key.  It holds no lock
-- afterwards: with HOLDLOCK a transaction would also block offers of neighbouring keys until it ends.
DECLARE @id BIGINT, @made INT;
WHILE @made IS NULL AND @tries < 1000
BEGIN
  SET @tries = @tries + 1;
  SET @id = NULL;
  SELECT @id = id FROM {table} WITH (READCOMMITTEDLOCK) WHERE {this_key};
  IF @id IS NULL
    BEGIN TRY
      INSERT INTO {table}("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
      VALUES (@key, @kind, @body, {at_due}, {at_due}, {at_now});
      SET @made = 0;
    END TRY
    BEGIN CATCH
      IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
      {refuse_equal}
    END CATCH
  ELSE IF @absent = 1
    SET @made = -1;
  ELSE
  BEGIN
    UPDATE t SET payload = @body, "scheduledAt" = {at_due}, "scheduledAtInitially" = {at_due}, {replaced}
    FROM {table} AS t WITH (ROWLOCK)
    WHERE t.id = @id AND ({other_body:t} OR {offered_ms:t} <> @due);
    IF @@ROWCOUNT = 1
      SET @made = 1;
    ELSE IF EXISTS (SELECT 1 FROM {table} WITH (READCOMMITTEDLOCK) WHERE id = @id)
      SET @made = -1;
  END
END;
IF @made IS NULL THROW 51205, N'others changed the message of the key each time', 1;

-- part: due
-- The first due rows that no other transaction has locked.  The entries of the index by time are read
-- without locks, and compared with the rows under their locks.  READPAST skips rows that others have
-- locked, UPDLOCK locks rows for the update, ROWLOCK avoids locks of pages, which READPAST might not
-- skip, and READCOMMITTEDLOCK allows READPAST in a database with READ_COMMITTED_SNAPSHOT.  At most
-- 2,000 rows: at 5,000 locks of an index SQL Server locks the table instead.
SELECT TOP (CASE WHEN @limit < 2000 THEN @limit ELSE 2000 END) {due_columns}
FROM {table} AS e WITH (NOLOCK)
JOIN {table} AS l WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK) ON l.id = e.id
WHERE e."pKind" = @kind AND e."scheduledAt" <= {at_now}
  AND l."pKind" = @kind AND l."scheduledAt" = e."scheduledAt" {not_exhausted}
ORDER BY e."scheduledAt", e.id

-- part: for_offers
-- The error for a key that exists must not end the caller's transaction, so XACT_ABORT is off; SQL Server
-- restores it at the end of a prepared statement.
SET XACT_ABORT OFF;
{for_kind}
{for_now}
DECLARE @tries INT = 0;

-- part: offer_given
-- The message of an offer.
DECLARE @key NVARCHAR(400) = :key, @body {body_type} = :body, @span BIGINT = :delay;
{later}
DECLARE @due BIGINT = COALESCE(CAST(:at AS BIGINT), @later);
{key_fits}

-- name: offer
-- Returns 0 if the message was created, more if it was replaced, and no row if the key has the same
-- message.  The version always grows
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
