// Work on a queue, from Node with pg: write the mails that the jobs ask for.
//
// What a job writes and its acknowledgement are one transaction, so each job takes effect once.
//
// usage: node worker.mjs postgres://USER@HOST/DATABASE QUEUE [--until-empty]

import pg from "pg";
import { setTimeout } from "node:timers/promises";

const ATTEMPTS = 5;

/** Another worker has the job. */
class LeaseLost extends Error {}

/** Does a job, in the transaction that is open. */
async function handle(client, job) {
  await client.query("INSERT INTO mails(order_id) VALUES ($1)", [job.order]);
}

async function work(client, queue, { id, body, attempts, token }) {
  try {
    await client.query("BEGIN");
    await handle(client, JSON.parse(body));
    const { rows } = await client.query(
      "SELECT wherry_ack($1, $2::bigint, $3) AS held",
      [queue, id, token],
    );
    if (!rows[0].held) throw new LeaseLost();
    await client.query("COMMIT");
    console.log(`done: ${id}`);
  } catch (error) {
    await client.query("ROLLBACK");
    if (error instanceof LeaseLost) {
      console.log(`another worker has it: ${id}`);
    } else if (attempts < ATTEMPTS) {
      console.log(`failed: ${id}`);
      await client.query(
        "SELECT wherry_nack($1, $2, $3, delay => $4, error => $5)",
        [queue, id, token, `${2 ** attempts} s`, error.message],
      );
    } else {
      console.log(`failed: ${id}`);
      await client.query("SELECT wherry_dead_letter($1, $2, $3, $4)", [
        queue,
        id,
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
    "SELECT id, body, attempts, token FROM wherry_receive($1, 10, '1 minute', $2)",
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
