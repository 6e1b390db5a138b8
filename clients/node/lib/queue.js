import { Dead, LeaseLost, Message, Snooze, Stopping } from "./message.js";
import { BeginError } from "./postgres.js";
import { checkNames, interval, sleep } from "./values.js";

const OPTIONS = ["concurrency", "lease", "maxAttempts", "backoff", "poll", "transaction"];

// A receive with `after` passes over messages that are due and those committed late, so each tenth is without it.
const LOOK_AGAIN = 10;

/** The delay after a failed attempt: 1 s, doubled up to an hour, and up to a quarter more. */
export function exponential(attempt) {
  return Math.min(3600, 2 ** (attempt - 1)) * (1 + Math.random() / 4);
}

const pauseAfter = (failed) => Math.min(5000, 50 * 2 ** failed);

/**
 * A queue that a worker receives from.
 *
 * Of each message that runs, either the handler returns first, and `settles` is true from then on: the message is
 * acknowledged or given back. Or it is cancelled first: then the handler's result no longer counts.
 */
export class Queue {
  #running = new Set();
  #freed = () => {};

  constructor(worker, name, options, handler) {
    checkNames(options, OPTIONS, `queue ${name}`);
    if (typeof handler !== "function") throw new TypeError(`queue ${name}: the handler is not a function`);
    const whole = { concurrency: 1, maxAttempts: 0 };
    for (const [option, least] of Object.entries(whole)) {
      const value = options[option];
      if (value !== undefined && !(Number.isInteger(value) && value >= least)) {
        throw new TypeError(`queue ${name}: ${option} is ${value}, and must be a whole number, ${least} or more`);
      }
    }
    for (const [option, least] of Object.entries({ lease: 0.1, poll: 0.001 })) {
      const value = options[option];
      if (value !== undefined && !(typeof value === "number" && value >= least && value <= 1_000_000)) {
        throw new TypeError(`queue ${name}: ${option} is ${value}, and must be a number of seconds, ${least} or more`);
      }
    }
    this.worker = worker;
    this.name = name;
    this.handler = handler;
    this.transaction = Boolean(options.transaction);
    this.options = { lease: 60, maxAttempts: 5, backoff: exponential, ...options };
  }

  async exists() {
    try {
      await this.#call(this.worker.driver.statements.exists, [this.name]);
    } catch (error) {
      throw new Error(`cannot receive from queue ${this.name}: ${error.message}: \`wherry create --kind queue\` creates it`, {
        cause: error,
      });
    }
  }

  /** Receives until the worker stops. Handlers may run on then. */
  async run() {
    const { driver, waker, stopping } = this.worker;
    const { concurrency, lease, maxAttempts, poll } = this.options;
    const alone = Math.min(poll ?? 0.25, 0.25) * 1000; // until it is notified again
    let after = "0"; // the last id received
    let listens = false; // senders notify
    let fresh = false; // it has listened since it last waited
    let full = 0; // how many receives in a row returned messages
    let failed = 0;
    this.#startHeartbeat();
    for (let receives = 1; !stopping.aborted; receives++) {
      const free = concurrency - this.#running.size;
      if (free === 0) {
        await this.#free(stopping);
        continue;
      }
      if (receives % LOOK_AGAIN === 0) after = "0";
      let rows;
      const began = Date.now();
      try {
        const values = [this.name, free, interval(lease), maxAttempts];
        rows = await driver.receive(driver.takesAfter ? [...values, after] : values);
        failed = 0;
      } catch (error) {
        this.worker.report(this.name, error);
        failed += 1;
        await sleep(pauseAfter(failed), stopping);
        continue;
      }
      for (const row of rows) this.#start(row, began);
      if (rows.length > 0) {
        after = rows.at(-1).id;
        full += 1;
        // While a worker listens, senders commit one after the other. One that has work need not be woken.
        if (listens && (full > 1 || rows.length === free)) {
          await waker.unlisten(this.name);
          listens = fresh = false;
        }
        continue;
      }
      full = 0;
      if (driver.takesAfter && after !== "0") {
        after = "0";
      } else if (!fresh) {
        // Nobody notifies of a message that was sent before: look once more after each listen.
        listens = fresh = await waker.listen(this.name);
        if (!fresh) await sleep(alone, stopping);
      } else {
        await waker.wait(this.name, (poll ?? 1) * 1000, stopping);
        fresh = false;
      }
    }
  }

  async #free(stopping) {
    await new Promise((resolve) => {
      this.#freed = resolve;
      stopping.addEventListener("abort", resolve, { once: true });
      if (stopping.aborted) resolve();
    });
    stopping.removeEventListener("abort", this.#freed);
  }

  #start(row, began) {
    const message = new Message(this.name, row);
    const running = { message, until: began + this.options.lease * 1000, settles: false };
    this.#running.add(running);
    if (this.worker.stopping.aborted) this.#cancel(running, new Stopping());
    running.done = this.#handle(running).finally(() => {
      this.#running.delete(running);
      this.#freed();
    });
  }

  async ended() {
    await Promise.all([...this.#running].map(({ done }) => done));
  }

  #cancel(running, why) {
    if (running.settles || running.cancelled) return;
    running.cancelled = why;
    running.message.cancel(why);
  }

  cancelAll(why) {
    for (const running of this.#running) this.#cancel(running, why);
  }

  /** Gives messages back whose handlers do not return. Returns how many. */
  async abandon() {
    const left = [...this.#running];
    const { statements, oneWriter } = this.worker.driver;
    if (oneWriter && this.transaction) return left.length; // its transaction holds the lock, and ends with the process
    for (const { message, cancelled } of left) {
      if (cancelled instanceof LeaseLost) continue;
      await this.#settle1(statements.nack, message, [null, null, true]).catch((error) => this.worker.report(this.name, error));
    }
    return left.length;
  }

  #event(name, message, since, error) {
    const seconds = Math.max(0, (Date.now() - since) / 1000);
    this.worker.event({ name, queue: this.name, seconds, attempt: message.attempt, message, error });
  }

  /** Calls the handler, and settles the message. */
  async #handle(running) {
    const { message } = running;
    const began = Date.now();
    let error;
    if (!running.cancelled) {
      this.#event("received", message, message.createdAt.getTime());
      try {
        await this.#chain(running);
      } catch (thrown) {
        error = thrown instanceof Error ? thrown : new Error(String(thrown));
      }
      if (running.committed) return this.#event("done", message, began);
    }
    let why = running.cancelled;
    if (!why) running.settles = true;
    if (error instanceof LeaseLost) why = error;
    try {
      this.#event(await this.#settle(running, error, why), message, began, error);
    } catch (failure) {
      this.worker.report(this.name, failure); // such as an error of `backoff`
    }
  }

  async #chain(running) {
    const last = this.transaction ? () => this.#inTransaction(running) : () => this.handler(running.message);
    const call = this.worker.middleware.reduceRight((next, around) => () => around(running.message, next), last);
    await call();
    if (this.transaction && !running.committed) throw new Error("a middleware did not call next(), or hid its error");
  }

  /** Calls the handler and acknowledges the message in one transaction. */
  async #inTransaction(running) {
    const { driver } = this.worker;
    const { message } = running;
    await driver.transaction(async (connection, call) => {
      await this.handler(message, connection);
      if (running.cancelled) throw running.cancelled;
      running.settles = true;
      if (!(await call(driver.statements.ack, [this.name, message.id, message.token]))) throw new LeaseLost();
    });
    running.committed = true;
  }

  /** Acknowledges a message, gives it back or makes it dead. Returns the name of the event. */
  async #settle(running, error, why) {
    const { message } = running;
    const { ack, nack, dead } = this.worker.driver.statements;
    const text = error?.message.replaceAll("\0", "") || error?.name;
    const { maxAttempts } = this.options;
    let [name, statement, values] = ["lost"];
    if (why instanceof LeaseLost) {
      // others have it
    } else if (why) {
      [name, statement, values] = ["returned", nack, [null, null, true]];
    } else if (!error) {
      [name, statement, values] = ["done", ack, []];
    } else if (error instanceof Dead) {
      [name, statement, values] = ["dead", dead, [text]];
    } else if (error instanceof Snooze) {
      [name, statement, values] = ["snoozed", nack, [interval(error.seconds, "Snooze"), null, true]];
    } else if (error instanceof BeginError) {
      this.worker.report(this.name, error);
      [name, statement, values] = ["returned", nack, [interval(1), text, true]];
    } else {
      name = maxAttempts > 0 && message.attempt >= maxAttempts ? "dead" : "failed";
      [statement, values] = [nack, [this.#delay(message), text, false]];
    }
    if (!statement || !(await this.#insist(running, statement, values))) {
      this.worker.options.log(`wherry: queue ${this.name}: message ${message.id}: ${new LeaseLost().message}`);
      return "lost";
    }
    if (name === "dead" || name === "failed") {
      this.worker.options.log(`wherry: queue ${this.name}: message ${message.id}, attempt ${message.attempt}, ${name}: ${text}`);
    }
    return name;
  }

  #delay(message) {
    try {
      return interval(this.options.backoff(message.attempt), "the result of backoff");
    } catch (error) {
      this.worker.report(this.name, error);
      return interval(exponential(message.attempt));
    }
  }

  /** Settles a message, again if the database fails, until its lease ends. Returns false if the lease was lost. */
  async #insist(running, statement, values) {
    for (let failed = 1; ; failed++) {
      try {
        const held = await this.#settle1(statement, running.message, values);
        return held || failed > 1; // the answer of an earlier call may have been lost
      } catch (error) {
        this.worker.report(this.name, new Error(`message ${running.message.id}: ${error.message}`, { cause: error }));
        if (Date.now() + pauseAfter(failed) > running.until) return false;
        await sleep(pauseAfter(failed));
      }
    }
  }

  #settle1(statement, message, values) {
    return this.#call(statement, [this.name, message.id, message.token, ...values]);
  }

  async #call(statement, values, timeout) {
    const rows = await this.worker.driver.query(statement, values, timeout);
    return rows[0].answer;
  }

  /** Extends leases each third of one, and cancels handlers whose lease was lost or has ended meanwhile. */
  #startHeartbeat() {
    if (this.transaction && this.worker.driver.oneWriter) return; // it holds the lock: nobody else can take the message
    let ticks = 0;
    let beats = false;
    this.heart = setInterval(async () => {
      for (const running of this.#running) {
        if (Date.now() > running.until) this.#cancel(running, new LeaseLost());
      }
      ticks += 1;
      if (ticks % 4 !== 0 || beats) return;
      beats = true;
      try {
        await this.#extendAll();
      } catch (error) {
        this.worker.report(this.name, error);
      }
      beats = false;
    }, (this.options.lease * 1000) / 12);
  }

  endHeartbeat() {
    clearInterval(this.heart);
  }

  /** Extends the leases with one call for the messages of each receive. */
  async #extendAll() {
    const groups = new Map();
    for (const running of this.#running) {
      if (running.settles || running.cancelled) continue;
      const { token } = running.message;
      if (!groups.has(token)) groups.set(token, []);
      groups.get(token).push(running);
    }
    for (const [token, group] of groups) await this.#extend(token, group);
  }

  async #extend(token, group) {
    const { array, statements } = this.worker.driver;
    const { lease } = this.options;
    const timeout = Math.min(10_000, (lease * 1000) / 3);
    const began = Date.now();
    const ids = array(group.map(({ message }) => message.id));
    const extended = await this.#call(statements.extendMany, [this.name, ids, token, interval(lease)], timeout);
    for (const running of group) {
      if (Number(extended) < group.length) {
        const held = await this.#call(statements.extend, [this.name, running.message.id, token, interval(lease)], timeout);
        if (!held) {
          this.#cancel(running, new LeaseLost()); // unless it was settled meanwhile
          continue;
        }
      }
      running.until = began + lease * 1000;
    }
  }
}
