-- layout: name=topics
--
-- Topics: the queues that have subscribed to them.  Names are qualified, as in native.postgres.sql.

-- name: exists
SELECT pg_catalog.count(*) FROM pg_catalog.pg_class
WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({'wherry_subscription})::pg_catalog.oid;

-- part: routing
{schema.}"SubscriptionRouting"

-- name: routing-exists
-- Subscriptions of NServiceBus, for queues that have its layout.
SELECT pg_catalog.count(*) FROM pg_catalog.pg_class
WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({'schema.} OPERATOR(pg_catalog.||) '"SubscriptionRouting"')::pg_catalog.oid;

-- part: address
-- Address of a queue in this schema, as NServiceBus writes it.
pg_catalog.concat({'schema.}, '"', pg_catalog.replace(:queue::pg_catalog.text, '"', '""'), '"')

-- name: routed-queue-exists
SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute
WHERE attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({address})::pg_catalog.oid AND NOT attisdropped
  AND attname OPERATOR(pg_catalog.=) 'seq';

-- name: route
INSERT INTO {routing}(queueaddress, endpoint, topic)
VALUES ({address}, :queue::pg_catalog.text, :topic::pg_catalog.text)
ON CONFLICT (endpoint, topic) DO UPDATE SET queueaddress = excluded.queueaddress;

-- name: unroute
DELETE FROM {routing}
WHERE topic OPERATOR(pg_catalog.=) :topic::pg_catalog.text AND endpoint OPERATOR(pg_catalog.=) :queue::pg_catalog.text;

-- name: routes
SELECT DISTINCT topic, queueaddress FROM {routing}
WHERE :topic::pg_catalog.text IS NULL OR topic OPERATOR(pg_catalog.=) :topic::pg_catalog.text ORDER BY topic, queueaddress;

-- name: queue-exists
SELECT pg_catalog.count(*) FROM {wherry_schema}
WHERE model OPERATOR(pg_catalog.=) 'queue' AND name OPERATOR(pg_catalog.=) :queue::pg_catalog.text;

-- name: subscribe
INSERT INTO {wherry_subscription}(topic, queue) VALUES (:topic::pg_catalog.text, :queue::pg_catalog.text)
ON CONFLICT DO NOTHING;

-- name: unsubscribe
DELETE FROM {wherry_subscription}
WHERE topic OPERATOR(pg_catalog.=) :topic::pg_catalog.text AND queue OPERATOR(pg_catalog.=) :queue::pg_catalog.text;

-- name: subscriptions
SELECT topic, queue FROM {wherry_subscription}
WHERE :topic::pg_catalog.text IS NULL OR topic OPERATOR(pg_catalog.=) :topic::pg_catalog.text ORDER BY topic, queue;

-- name: publish
-- Send to all native queues with one statement.  wherry_publish() refuses a topic to which queues of
-- NServiceBus have subscribed.
SELECT pg_catalog.count({wherry_send}(s.queue, :body::pg_catalog.bytea, :headers::pg_catalog.json,
  :delay::bigint::double precision OPERATOR(pg_catalog.*) interval '1 millisecond',
  CASE WHEN :ttl::bigint OPERATOR(pg_catalog.>) 0
       THEN :ttl::bigint::double precision OPERATOR(pg_catalog.*) interval '1 millisecond' END,
  :correlation_id::pg_catalog.text, :reply_to::pg_catalog.text, :message_id::pg_catalog.text, s.topic))
FROM {wherry_subscription} AS s
JOIN {wherry_schema} AS q ON q.model OPERATOR(pg_catalog.=) 'queue' AND q.name OPERATOR(pg_catalog.=) s.queue
WHERE s.topic OPERATOR(pg_catalog.=) :topic::pg_catalog.text;

-- name: queues
-- Tables that may be queues, because they have columns that no other table has.
SELECT CASE WHEN pg_catalog.pg_table_is_visible(c.oid) THEN pg_catalog.quote_ident(c.relname)
            ELSE pg_catalog.concat(pg_catalog.quote_ident(c.relnamespace::pg_catalog.regnamespace::pg_catalog.text), '.', pg_catalog.quote_ident(c.relname)) END
FROM pg_catalog.pg_class AS c
WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p']::"char"[]) AND NOT c.relispartition
  AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute AS a
       WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND NOT a.attisdropped
         AND (a.attname OPERATOR(pg_catalog.=) ANY (ARRAY['id', 'headers', 'body']::pg_catalog.name[])
              OR a.attname OPERATOR(pg_catalog.=) ANY (ARRAY['lease_token', 'seq']::pg_catalog.name[])))
      OPERATOR(pg_catalog.>=) 4
ORDER BY 1;
