-- The table of the examples' shop.
CREATE TABLE IF NOT EXISTS orders(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer text NOT NULL,
  cents bigint NOT NULL
);
