-- The tables of the example receivers.
-- webhook_id is text of the sender's: it stays the same when a message is delivered again.
CREATE TABLE IF NOT EXISTS received_webhooks(
  webhook_id text PRIMARY KEY,
  received_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS shipments(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id bigint NOT NULL,
  customer text NOT NULL
);
