// Wherry for Node: see README.md.

export { enqueue, send, sendMany } from "./lib/send.js";
export { Dead, LeaseLost, Message, Snooze, Stopping } from "./lib/message.js";
export { Worker } from "./lib/worker.js";
export { openSqlite } from "./lib/sqlite.js";
