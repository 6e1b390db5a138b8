import { sleep } from "./values.js";

/** The worker's connection that is notified. It connects again after each failure. */
export class Waker {
  #waiting = new Map(); // of the queues that listen: {woken, wake}
  #listener;
  #fail; // has run() connect again
  #stop = new AbortController();

  constructor(driver, report) {
    this.driver = driver;
    this.report = report;
  }

  async run() {
    for (let pause = 100; !this.#stop.signal.aborted; pause = Math.min(2 * pause, 5000)) {
      const began = Date.now();
      try {
        await new Promise((_, reject) => {
          this.#fail = reject;
          this.#stop.signal.addEventListener("abort", () => reject(new Error("stopped")));
          this.driver
            .listener(() => this.#wakeAll(), reject)
            .then((listener) => (this.#listener = listener))
            .catch(reject);
        });
      } catch (error) {
        const listener = this.#listener;
        this.#listener = undefined;
        this.#wakeAll();
        await listener?.close();
        if (this.#stop.signal.aborted) break;
        if (Date.now() - began > 60_000) pause = 100;
        this.report("", new Error(`the connection that listens failed, next attempt in ${pause} ms: ${error.message}`));
        await sleep(pause, this.#stop.signal);
      }
    }
  }

  stop() {
    this.#stop.abort();
  }

  /** Returns false if nobody notifies this queue now. */
  async listen(queue) {
    const listener = this.#listener;
    if (!listener) return false;
    if (!this.#waiting.has(queue)) this.#waiting.set(queue, { woken: false, wake: () => {} });
    try {
      return Boolean(await listener.listen(queue));
    } catch (error) {
      if (listener === this.#listener) this.#fail(error);
      return false;
    }
  }

  async unlisten(queue) {
    this.#waiting.delete(queue);
    const listener = this.#listener;
    try {
      await listener?.unlisten(queue);
    } catch (error) {
      if (listener === this.#listener) this.#fail(error);
    }
  }

  async wait(queue, milliseconds, signal) {
    const waiting = this.#waiting.get(queue);
    if (waiting && !waiting.woken) {
      const ended = new AbortController();
      const end = () => ended.abort();
      waiting.wake = end;
      signal.addEventListener("abort", end);
      if (!signal.aborted) await sleep(milliseconds, ended.signal);
      signal.removeEventListener("abort", end);
    }
    if (waiting) waiting.woken = false;
  }

  #wakeAll() {
    for (const waiting of this.#waiting.values()) {
      waiting.woken = true;
      waiting.wake();
    }
  }
}
