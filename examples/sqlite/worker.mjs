// A worker of a queue on SQLite, with node:sqlite of Node 22.13 or later: worker.mjs FILE EXTENSION QUEUE
//
// It leases jobs, handles each and acknowledges it. Run as many as you like on one file.
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";

const [file, extension, queue] = process.argv.slice(2);
const db = new DatabaseSync(file, { allowExtension: true });
db.exec("PRAGMA busy_timeout = 30000");
db.loadExtension(extension);
const receive = db.prepare("SELECT id, body, token FROM wherry_receive(?, 10, '5 minutes', 5)");
const ack = db.prepare("SELECT wherry_ack(?, ?, ?)");
const nack = db.prepare("SELECT wherry_nack(?, ?, ?, '1 minute', ?)");

async function handle(body) {
  console.log(body);
}

for (;;) {
  const jobs = receive.all(queue);
  for (const { id, body, token } of jobs) {
    try {
      await handle(body);
    } catch (error) { // It comes again after a minute, and is dead after five attempts.
      nack.get(queue, id, token, String(error));
      continue;
    }
    ack.get(queue, id, token);
  }
  if (jobs.length === 0) await sleep(200);
}
