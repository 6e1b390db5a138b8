// Receive signed webhooks, each once, in Node with pg.
//
// usage: HOOK_SECRET=whsec_… node receiver.mjs postgres://USER@HOST/DATABASE [PORT]

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import pg from "pg";

const TOLERANCE = 5 * 60; // seconds that a timestamp may differ from this clock
const BODY_MAX = 1 << 20; // bytes
const key = Buffer.from((process.env.HOOK_SECRET ?? "").replace(/^whsec_/, ""), "base64");
if (key.length === 0) throw new Error("HOOK_SECRET must be whsec_ and base64");
const pool = new pg.Pool({ connectionString: process.argv[2] });
pool.on("error", (error) => console.error(error.message)); // an idle connection broke

/** True if a holder of the secret signed this request in the last minutes. */
function isGenuine(headers, body) {
  const id = headers["webhook-id"] ?? "";
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!/^\d+$/.test(timestamp)) return false;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) return false;
  const mac = createHmac("sha256", key)
    .update(`${id}.${timestamp}.`, "latin1")
    .update(body)
    .digest("base64");
  const expected = Buffer.from(`v1,${mac}`);
  // While a secret is replaced, the sender signs with the old and the new one.
  return (headers["webhook-signature"] ?? "").split(" ").some((signature) => {
    const given = Buffer.from(signature, "latin1");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

/** Does the work and records the id in one transaction. False for a duplicate. */
async function ship(id, { order, customer }) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const { rows } = await client.query("SELECT wherry_accept($1) AS new", [id]);
    if (rows[0].new) {
      await client.query("INSERT INTO shipments(order_id, customer) VALUES ($1, $2)", [
        order,
        customer,
      ]);
    }
    await client.query("COMMIT");
    return rows[0].new;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

/** Returns the status and the text of the answer. */
async function receive(request) {
  if (!(Number(request.headers["content-length"]) <= BODY_MAX)) {
    return [413, "the body is too large, or its length is missing"];
  }
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (!isGenuine(request.headers, body)) {
    return [401, "the signature or its time is wrong"];
  }
  let event;
  try {
    event = JSON.parse(body);
  } catch {
    event = null;
  }
  if (!Number.isSafeInteger(event?.order) || typeof event.customer !== "string") {
    return [422, "the body is not an order"];
  }
  const isNew = await ship(request.headers["webhook-id"], event);
  return [200, isNew ? "shipped" : "received before"];
}

const server = createServer(async (request, response) => {
  const [status, text] = await receive(request).catch((error) => {
    console.error(error.message);
    return [500, "the database failed, try again"];
  });
  response.writeHead(status, { "Content-Type": "text/plain" }).end(text);
});
server.listen(Number(process.argv[3] ?? 8080), "127.0.0.1", () =>
  console.log(`listening on http://127.0.0.1:${server.address().port}/`),
);
