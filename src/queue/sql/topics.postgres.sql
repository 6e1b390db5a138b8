-- layout: name=topics
--
-- Topics: which queues get what is published.  Names are qualified, as in native.postgres.sql.

-- name: exists
SELECT pg_catalog.count(*) FROM pg_catalog.pg_class
WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({'wherry_subscription})::oid;

-- name: queue-exists
SELECT pg_catalog.count(*) FROM {wherry_schema}
WHERE model OPERATOR(pg_catalog.=) 'queue' AND name OPERATOR(pg_catalog.=) :queue::text;

-- name: subscribe
INSERT INTO {wherry_subscription}(topic, queue) VALUES (:topic::text, :queue::text)
ON CONFLICT DO NOTHING;

-- name: unsubscribe
DELETE FROM {wherry_subscription}
WHERE topic OPERATOR(pg_catalog.=) :topic::text AND queue OPERATOR(pg_catalog.=) :queue::text;

-- name: subscriptions
SELECT topic, queue FROM {wherry_subscription}
WHERE :topic::text IS NULL OR topic OPERATOR(pg_catalog.=) :topic::text ORDER BY topic, queue;

-- name: publish
-- One statement, however many queues there are.
SELECT {wherry_publish}(:topic::text, :body::bytea, :headers::pg_catalog.json,
  :delay::bigint::double precision OPERATOR(pg_catalog.*) interval '1 millisecond',
  CASE WHEN :ttl::bigint OPERATOR(pg_catalog.>) 0
       THEN :ttl::bigint::double precision OPERATOR(pg_catalog.*) interval '1 millisecond' END,
  :correlation_id::text, :reply_to::text, :message_id::text);
