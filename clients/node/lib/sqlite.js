// SQLite, with better-sqlite3 or node:sqlite and the extension of Wherry.

import { BeginError } from "./postgres.js";
import { sleep } from "./values.js";

export const statements = {
  send: () => "SELECT CAST(wherry_send(?, ?, ?, ?, ?, ?, ?, ?) AS TEXT) AS answer",
  sendMany: () => "SELECT wherry_send_many(?, ?, ?, ?, ?, ?, ?, ?) AS answer",
  enqueue: () => "SELECT CAST(wherry_enqueue(?, ?, ?, ?, ?, ?, ?, ?, 0, ?) AS TEXT) AS answer",
  exists: "SELECT wherry_queue_length(?) AS answer",
  receive: `SELECT CAST(id AS TEXT) AS id, message_id, topic, correlation_id, reply_to, headers, NULL AS body, bytes,
      attempts, token, CAST(created_at AS TEXT) AS created_at
    FROM wherry_receive(?, ?, ?, ?)`,
  ack: "SELECT wherry_ack(?, ?, ?) AS answer",
  nack: "SELECT wherry_nack(?, ?, ?, ?, ?, ?) AS answer",
  extend: "SELECT wherry_extend(?, ?, ?, ?) AS answer",
  extendMany: "SELECT wherry_extend_many(?, ?, ?, ?) AS answer",
  dead: "SELECT wherry_dead_letter(?, ?, ?, ?) AS answer",
};

/** Arrays are JSON; ids are numbers there, so that large ones keep their digits. */
export function array(values) {
  return JSON.stringify(
    values.map((value, i) => {
      if (!(value instanceof Uint8Array)) return value;
      const text = value.toString();
      if (!Buffer.from(text).equals(value)) {
        throw new TypeError(`message ${i + 1}: the body is not UTF-8, which sendMany() cannot send on SQLite: use send()`);
      }
      return text;
    }),
  );
}

export const idsOf = (ids) => ids.match(/\d+/g) ?? [];

export function call(db, sql, values) {
  const bound = values.map((value) => (typeof value === "boolean" ? Number(value) : value));
  return db.prepare(sql).all(...bound)[0].answer;
}

/**
 * Opens a file with the extension loaded.
 *
 * @param {string} file
 * @param {{extension?: string, driver?: string}} options
 */
export async function openSqlite(file, { extension = process.env.WHERRY_EXTENSION ?? "wherry", driver } = {}) {
  const [open, name] = await loadDriver(driver);
  const db = open(file);
  try {
    db.exec("PRAGMA busy_timeout = 5000");
    db.loadExtension(extension);
  } catch (error) {
    db.close();
    throw new Error(
      `${name} cannot load Wherry's extension ${extension}: ${error.message}: give its path without .so, ` +
        'such as {extension: "/usr/local/lib/wherry"}',
      { cause: error },
    );
  }
  return db;
}

async function loadDriver(driver) {
  const drivers = {
    "better-sqlite3": async () => {
      const { default: Database } = await import("better-sqlite3");
      return (file) => new Database(file);
    },
    "node:sqlite": async () => {
      const { DatabaseSync } = await import("node:sqlite");
      return (file) => new DatabaseSync(file, { allowExtension: true });
    },
  };
  const names = driver === undefined ? Object.keys(drivers) : [driver];
  for (const name of names) {
    if (!drivers[name]) throw new TypeError(`there is no driver ${name}: there are ${Object.keys(drivers).join(" and ")}`);
    try {
      return [await drivers[name](), name];
    } catch (error) {
      const missing = ["ERR_MODULE_NOT_FOUND", "ERR_UNKNOWN_BUILTIN_MODULE"].includes(error.code);
      if (!missing) throw error;
    }
  }
  throw new Error(`there is no ${names.join(" and no ")}: \`npm install better-sqlite3\`, or use Node 22.13 or newer`);
}

const isBusy = (error) => /SQLITE_BUSY/.test(error.code) || /is locked|is busy/.test(error.message);

const WATCH = 20; // milliseconds

/**
 * What a worker does with a file. SQLite has one writer at a time. A transaction that waits for its handler
 * holds the lock, so this worker's other statements wait their turn here, and the event loop goes on.
 */
export class Sqlite {
  statements = statements;
  array = (ids) => `[${ids.join(",")}]`;
  takesAfter = false;
  oneWriter = true;
  max = Infinity;
  #turn = Promise.resolve();

  /** @param open a function that opens a connection with the extension loaded */
  constructor(open) {
    this.open = open;
  }

  async begin() {
    this.db = await this.open();
    this.db.exec("PRAGMA busy_timeout = 20"); // it would block the event loop; #patiently waits instead
  }

  async end() {
    await this.#turn;
    this.db.close();
  }

  #exclusively(work) {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #patiently(sql) {
    for (const end = Date.now() + 10_000; ; ) {
      try {
        return this.db.exec(sql);
      } catch (error) {
        if (!isBusy(error) || Date.now() > end) throw error;
        await sleep(5 + Math.random() * 20);
      }
    }
  }

  #inTransaction(work) {
    return this.#exclusively(async () => {
      try {
        await this.#patiently("BEGIN IMMEDIATE");
      } catch (error) {
        throw new BeginError(error);
      }
      try {
        const result = await work();
        await this.#patiently("COMMIT");
        return result;
      } catch (error) {
        if (this.db.inTransaction ?? this.db.isTransaction ?? true) {
          try {
            this.db.exec("ROLLBACK");
          } catch {
            // SQLite has rolled back itself
          }
        }
        throw error;
      }
    });
  }

  query(sql, values) {
    return this.#inTransaction(() => [{ answer: call(this.db, sql, values) }]);
  }

  receive(values) {
    return this.#inTransaction(() => this.db.prepare(statements.receive).all(...values));
  }

  transaction(work) {
    return this.#inTransaction(() => work(this.db, async (sql, values) => call(this.db, sql, values)));
  }

  /** Notices commits of other connections, other processes' too. */
  async listener(woken) {
    const db = await this.open();
    const look = db.prepare("PRAGMA data_version");
    let version = look.get().data_version;
    const timer = setInterval(() => {
      const now = look.get().data_version;
      if (now !== version) woken();
      version = now;
    }, WATCH);
    return {
      listen: async () => true,
      unlisten: async () => {},
      close: async () => {
        clearInterval(timer);
        db.close();
      },
    };
  }
}
