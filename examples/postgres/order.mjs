// Commit an order and its event together, from Node with pg.
//
// usage: node order.mjs postgres://USER@HOST/DATABASE

import pg from "pg";

/** The shop does not accept the order. */
class Refused extends Error {}

/** Inserts an order and its event: both are committed, or neither. */
async function placeOrder(pool, customer, cents) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const { rows } = await client.query(
      "INSERT INTO orders(customer, cents) VALUES ($1, $2) RETURNING id",
      [customer, cents],
    );
    const order = rows[0].id; // a string, because a bigint may not fit a number
    const event = { order: Number(order), customer, cents };
    await client.query("SELECT wherry_enqueue('orders', $1, key => $2)", [
      JSON.stringify(event),
      order,
    ]);
    if (cents > 100_000) {
      throw new Refused(`order ${order} is over the credit limit`);
    }
    await client.query("COMMIT");
    return order;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

const pool = new pg.Pool({ connectionString: process.argv[2] });
for (const cents of [4_200, 420_000]) {
  try {
    const order = await placeOrder(pool, 'Zoë "Zed" O\'Hara \\ 漢字', cents);
    console.log(`committed: order ${order}`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    console.log(`rolled back: ${error.message}`);
  }
}
await pool.end();
