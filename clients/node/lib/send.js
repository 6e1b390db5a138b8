import * as postgres from "./postgres.js";
import * as sqlite from "./sqlite.js";
import { bodyOf, checkNames, headersOf, interval, textOf } from "./values.js";

const SEND = ["delay", "expires", "headers", "correlationId", "replyTo", "messageId"];
const ENQUEUE = ["topic", "key", "headers", "messageId", "aggregateType", "aggregateId", "traceId", "outbox"];

/** Which database a connection is of, and what calls it: `query` on pg, `prepare` on SQLite. */
function databaseOf(connection) {
  if (typeof connection?.prepare === "function") return sqlite;
  if (typeof connection?.query === "function") return postgres;
  throw new TypeError(
    "the first argument is not a connection: give a client or pool of pg, or a database of better-sqlite3 or node:sqlite",
  );
}

function sendArguments(options) {
  checkNames(options, SEND, "send()");
  return [
    headersOf(options.headers),
    interval(options.delay, "delay"),
    interval(options.expires, "expires"),
    textOf(options.correlationId),
    textOf(options.replyTo),
    textOf(options.messageId),
  ];
}

/**
 * Sends a message in the transaction of the connection, and returns its id. On SQLite it returns at once,
 * so it can be called in better-sqlite3's `db.transaction()`; on PostgreSQL it returns a promise.
 */
export function send(connection, queue, body, options = {}) {
  const { call, statements } = databaseOf(connection);
  const value = bodyOf(body);
  const [rest, sql] = [sendArguments(options), statements.send(typeof value === "string")];
  return call(connection, sql, [queue, value, ...rest]);
}

/** Sends all messages or none: each is `{body, …}` with the options of send(). Returns their ids. */
export function sendMany(connection, queue, messages) {
  const { call, statements, array, idsOf } = databaseOf(connection);
  if (messages.length === 0) return statements === postgres.statements ? Promise.resolve([]) : [];
  const bodies = messages.map((message, i) => {
    if (message === null || typeof message !== "object" || !("body" in message)) {
      throw new TypeError(`message ${i + 1} has no body: give {body, …} for each`);
    }
    return bodyOf(message.body);
  });
  const rest = messages.map(({ body: _, ...options }) => sendArguments(options));
  const columns = rest[0].map((_, i) => {
    const column = rest.map((row) => row[i]);
    return column.every((value) => value === null) ? null : array(column);
  });
  const isText = bodies.every((value) => typeof value === "string");
  const sent = isText ? bodies : bodies.map((value) => Buffer.from(value));
  return idsOf(call(connection, statements.sendMany(isText), [queue, array(sent), ...columns]));
}

/** Adds a message to an outbox in the transaction of the connection. Returns its id; see send(). */
export function enqueue(connection, topic, body, options = {}) {
  const { call, statements } = databaseOf(connection);
  checkNames(options, ENQUEUE, "enqueue()");
  const value = bodyOf(body);
  return call(connection, statements.enqueue(typeof value === "string"), [
    topic,
    value,
    textOf(options.key),
    textOf(options.messageId),
    headersOf(options.headers),
    textOf(options.aggregateType),
    textOf(options.aggregateId),
    textOf(options.traceId),
    textOf(options.outbox ?? "outbox"),
  ]);
}
