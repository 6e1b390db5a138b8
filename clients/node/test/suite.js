// A worker's ordinary day and its bad ones, on PostgreSQL or SQLite: see place.js.

import assert from "node:assert/strict";
import { Dead, LeaseLost, Snooze, Stopping, Worker, enqueue, send, sendMany } from "wherry";
import { isPostgres, newQueue, open, url, wherry } from "./place.js";
import { finish, test, until } from "./tap.js";

const db = await open();
const logged = [];
const events = [];
const options = { log: (line) => logged.push(line), onEvent: (event) => events.push(event), driver: process.env.WHERRY_TEST_DRIVER };

const rowsOf = (queue) => db.query(`SELECT * FROM ${queue} ORDER BY id`);
const lengthOf = async (queue) => (await rowsOf(queue)).length;
const put = (queue, body, rest) => db.inTransaction((connection) => send(connection, queue, body, rest));
const named = (name, queue) => events.filter((event) => event.name === name && event.queue === queue);

/** Runs a worker while `body` runs. */
async function working(queue, how, handler, body, more = {}) {
  const worker = new Worker(url, { ...options, ...more });
  worker.handle(queue, how, handler);
  const run = worker.run({ signals: false });
  run.catch(() => {});
  await Promise.race([body(worker), run.then(() => assert.fail("run() returned"))]);
  worker.stop();
  await run;
}

await test("a message that was sent is handled and gone", async () => {
  const queue = newQueue();
  const seen = [];
  await put(queue, { order: 7 }, { headers: { trace: "a" }, messageId: "m-7", correlationId: "c", replyTo: "r" });
  await working(queue, {}, async (message) => void seen.push(message), async () => {
    await until(async () => (await lengthOf(queue)) === 0);
    await put(queue, '{"order": 8}');
    await until(async () => seen.length === 2 && (await lengthOf(queue)) === 0);
  });
  const [message] = seen;
  assert.deepEqual(message.json(), { order: 7 });
  assert.deepEqual(message.headers, { trace: "a" });
  assert.deepEqual([message.messageId, message.correlationId, message.replyTo], ["m-7", "c", "r"]);
  assert.deepEqual([message.attempt, message.queue, typeof message.id], [1, queue, "string"]);
  assert(Math.abs(Date.now() - message.createdAt) < 60_000);
  assert.deepEqual(seen[1].json(), { order: 8 });
  assert.equal(named("done", queue).length, 2);
});

await test("a message of a transaction that rolled back was not sent", async () => {
  const queue = newQueue();
  const failing = db.inTransaction(async (connection) => {
    await send(connection, queue, {});
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.equal(await lengthOf(queue), 0);
});

await test("sendMany() sends all with their options, and bytes arrive as they are", async () => {
  const queue = newQueue(...(isPostgres ? ["--payload", "bytea"] : []));
  const bodies = [];
  await db.inTransaction(async (connection) => {
    const ids = await sendMany(connection, queue, [{ body: 'a "b" \\c {d},' }, { body: "é", headers: { x: "1" } }]);
    assert.equal(ids.length, 2);
    assert.equal(typeof ids[0], "string");
    await send(connection, queue, Buffer.from([0, 255, 10]));
  });
  await working(queue, { concurrency: 1 }, async (message) => void bodies.push(message.body), () => until(() => bodies.length === 3));
  assert.deepEqual(bodies, [Buffer.from('a "b" \\c {d},'), Buffer.from("é"), Buffer.from([0, 255, 10])]);
});

await test("enqueue() writes to an outbox with its key", async () => {
  wherry("create", url);
  await db.inTransaction((connection) => enqueue(connection, "orders", { order: 7 }, { key: 7, headers: { a: "b" } }));
  assert.match(wherry("list", url, "--json"), /"key":"7"/);
});

await test("a handler that throws is called again, and its message is dead after the last attempt", async () => {
  const queue = newQueue();
  const attempts = [];
  await put(queue, {});
  const fails = async ({ attempt }) => {
    attempts.push(attempt);
    throw new Error(`broken ${attempt}`);
  };
  await working(queue, { maxAttempts: 3, backoff: () => 0.01, poll: 0.02 }, fails, () => until(() => named("dead", queue).length));
  assert.deepEqual(attempts, [1, 2, 3]);
  const [row] = await rowsOf(queue);
  assert.deepEqual([row.state, row.last_error], [4, "broken 3"]);
  assert(logged.some((line) => line.endsWith("attempt 3, dead: broken 3")));
});

await test("Dead makes a message dead at once, and Snooze gives it back uncounted", async () => {
  const queue = newQueue();
  await put(queue, "1");
  await put(queue, "2");
  const snoozed = [];
  const handler = async (message) => {
    if (message.text === "1") throw new Dead("no such order");
    snoozed.push(message.attempt);
    if (snoozed.length < 3) throw new Snooze(0.01);
  };
  await working(queue, { poll: 0.02 }, handler, () => until(() => snoozed.length === 3 && named("dead", queue).length));
  assert.deepEqual(snoozed, [1, 1, 1]);
  const rows = await until(async () => (await lengthOf(queue)) === 1 && rowsOf(queue));
  assert.equal(rows[0].last_error, "no such order");
});

await test("a worker that stops waits, then aborts and gives messages back uncounted", async () => {
  const queue = newQueue();
  await put(queue, "1");
  await put(queue, "2");
  const reasons = [];
  let begun = 0;
  let release;
  const handler = async (message) => {
    begun += 1;
    if (message.text === "1") return new Promise((resolve) => (release = resolve));
    await new Promise((resolve) => message.signal.addEventListener("abort", resolve));
    reasons.push(message.signal.reason);
    throw message.signal.reason;
  };
  await working(queue, {}, handler, async () => {
    await until(() => begun === 2);
    setTimeout(release, 20);
  }, { grace: 0.2 });
  assert(reasons[0] instanceof Stopping);
  const rows = await rowsOf(queue);
  assert.deepEqual(rows.map((row) => [row.state, row.attempts]), [[0, 0]]);
});

await test("leases of running messages are extended, and one that is lost aborts its handler", async () => {
  const queue = newQueue();
  await put(queue, "1");
  await put(queue, "2");
  let reason;
  let done;
  const handler = async (message) => {
    if (message.text === "2") {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      done = message;
      return;
    }
    await db.inTransaction((connection) =>
      isPostgres ? connection.query(`DELETE FROM ${queue} WHERE id = ${message.id}`) : connection.exec(`DELETE FROM ${queue} WHERE id = ${message.id}`),
    );
    await new Promise((resolve) => message.signal.addEventListener("abort", resolve));
    reason = message.signal.reason;
  };
  await working(queue, { lease: 0.6 }, handler, () => until(() => reason && done && named("done", queue).length));
  assert(reason instanceof LeaseLost);
  assert.equal(named("lost", queue).length, 1);
  assert.equal(done.attempt, 1);
  assert.equal(done.signal.aborted, false);
});

await test("in a transaction the handler's rows and the acknowledgement are one", async () => {
  const queue = newQueue();
  await db.query(`CREATE TABLE rows_${queue}(n integer)`);
  for (const n of [1, 2, 3]) await put(queue, { n });
  const handler = async (message, connection) => {
    const { n } = message.json();
    const sql = `INSERT INTO rows_${queue} VALUES (${n})`;
    await (isPostgres ? connection.query(sql) : connection.exec(sql));
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (n === 2 && message.attempt === 1) throw new Error("once more");
    if (n === 3) await send(connection, queue, { n: 4 });
  };
  await working(queue, { transaction: true, backoff: () => 0.01, poll: 0.02 }, handler, () =>
    until(async () => (await lengthOf(queue)) === 0),
  );
  const rows = await db.query(`SELECT n FROM rows_${queue} ORDER BY n`);
  assert.deepEqual(rows.map(({ n }) => n), [1, 2, 3, 4]);
});

await test("middleware is called around handlers, the first outermost", async () => {
  const queue = newQueue();
  const calls = [];
  await put(queue, {});
  const worker = new Worker(url, options);
  for (const name of ["a", "b"]) {
    worker.use(async (message, next) => {
      calls.push(name);
      await next();
      calls.push(`/${name}`);
    });
  }
  worker.handle(queue, async () => void calls.push("handler"));
  const run = worker.run({ signals: false });
  await until(async () => (await lengthOf(queue)) === 0);
  worker.stop();
  await run;
  assert.deepEqual(calls, ["a", "b", "handler", "/b", "/a"]);
});

await test("mistakes are refused with what to do", async () => {
  const connection = db.connection;
  const isRefused = (call, message) => assert.rejects(async () => call(), message);
  await isRefused(() => send({}, "jobs", {}), /give a client or pool of pg/);
  await isRefused(() => send(connection, "jobs", undefined), /a body of type undefined cannot be sent/);
  await isRefused(() => send(connection, "jobs", {}, { delya: 3 }), /no option delya: it has delay/);
  await isRefused(() => send(connection, "jobs", {}, { delay: "x" }), /delay is x/);
  await isRefused(() => new Worker(url).handle("jobs", { lease: 0 }, () => {}), /lease is 0/);
  await isRefused(() => new Worker(url).run(), /call handle\(\) first/);
  const missing = new Worker(url, options).handle("nothing_here", () => {});
  await isRefused(() => missing.run({ signals: false }), /cannot receive from queue nothing_here: .*wherry create --kind queue/s);
});

if (isPostgres) {
  await test("a message wakes a worker that waits", async () => {
    const queue = newQueue();
    let handled = 0;
    await working(queue, { poll: 30 }, async () => void (handled = Date.now()), async () => {
      await until(async () => (await db.query("SELECT 1 FROM pg_stat_activity WHERE query ~ 'wherry_listen' AND state = 'idle'")).length);
      const sent = Date.now();
      await put(queue, {});
      await until(() => handled);
      assert(handled - sent < 5000, `after ${handled - sent} ms`);
    });
  });

  await test("connections that are lost are made again, and messages are acknowledged", async () => {
    const queue = newQueue();
    let begun = 0;
    let release;
    const gate = new Promise((resolve) => (release = resolve));
    await put(queue, "1");
    const handler = async () => {
      begun += 1;
      await gate;
    };
    await working(queue, { poll: 30 }, handler, async () => {
      await until(() => begun === 1);
      await db.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
      release();
      await put(queue, "2").catch(() => put(queue, "2"));
      await until(async () => (await lengthOf(queue)) === 0);
    });
    assert.equal(begun, 2);
  });

  await test("a connection that is lost in a transaction has it rolled back, and the message handled again", async () => {
    const queue = newQueue();
    await db.query(`CREATE TABLE rows_${queue}(n integer)`);
    await put(queue, "1");
    const handler = async (message, connection) => {
      await connection.query(`INSERT INTO rows_${queue} VALUES (1)`);
      if (message.attempt > 1) return;
      const { rows } = await connection.query("SELECT pg_backend_pid() AS pid");
      await db.query(`SELECT pg_terminate_backend(${rows[0].pid})`);
    };
    await working(queue, { transaction: true, backoff: () => 0.01, poll: 0.05 }, handler, () =>
      until(async () => (await lengthOf(queue)) === 0),
    );
    assert.equal((await db.query(`SELECT * FROM rows_${queue}`)).length, 1);
  });
}

await db.end();
finish();
