// Work on a delayed queue, from Node with pg: write the mails that are due.
//
// What a message writes and its acknowledgement are one transaction, so each takes effect once,
// and one that was replaced meanwhile takes none.
//
// usage: node reminders.mjs postgres://USER@HOST/DATABASE QUEUE [--until-empty]

import pg from "pg";
import { setTimeout } from "node:timers/promises";

const ATTEMPTS = 5;

/** It was replaced, or another worker has it. */
class NotOurs extends Error {}

/** Does what is due, in the transaction that is open. */
async function handle(client, key, reminder) {
  await client.query("INSERT INTO mails(key, order_id) VALUES ($1, $2)", [
    key,
    reminder.order,
  ]);
}

async function work(client, queue, { key, body, attempts, token }) {
  try {
    await client.query("BEGIN");
    await handle(client, key, JSON.parse(body));
    const { rows } = await client.query("SELECT wherry_done($1, $2) AS outcome", [
      queue,
      token,
    ]);
    if (rows[0].outcome !== "acknowledged") throw new NotOurs(rows[0].outcome);
    await client.query("COMMIT");
    console.log(`done: ${key}`);
  } catch (error) {
    await client.query("ROLLBACK");
    if (error instanceof NotOurs) {
      console.log(`${error.message}: ${key}`);
    } else if (attempts < ATTEMPTS) {
      console.log(`failed: ${key}`);
      await client.query(
        "SELECT wherry_delayed_nack($1, $2, delay => $3, error => $4)",
        [queue, token, `${2 ** attempts} s`, error.message],
      );
    } else {
      console.log(`failed: ${key}`);
      await client.query("SELECT wherry_delayed_dead_letter($1, $2, $3)", [
        queue,
        token,
        error.message,
      ]);
    }
  }
}

const [url, queue, ...options] = process.argv.slice(2);
const client = new pg.Client({ connectionString: url });
await client.connect();
for (;;) {
  const { rows } = await client.query(
    "SELECT key, body, attempts, token FROM wherry_poll($1, 10, '1 minute', $2)",
    [queue, ATTEMPTS],
  );
  for (const message of rows) {
    await work(client, queue, message);
  }
  if (!rows.length) {
    if (options.includes("--until-empty")) break;
    await setTimeout(1000);
  }
}
await client.end();
