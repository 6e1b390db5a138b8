-- layout: name=notes names=qualified ordered=no columns=id,message_id,topic,payload,state,attempts,claimer,until
--
-- A layout of an outbox that exists on two databases.

-- include: claims.postgres.sql

-- name: enqueue
-- unused: aggregate_type aggregate_id key headers trace_id
INSERT INTO {table}(message_id, topic, payload) VALUES (:message_id, :topic, :payload)
ON CONFLICT DO NOTHING RETURNING id;
