// PostgreSQL, with the driver pg.

import { sleep } from "./values.js";

const bodyType = (isText) => (isText ? "text" : "bytea");

export const statements = {
  send: (isText) =>
    `SELECT wherry_send($1::text, $2::${bodyType(isText)}, $3::text::json, $4::text::interval,
       $5::text::interval, $6::text, $7::text, $8::text)::text AS answer`,
  sendMany: (isText) =>
    `SELECT wherry_send_many($1::text, $2::${bodyType(isText)}[], $3::text[]::json[], $4::text[]::interval[],
       $5::text[]::interval[], $6::text[], $7::text[], $8::text[])::text[] AS answer`,
  enqueue: (isText) =>
    `SELECT wherry_enqueue($1::text, $2::${bodyType(isText)}, $3::text, $4::text, $5::text::json, $6::text,
       $7::text, $8::text, outbox => $9::text)::text AS answer`,
  exists: "SELECT count(*) AS answer FROM wherry_receive($1::text, 0)",
  receive: `SELECT id::text AS id, message_id, topic, correlation_id, reply_to, headers::text AS headers,
      body::text AS body, bytes, attempts, token,
      (extract(epoch FROM created_at) * 1000)::bigint::text AS created_at
    FROM wherry_receive($1::text, $2::integer, $3::text::interval, $4::integer, $5::text::bigint)`,
  ack: "SELECT wherry_ack($1::text, $2::text::bigint, $3::text) AS answer",
  nack: "SELECT wherry_nack($1::text, $2::text::bigint, $3::text, $4::text::interval, $5::text, $6::boolean) AS answer",
  extend: "SELECT wherry_extend($1::text, $2::text::bigint, $3::text, $4::text::interval) AS answer",
  extendMany: "SELECT wherry_extend_many($1::text, $2::text[]::bigint[], $3::text, $4::text::interval) AS answer",
  dead: "SELECT wherry_dead_letter($1::text, $2::text::bigint, $3::text, $4::text) AS answer",
};

export const array = (values) => values;
export const idsOf = (ids) => ids;

export async function call(connection, sql, values) {
  const { rows } = await connection.query(sql, values);
  return rows[0].answer;
}

const ignore = () => {};

/** What a worker does with a pool. */
export class Postgres {
  statements = statements;
  array = array;
  takesAfter = true;
  oneWriter = false;

  constructor(pool, owned) {
    this.pool = pool;
    this.owned = owned;
    this.max = pool.options?.max ?? 10;
  }

  /** Opens what run() needs. `open` transactions may run at once. */
  async begin(open) {
    if (this.owned) this.pool.options.max = this.max = open + 3;
    this.pool.on("error", ignore); // an idle connection was lost: the pool has dropped it
  }

  async end() {
    if (this.owned) await this.pool.end();
    this.pool.off("error", ignore);
  }

  async #connect() {
    const client = await this.pool.connect();
    client.on("error", ignore); // the query that runs fails as well
    return client;
  }

  #release(client, broken) {
    client.off("error", ignore);
    if (broken) client.on("error", ignore); // nobody else listens to it any more
    client.release(broken);
  }

  /** Runs a statement; a connection that does not answer in time is given up. */
  async query(sql, values, timeout = 10_000) {
    const connecting = this.#connect();
    const client = await within(timeout, connecting, () => {
      connecting.then((late) => this.#release(late, false), ignore);
    });
    let broken = true;
    try {
      const { rows } = await within(timeout, client.query(sql, values), ignore);
      broken = false;
      return rows;
    } catch (error) {
      broken = !(error.code?.length === 5 && error.severity === "ERROR");
      throw error;
    } finally {
      this.#release(client, broken);
    }
  }

  receive(values) {
    return this.query(statements.receive, values, 30_000);
  }

  /** Calls `work` in a transaction; `call` runs a statement there. */
  async transaction(work) {
    let client;
    try {
      client = await this.#connect();
    } catch (error) {
      throw new BeginError(error);
    }
    let broken = true;
    try {
      try {
        await client.query("BEGIN");
      } catch (error) {
        throw new BeginError(error);
      }
      await work(client, async (sql, values) => call(client, sql, values));
      const { command } = await client.query("COMMIT");
      if (command === "ROLLBACK") throw new Error("a statement of the handler failed, so its transaction was rolled back");
      broken = false;
    } catch (error) {
      broken = await client.query("ROLLBACK").then(
        () => false,
        () => true,
      );
      throw error;
    } finally {
      this.#release(client, broken);
    }
  }

  /** A connection of its own that is notified, beside the pool. `woken` is called at each notification. */
  async listener(woken, lost) {
    const client = new this.pool.Client(this.pool.options);
    let ended = false;
    const end = (error) => {
      if (!ended) lost(error ?? new Error("the server closed the connection"));
      ended = true;
    };
    client.on("error", end);
    client.on("end", () => end());
    client.on("notification", woken);
    await client.connect();
    return {
      listen: (queue) => within(10_000, call(client, "SELECT wherry_listen($1::text) AS answer", [queue]), ignore),
      unlisten: (queue) => within(10_000, call(client, "SELECT wherry_unlisten($1::text) AS answer", [queue]), ignore),
      close: async () => {
        ended = true;
        const ending = new AbortController();
        client.end().then(() => ending.abort(), () => ending.abort());
        await sleep(1000, ending.signal);
        client.connection?.stream?.destroy();
      },
    };
  }
}

/** The handler was not called, because its transaction could not begin. */
export class BeginError extends Error {
  constructor(cause) {
    super(`cannot begin a transaction: ${cause.message}`, { cause });
  }
}

function within(milliseconds, promise, late) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => {
      late();
      promise.catch(ignore);
      reject(new Error(`the database did not answer within ${milliseconds / 1000} s`));
    }, milliseconds);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}
