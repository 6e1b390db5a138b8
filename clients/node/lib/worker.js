import { Postgres } from "./postgres.js";
import { Queue } from "./queue.js";
import { Sqlite, openSqlite } from "./sqlite.js";
import { Stopping } from "./message.js";
import { checkNames, sleep } from "./values.js";
import { Waker } from "./wake.js";

const OPTIONS = ["grace", "onEvent", "log", "driver", "extension"];

async function driverOf(place, options) {
  if (typeof place === "function") return new Sqlite(place);
  if (typeof place?.connect === "function" && typeof place.Client === "function") return new Postgres(place, false);
  if (typeof place === "string" && /^postgres(ql)?:/.test(place)) {
    const { default: pg } = await import("pg");
    return new Postgres(new pg.Pool({ connectionString: place }), true);
  }
  if (typeof place === "string" && place.startsWith("sqlite:")) {
    const file = place.slice("sqlite:".length);
    return new Sqlite(() => openSqlite(file, options));
  }
  throw new TypeError(
    "new Worker() needs a URL (postgres://… or sqlite:FILE), a Pool of pg, or a function that opens a database of SQLite",
  );
}

/** Receives messages of queues and calls their handlers. */
export class Worker {
  #place;
  #queues = [];
  #stopping = new AbortController();
  #hurry = new AbortController();
  #ran = false;
  middleware = [];

  constructor(place, options = {}) {
    checkNames(options, OPTIONS, "new Worker()");
    const { grace = 30, onEvent = () => {}, log = console.error, ...rest } = options;
    if (typeof grace !== "number" || !(grace >= 0 && grace <= 1_000_000)) {
      throw new TypeError(`grace is ${grace}, and must be a number of seconds, such as 30`);
    }
    this.#place = place;
    this.options = { grace, onEvent, log, ...rest };
  }

  /** Has a handler do the messages of a queue; with {transaction: true} it also gets a connection. */
  handle(name, options, handler) {
    if (typeof options === "function") [options, handler] = [{}, options];
    if (this.#queues.some((queue) => queue.name === name)) throw new TypeError(`queue ${name} has a handler already`);
    this.#queues.push(new Queue(this, name, options, handler));
    return this;
  }

  /** Adds a function `(message, next)` around all handlers. The first one is outermost. */
  use(middleware) {
    this.middleware.push(middleware);
    return this;
  }

  /** Has run() stop, as SIGTERM does. A second call does not wait for the handlers. */
  stop() {
    if (this.#stopping.signal.aborted) this.#hurry.abort();
    this.#stopping.abort();
  }

  get stopping() {
    return this.#stopping.signal;
  }

  /**
   * Works until SIGTERM, SIGINT, stop() or the end of `signal`. Then it receives no more messages, waits for the
   * handlers for the time of `grace`, aborts those that still run, and gives their messages back.
   */
  async run({ signals = true, signal } = {}) {
    if (this.#queues.length === 0) throw new Error("the worker has no handlers: call handle() first");
    if (this.#ran) throw new Error("a worker runs once: make another one");
    this.#ran = true;
    this.driver = await driverOf(this.#place, { driver: this.options.driver, extension: this.options.extension });
    const open = this.#limit();
    const stop = () => this.stop();
    const names = signals ? ["SIGTERM", "SIGINT"] : [];
    for (const name of names) process.on(name, stop);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    try {
      await this.driver.begin(open);
      try {
        await this.#work();
      } finally {
        await this.driver.end();
      }
    } finally {
      for (const name of names) process.off(name, stop);
      signal?.removeEventListener("abort", stop);
    }
  }

  async #work() {
    for (const queue of this.#queues) await queue.exists();
    this.waker = new Waker(this.driver, (name, error) => this.report(name, error));
    const waking = this.waker.run();
    try {
      await Promise.all(this.#queues.map((queue) => queue.run()));
      await this.#finish();
    } finally {
      for (const queue of this.#queues) queue.endHeartbeat();
      this.waker.stop();
      await waking;
    }
  }

  async #finish() {
    const ended = new AbortController(); // ends the waiting, and its timer, which would keep the process
    const brief = new AbortController();
    this.#hurry.signal.addEventListener("abort", () => brief.abort());
    if (this.#hurry.signal.aborted) brief.abort();
    Promise.all(this.#queues.map((queue) => queue.ended())).then(() => {
      ended.abort();
      brief.abort();
    });
    await sleep(this.options.grace * 1000, brief.signal);
    for (const queue of this.#queues) queue.cancelAll(new Stopping());
    await sleep(5000, ended.signal);
    for (const queue of this.#queues) {
      const left = await queue.abandon();
      if (left > 0) {
        throw new Error(
          `${left} handlers of queue ${queue.name} did not return when their signal was aborted; ` +
            "their messages were given back: pass message.signal to what they wait for",
        );
      }
    }
  }

  /** Chooses how many transactions run at once; two connections must be left, to receive and to extend leases. */
  #limit() {
    let open = 0;
    for (const { name, options, transaction } of this.#queues) {
      if (!transaction) {
        options.concurrency ??= 10;
      } else if (this.driver.oneWriter) {
        if (options.concurrency > 1) {
          throw new Error(`queue ${name}: SQLite runs one transaction at a time: leave out concurrency or transaction`);
        }
        options.concurrency = 1;
      } else {
        const most = this.driver.owned ? Infinity : this.driver.max;
        options.concurrency ??= Math.max(1, Math.min(10, most - 2));
        open += options.concurrency;
        if (open + 2 > most) {
          throw new Error(
            `queue ${name}: ${open} transactions at once need a pool of ${open + 2} connections, and it has ${most}: ` +
              `say \`new pg.Pool({max: ${open + 2}})\`, or give a smaller concurrency`,
          );
        }
      }
    }
    return open;
  }

  /** Logs a failure of the database. */
  report(queue, error) {
    this.event({ name: "error", queue, seconds: 0, attempt: 0, error });
    this.options.log(`wherry: ${queue && `queue ${queue}: `}${error.message}`);
  }

  event(event) {
    try {
      this.options.onEvent(event);
    } catch (error) {
      this.options.log(`wherry: onEvent failed: ${error?.message}`);
    }
  }
}
