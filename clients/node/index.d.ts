/** What sends on PostgreSQL: a client or a pool of pg. */
export interface PostgresConnection {
  query(text: string, values?: any[]): Promise<{ rows: any[] }>;
}

/** What sends on SQLite: a database of better-sqlite3 or node:sqlite that has loaded the extension. */
export interface SqliteConnection {
  prepare(sql: string): { all(...values: any[]): any[] };
}

/** A string and bytes are sent as they are, any other value as JSON. */
export type Body = string | Uint8Array | object | number | boolean | null;

/** Durations are seconds. */
export interface SendOptions {
  delay?: number;
  expires?: number;
  headers?: Record<string, string>;
  correlationId?: string;
  replyTo?: string;
  messageId?: string;
}

export interface EnqueueOptions {
  key?: string | number | bigint;
  headers?: Record<string, string>;
  messageId?: string;
  aggregateType?: string;
  aggregateId?: string | number | bigint;
  traceId?: string;
  /** The table; the default is `outbox`. */
  outbox?: string;
}

export type Outgoing = SendOptions & { body: Body };

/** Sends a message in the transaction of the connection, and returns its id. */
export function send(connection: PostgresConnection, queue: string, body: Body, options?: SendOptions): Promise<string>;
export function send(connection: SqliteConnection, queue: string, body: Body, options?: SendOptions): string;

/** Sends all messages or none, and returns their ids. */
export function sendMany(connection: PostgresConnection, queue: string, messages: Outgoing[]): Promise<string[]>;
export function sendMany(connection: SqliteConnection, queue: string, messages: Outgoing[]): string[];

/** Adds a message to an outbox in the transaction of the connection, and returns its id. */
export function enqueue(connection: PostgresConnection, topic: string, body: Body, options?: EnqueueOptions): Promise<string>;
export function enqueue(connection: SqliteConnection, topic: string, body: Body, options?: EnqueueOptions): string;

export interface SqliteOptions {
  /** Its name, or its path without `.so`. The default is $WHERRY_EXTENSION, otherwise `wherry`. */
  extension?: string;
  driver?: "better-sqlite3" | "node:sqlite";
}

/** Opens a file with the extension loaded. Db is the class of the driver. */
export function openSqlite<Db extends SqliteConnection = any>(file: string, options?: SqliteOptions): Promise<Db>;

/** A handler throws it if the message cannot be handled: it is dead at once, with the reason. */
export class Dead extends Error {}

/** A handler throws it to receive the message again after some seconds. The attempt is not counted. */
export class Snooze extends Error {
  constructor(seconds: number);
  readonly seconds: number;
}

/** Why a signal was aborted: others may have the message now. */
export class LeaseLost extends Error {
  constructor();
}

/** Why a signal was aborted: the worker stops. */
export class Stopping extends Error {
  constructor();
}

/** A message that was received. */
export class Message {
  private constructor();
  readonly queue: string;
  readonly id: string;
  readonly messageId: string;
  readonly topic?: string;
  readonly correlationId?: string;
  readonly replyTo?: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  /** 1 for the first. */
  readonly attempt: number;
  readonly createdAt: Date;
  /** Aborted when the lease was lost or the worker stops: its reason is a LeaseLost or a Stopping. */
  readonly signal: AbortSignal;
  readonly text: string;
  json<T = any>(): T;
}

export interface HandleOptions {
  /** How many messages are handled at once. The default is 10; of transactions on SQLite 1. */
  concurrency?: number;
  /** Seconds after which others receive the message if its worker crashed. The default is 60. */
  lease?: number;
  /** After so many attempts a message that fails is dead. The default is 5. 0: never. */
  maxAttempts?: number;
  /** Seconds to wait after a failed attempt. The default is 1 s, doubled up to an hour, and up to a quarter more. */
  backoff?: (attempt: number) => number;
  /** Seconds between looks for messages that nobody notifies of. The default is 1. */
  poll?: number;
}

export interface Event {
  name: "received" | "done" | "failed" | "dead" | "snoozed" | "returned" | "lost" | "error";
  queue: string;
  /** Since the handler began; for `received` since the message was sent. */
  seconds: number;
  attempt: number;
  message?: Message;
  error?: Error;
}

export interface WorkerOptions extends SqliteOptions {
  /** Seconds that a worker which stops waits for its handlers. The default is 30. */
  grace?: number;
  /** The metrics hook. */
  onEvent?: (event: Event) => void;
  /** Where failures are logged, a line each. The default is console.error. */
  log?: (line: string) => void;
}

/** A Pool of pg. */
export interface PostgresPool extends PostgresConnection {
  connect(...values: any[]): any;
  readonly totalCount: number;
}

/** Receives messages of queues and calls their handlers. Connection is the driver's, which transactions get. */
export class Worker<Connection = any> {
  /** @param place postgres://…, sqlite:FILE, a pool, or a function that opens a database of SQLite */
  constructor(place: string | PostgresPool | (() => SqliteConnection | Promise<SqliteConnection>), options?: WorkerOptions);

  handle(queue: string, handler: (message: Message) => unknown): this;

  /** The message is acknowledged in the handler's transaction, before it commits. */
  handle(
    queue: string,
    options: HandleOptions & { transaction: true },
    handler: (message: Message, connection: Connection) => unknown,
  ): this;
  handle(queue: string, options: HandleOptions & { transaction?: false }, handler: (message: Message) => unknown): this;

  /** Adds a function around all handlers. The first one is outermost. */
  use(middleware: (message: Message, next: () => Promise<void>) => unknown): this;

  /** Works until SIGTERM, SIGINT, stop() or the end of `signal`. Then it waits for its handlers. */
  run(options?: { signals?: boolean; signal?: AbortSignal }): Promise<void>;

  /** Has run() stop. A second call does not wait for the handlers. */
  stop(): void;
}
