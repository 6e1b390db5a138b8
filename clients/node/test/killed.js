// Workers that are killed again and again: nothing is lost, and in transactions nothing is done twice.
//
// As `killed.js work QUEUE` it is such a worker.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { setTimeout } from "node:timers/promises";
import { Worker, sendMany } from "wherry";
import { isPostgres, newQueue, open, url } from "./place.js";
import { finish, test, until } from "./tap.js";

const MESSAGES = 2000;
const KILLS = 12;

if (process.argv[2] === "work") {
  const queue = process.argv[3];
  const worker = new Worker(url, { log: () => {}, driver: process.env.WHERRY_TEST_DRIVER });
  const options = { transaction: true, lease: 1, maxAttempts: 0, poll: 0.1, backoff: () => 0.01 };
  worker.handle(queue, options, async (message, connection) => {
    const sql = `INSERT INTO rows_${queue} VALUES (${message.text})`;
    await (isPostgres ? connection.query(sql) : connection.exec(sql));
    if (!isPostgres) await setTimeout(1);
  });
  await worker.run();
} else {
  await test(`${KILLS} kills of two workers lose nothing and do nothing twice`, async () => {
    const db = await open();
    const queue = newQueue();
    await db.query(`CREATE TABLE rows_${queue}(n integer)`);
    const bodies = Array.from({ length: MESSAGES }, (_, n) => ({ body: String(n) }));
    await db.inTransaction((connection) => sendMany(connection, queue, bodies));
    const count = async () => Number((await db.query(`SELECT count(*) AS n FROM rows_${queue}`))[0].n);
    const start = () => spawn(process.execPath, [process.argv[1], "work", queue], { stdio: "inherit" });
    const workers = [start(), start()];
    try {
      for (let kill = 0; kill < KILLS; kill++) {
        const before = await count();
        await until(async () => (await count()) >= Math.min(before + MESSAGES / KILLS / 2, MESSAGES), 60);
        workers[kill % 2].kill("SIGKILL");
        workers[kill % 2] = start();
      }
      await until(async () => Number((await db.query(`SELECT count(*) AS n FROM ${queue}`))[0].n) === 0, 60);
      for (const worker of workers) {
        worker.kill("SIGTERM");
        await until(() => worker.exitCode !== null);
        assert.equal(worker.exitCode, 0);
      }
    } finally {
      for (const worker of workers) worker.kill("SIGKILL");
    }
    const [{ all, different }] = await db.query(
      `SELECT count(*) AS "all", count(DISTINCT n) AS different FROM rows_${queue}`,
    );
    assert.deepEqual([Number(all), Number(different)], [MESSAGES, MESSAGES]);
    await db.end();
  });
  finish();
}
