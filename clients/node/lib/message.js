/** A handler throws it if the message cannot be handled: it is dead at once, with the reason. */
export class Dead extends Error {
  name = "Dead";
}

/** A handler throws it to receive the message again after some seconds. The attempt is not counted. */
export class Snooze extends Error {
  name = "Snooze";

  constructor(seconds) {
    super(`again in ${seconds} s`);
    if (!(seconds >= 0)) {
      throw new TypeError(`Snooze: ${seconds} is not a number of seconds: say \`throw new Snooze(60)\``);
    }
    this.seconds = seconds;
  }
}

/** Why a signal was aborted: others may have the message now. */
export class LeaseLost extends Error {
  name = "LeaseLost";

  constructor() {
    super("the lease was lost: another worker may have the message");
  }
}

/** Why a signal was aborted: the worker stops, and gave its handlers the time of `grace`. */
export class Stopping extends Error {
  name = "Stopping";

  constructor() {
    super("the worker stops");
  }
}

/** A message that was received. */
export class Message {
  #controller = new AbortController();

  constructor(queue, row) {
    this.queue = queue;
    this.id = row.id;
    this.messageId = row.message_id;
    this.topic = row.topic ?? undefined;
    this.correlationId = row.correlation_id ?? undefined;
    this.replyTo = row.reply_to ?? undefined;
    this.headers = row.headers ? JSON.parse(row.headers) : {};
    this.body = row.body === null ? Buffer.from(row.bytes) : Buffer.from(row.body);
    this.attempt = Number(row.attempts);
    this.createdAt = new Date(Number(row.created_at));
    Object.defineProperty(this, "token", { value: row.token });
    Object.defineProperty(this, "cancel", { value: (why) => this.#controller.abort(why) });
  }

  /** It is aborted when the lease was lost or the worker stops; its reason says which. */
  get signal() {
    return this.#controller.signal;
  }

  get text() {
    return this.body.toString("utf8");
  }

  json() {
    return JSON.parse(this.text);
  }
}
