--
-- Offers on SQL Server, and where polls look: of the tables of all layouts, which say what this_key is.

-- part: for_kind
DECLARE @kind NVARCHAR(100) = :kind;

-- part: for_now
DECLARE @now BIGINT = COALESCE(CAST(:now AS BIGINT), {clock});

-- part: later
-- @later is @span milliseconds from @now: a hundred years at most, and before the year 10000.
DECLARE @later BIGINT = @now + CASE WHEN @span < 3153600000000 THEN @span ELSE 3153600000000 END;
SET @later = CASE WHEN @later < 253402300799999 THEN @later ELSE 253402300799999 END;

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
-- The first rows that are due and that nobody else has locked.  The entries of the index by time are read
-- without locks: they say only where to look, and what they say is compared with the row under its
-- lock.  Of the rows, READPAST passes over those that others have locked, UPDLOCK keeps those that
-- it takes for the update, ROWLOCK locks no page, which READPAST might not pass over, and
-- READCOMMITTEDLOCK lets READPAST do so in a database with READ_COMMITTED_SNAPSHOT.  2,000 rows
-- at most: at 5,000 locks of an index SQL Server locks the table instead.
SELECT TOP (CASE WHEN @limit < 2000 THEN @limit ELSE 2000 END) {due_columns}
FROM {table} AS e WITH (NOLOCK)
JOIN {table} AS l WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK) ON l.id = e.id
WHERE e."pKind" = @kind AND e."scheduledAt" <= {at_now}
  AND l."pKind" = @kind AND l."scheduledAt" = e."scheduledAt" {not_exhausted}
ORDER BY e."scheduledAt", e.id

-- part: for_offers
-- A key that is there must not end the caller's transaction: so XACT_ABORT is off, for this batch
-- alone, as SQL Server restores it at the end of a prepared statement.
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
