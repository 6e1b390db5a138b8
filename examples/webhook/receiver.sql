-- The table of the example receivers, beside their inbox.
CREATE TABLE IF NOT EXISTS shipments(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id bigint NOT NULL,
  customer text NOT NULL
);
