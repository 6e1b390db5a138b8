// Work on a queue, from Node with pg: write the mails that the jobs ask for.
//
// What a job writes and its acknowledgement are one transaction, so each job takes effect once.
//
// usage: node worker.mjs postgres://USER@HOST/DATABASE QUEUE [--until-empty]

import pg from "pg";
import { setTimeout } from "node:timers/promises";

const ATTEMPTS = 5;
const LOOK_AGAIN = 10;

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
      "SELECT wherry_ack($1, $2, $3) AS held",
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

async function receive(client, queue, after) {
  const { rows } = await client.query(
    "SELECT id, body, attempts, token FROM wherry_receive($1, 10, '1 minute', $2, $3)",
    [queue, ATTEMPTS, after],
  );
  return rows;
}

const [url, queue, ...options] = process.argv.slice(2);
const client = new pg.Client({ connectionString: url });
let notify = () => {};
client.on("notification", () => notify());
await client.connect();
let after = 0;
for (let listens = false, receives = 1; ; receives++) {
  const notified = new Promise((resolve) => (notify = resolve));
  if (receives % LOOK_AGAIN === 0) after = 0; // messages that were given back have lower ids
  const began = after;
  const messages = await receive(client, queue, after);
  after = messages.at(-1)?.id ?? 0;
  if (messages.length && listens) {
    await client.query("SELECT wherry_unlisten($1)", [queue]);
    listens = false;
  }
  for (const message of messages) {
    await work(client, queue, message);
  }
  if (messages.length || began) continue;
  if (options.includes("--until-empty")) break;
  if (!listens) {
    const { rows } = await client.query("SELECT wherry_listen($1) AS listens", [queue]);
    listens = rows[0].listens;
    if (listens) continue; // for what was sent before
  }
  // Not for longer, since messages also come when their time has come.
  await Promise.race([notified, setTimeout(listens ? 1000 : 250)]);
}
await client.end();
