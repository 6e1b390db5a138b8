-- layout: name=topics
--
-- Topics: which queues get what is published.  A subscription is one row: no statement locks the
-- table.  Topics are compared by their hash, byte for byte.

-- name: exists
SELECT CASE WHEN OBJECT_ID(N{'wherry_subscription}, N'U') IS NULL THEN 0 ELSE 1 END;

-- name: queue-exists
SELECT COUNT(*) FROM {wherry_schema} WHERE model = N'queue' AND name = :queue;

-- name: subscribe
-- Of two that insert the same row at once, the second waits for the first and then finds its row.
-- The error of a row that is there must not end the caller's transaction: XACT_ABORT is off for this
-- batch alone, as SQL Server restores it at the end of a prepared statement.
SET XACT_ABORT OFF;
BEGIN TRY
  INSERT INTO {wherry_subscription}(topic, queue) VALUES (:topic, :queue);
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH;

-- name: unsubscribe
DELETE FROM {wherry_subscription}
WHERE topic_hash = HASHBYTES('SHA2_256', CAST(:topic AS NVARCHAR(255))) AND queue = :queue;

-- name: subscriptions
SELECT topic, queue FROM {wherry_subscription}
WHERE :topic IS NULL OR topic_hash = HASHBYTES('SHA2_256', CAST(:topic AS NVARCHAR(255)))
ORDER BY topic, queue;

-- name: queues
SELECT name FROM {wherry_schema} WHERE model = N'queue' ORDER BY name;
