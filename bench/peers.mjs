// Queues of Wherry beside pg-boss, graphile-worker and PgQ, on one PostgreSQL server, from Node.
// docs/benchmarks.md says how the figures were measured.
//
// Needs `npm install pg pg-boss@10 graphile-worker@0.17` and, for PgQ, its extension on the server.
// It makes and drops a queue "jobs" and the schema graphile_worker: give it an empty database.
//
// usage: WHERRY=build/release/wherry node bench/peers.mjs postgres://USER@HOST/DATABASE SYSTEM FIGURE N
//        SYSTEM: wherry, pgboss, graphile, pgq
//        FIGURE: send1, send100      N messages, one a commit or 100 at once
//                take1, take100      N messages received and acknowledged, 1 or 100 at once
//                drain               N messages by the fastest way that the system documents
//                latency             N messages in ten seconds, from sending to the handler

import pg from "pg";
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

const [url, system, figure, count] = process.argv.slice(2);
const messages = Number(count);
const filler = "x".repeat(180);

/** Milliseconds since 1970, with fractions. */
const now = () => performance.timeOrigin + performance.now();
const objects = (n) => Array.from({ length: n }, () => ({ filler, sent: now() }));
const bodies = (n) => objects(n).map((one) => JSON.stringify(one));

async function connect() {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

/** A prepared statement. */
const prepared = (client, name, text, values) => client.query({ name, text, values });

const db = await connect();

/** Each makes an empty queue and returns what can be done with it. */
const systems = {
  async wherry() {
    const wherry = (...args) => execFileSync(process.env.WHERRY ?? "wherry", args, { stdio: "ignore" });
    const exists = await db.query("SELECT to_regclass('jobs') AS there");
    if (exists.rows[0].there) wherry("drop", `${url}#jobs`, "--yes");
    wherry("create", "--kind", "queue", `${url}#jobs`, "--payload", "text");

    const receive = async (client, n) => {
      const { rows } = await prepared(client, "receive",
        "SELECT id, token, body FROM wherry_receive('jobs', $1)", [n]);
      return rows;
    };
    const acknowledge = (client, rows) => prepared(client, "ack",
      "SELECT wherry_ack('jobs', $1::bigint[], $2)", [rows.map((row) => row.id), rows[0].token]);

    return {
      send: (n) => n === 1
        ? prepared(db, "send", "INSERT INTO jobs(body) VALUES ($1)", bodies(1))
        : prepared(db, "send-many", "INSERT INTO jobs(body) SELECT unnest($1::text[])", [bodies(n)]),
      async take(n) {
        const rows = await receive(db, n);
        if (rows.length) await acknowledge(db, rows);
        return rows.length;
      },
      async drain() {
        wherry("relay", `${url}#jobs`, "null:", "--until-empty");
      },
      async work(handle) {
        const client = await connect();
        let notify = () => {};
        client.on("notification", () => notify());
        for (let listens = false; ; ) {
          const notified = new Promise((resolve) => (notify = resolve));
          const rows = await receive(client, 10);
          rows.forEach((row) => handle(JSON.parse(row.body)));
          if (rows.length) {
            await acknowledge(client, rows);
          } else if (!listens) {
            const answer = await client.query("SELECT wherry_listen('jobs') AS listens");
            listens = answer.rows[0].listens;
          } else {
            await Promise.race([notified, sleep(1000)]);
          }
        }
      },
    };
  },

  async pgboss() {
    const { default: PgBoss } = await import("pg-boss");
    const boss = new PgBoss({ connectionString: url, max: 10 });
    await boss.start();
    await boss.deleteQueue("jobs").catch(() => {});
    await boss.createQueue("jobs");

    const take = async (batchSize) => {
      const jobs = await boss.fetch("jobs", { batchSize });
      if (jobs.length) await boss.complete("jobs", jobs.map((job) => job.id));
      return jobs.length;
    };

    return {
      send: (n) => n === 1
        ? boss.send("jobs", objects(1)[0])
        : boss.insert(objects(n).map((data) => ({ name: "jobs", data }))),
      take,
      async drain() {
        while (await take(1000));
      },
      // It asks at an interval, half a second at least.
      work: (handle) => boss.work("jobs", { pollingIntervalSeconds: 0.5, batchSize: 100 },
        async (jobs) => jobs.forEach((job) => handle(job.data))),
    };
  },

  async graphile() {
    const { makeWorkerUtils, run, Logger } = await import("graphile-worker");
    await db.query("DROP SCHEMA IF EXISTS graphile_worker CASCADE");
    const utils = await makeWorkerUtils({ connectionString: url });
    await utils.migrate();

    const work = (handle) => run({
      noHandleSignals: true,
      taskList: { jobs: async (payload) => handle(payload) },
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: 24,
          maxPoolSize: 26,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger: new Logger(() => () => {}),
        },
      },
    });

    return {
      send: (n) => n === 1
        ? utils.addJob("jobs", objects(1)[0])
        : utils.addJobs(objects(n).map((payload) => ({ identifier: "jobs", payload }))),
      async drain() {
        let done = 0;
        const { promise, resolve } = withResolvers();
        const runner = await work(() => ++done === messages && resolve());
        await promise;
        await runner.stop();
      },
      work,
    };
  },

  async pgq() {
    await db.query("CREATE EXTENSION IF NOT EXISTS pgq");
    await db.query("SELECT pgq.drop_queue('jobs', true)").catch(() => {});
    await db.query("SELECT pgq.create_queue('jobs')");
    await db.query("SELECT pgq.register_consumer('jobs', 'bench')");
    await db.query("UPDATE pgq.queue SET queue_ticker_max_lag = '10 ms', queue_ticker_max_count = 500");

    /** The events between two ticks; -1: there is no batch. */
    const batch = async (client, handle = () => {}) => {
      const next = await client.query("SELECT pgq.next_batch('jobs', 'bench') AS id");
      const id = next.rows[0].id;
      if (id === null) return -1;
      const { rows } = await prepared(client, "batch",
        "SELECT ev_id, ev_data FROM pgq.get_batch_events($1)", [id]);
      rows.forEach((row) => handle(JSON.parse(row.ev_data)));
      await client.query("SELECT pgq.finish_batch($1)", [id]);
      return rows.length;
    };

    return {
      send: (n) => n === 1
        ? prepared(db, "send", "SELECT pgq.insert_event('jobs', 'job', $1)", bodies(1))
        : prepared(db, "send-many",
          "SELECT count(pgq.insert_event('jobs', 'job', body)) FROM unnest($1::text[]) AS body", [bodies(n)]),
      async tick() {
        await db.query("SELECT pgq.force_tick('jobs')");
        await db.query("SELECT pgq.ticker('jobs')");
      },
      async drain() {
        while ((await batch(db)) >= 0);
      },
      async work(handle) {
        const client = await connect();
        for (;;) {
          await client.query("SELECT pgq.ticker('jobs')");
          if ((await batch(client, handle)) < 0) await sleep(5);
        }
      },
    };
  },
};

function withResolvers() {
  const all = {};
  all.promise = new Promise((resolve) => (all.resolve = resolve));
  return all;
}

const queue = await systems[system]();

async function fill(n, atOnce) {
  for (let i = 0; i < n; i += atOnce) await queue.send(Math.min(atOnce, n - i));
}

/** Messages a second. */
async function rateOf(n, work) {
  const began = now();
  await work();
  return { rate: Math.round((n * 1000) / (now() - began)) };
}

async function measureTaking(atOnce) {
  await fill(messages, 1000);
  await db.query("VACUUM ANALYZE");
  return rateOf(messages, async () => {
    for (let got = 0; got < messages; ) {
      const n = await queue.take(atOnce);
      if (!n) throw new Error(`only ${got} of ${messages} were received`);
      got += n;
    }
  });
}

async function measureDraining() {
  for (let i = 0; i < messages; i += 1000) {
    await queue.send(1000);
    await queue.tick?.();
  }
  await queue.tick?.();
  await db.query("VACUUM ANALYZE");
  return rateOf(messages, () => queue.drain());
}

async function measureLatency() {
  const late = [];
  queue.work(({ sent }) => late.push(now() - sent));
  await sleep(2000);
  const began = now();
  for (let i = 0; i < messages; i++) {
    await sleep(Math.max(0, began + (i * 10_000) / messages - now()));
    await queue.send(1);
  }
  while (late.length < messages) await sleep(20);
  late.sort((a, b) => a - b);
  const at = (share) => Number(late[Math.floor(messages * share)].toFixed(2));
  return { p50: at(0.5), p99: at(0.99) };
}

const figures = {
  send1: () => rateOf(messages, () => fill(messages, 1)),
  send100: () => rateOf(messages, () => fill(messages, 100)),
  take1: () => measureTaking(1),
  take100: () => measureTaking(100),
  drain: measureDraining,
  latency: measureLatency,
};
console.log(JSON.stringify({ system, figure, messages, ...(await figures[figure]()) }));
process.exit(0);
