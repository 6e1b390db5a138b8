-- layout: name=topics
--
-- Topics: the queues that have subscribed to them.  A subscription is one row, and no statement locks
-- the table.  Topics are compared by their hash, byte for byte.

-- name: exists
SELECT CASE WHEN OBJECT_ID(N{'wherry_subscription}, N'U') IS NULL THEN 0 ELSE 1 END;

-- part: routing
{schema.}"SubscriptionRouting"

-- name: routing-exists
-- Subscriptions of NServiceBus, for queues that have its layout.
SELECT CASE WHEN OBJECT_ID(N{'schema.} + N'"SubscriptionRouting"', N'U') IS NULL THEN 0 ELSE 1 END;

-- name: catalog
SELECT DB_NAME();

-- part: address
-- Address of a queue in this schema, as NServiceBus writes it.
:queue + N'@' + QUOTENAME(OBJECT_SCHEMA_NAME(OBJECT_ID(N{'schema.} + N'"SubscriptionRouting"', N'U')))
  + N'@' + QUOTENAME(DB_NAME())

-- name: routed-queue-exists
SELECT COUNT(*) FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(N{'schema.} + QUOTENAME(:queue), N'U') AND LOWER(c.name COLLATE Latin1_General_BIN2) = N'rowversion';

-- name: route
-- Replace another address of the same endpoint.  UPDLOCK and HOLDLOCK lock the key until the INSERT, also
-- if it does not exist: if two programs subscribe at the same time, the second waits for this key only.
SET XACT_ABORT ON;
BEGIN TRANSACTION;
UPDATE {routing} WITH (UPDLOCK, HOLDLOCK, ROWLOCK) SET QueueAddress = {address}
WHERE Endpoint = :queue AND Topic = :topic;
IF @@ROWCOUNT = 0
  INSERT INTO {routing}(QueueAddress, Endpoint, Topic) VALUES ({address}, :queue, :topic);
COMMIT TRANSACTION;

-- name: unroute
DELETE FROM {routing} WHERE Topic = :topic AND Endpoint = :queue;

-- name: routes
SELECT DISTINCT Topic, QueueAddress FROM {routing}
WHERE :topic IS NULL OR Topic = :topic ORDER BY Topic, QueueAddress;

-- name: queue-exists
SELECT COUNT(*) FROM {wherry_schema} WHERE model = N'queue' AND name = :queue;

-- name: subscribe
-- If two programs insert the same row at the same time, the second waits for the first and then finds
-- its row.  The error for a row that exists must not end the caller's transaction, so XACT_ABORT is off;
-- SQL Server restores it at the end of a prepared statement.
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
