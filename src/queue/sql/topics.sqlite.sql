-- layout: name=topics
--
-- Topics: the queues that have subscribed to them.  A queue has the name of its table, which SQLite
-- compares without regard to case.

-- name: exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'wherry_subscription';

-- name: queue-exists
SELECT count(*) FROM wherry_schema WHERE model = 'queue' AND name = :queue;

-- name: subscribe
INSERT INTO wherry_subscription(topic, queue) VALUES (:topic, :queue) ON CONFLICT DO NOTHING;

-- name: unsubscribe
DELETE FROM wherry_subscription WHERE topic = :topic AND queue = :queue;

-- name: subscriptions
SELECT topic, queue FROM wherry_subscription
WHERE :topic IS NULL OR topic = :topic ORDER BY topic, queue;

-- name: queues
SELECT name FROM wherry_schema WHERE model = 'queue' ORDER BY name;
