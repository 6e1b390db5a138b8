"""What outbox-event-bus does on SQLite, after its documentation and its published
statements: tables, columns, formats, claim, failure, archive, retry, recovery.

    python3 event_bus_library.py DATABASE LOG      poll, and log each handled id

The polling program ends when its standard input does.
"""

import datetime
import json
import select
import sqlite3
import sys
import uuid

TABLES = """
CREATE TABLE IF NOT EXISTS outbox_events (
  id TEXT PRIMARY KEY, type TEXT NOT NULL, payload TEXT NOT NULL, occurred_at TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'created', retry_count INTEGER NOT NULL DEFAULT 0,
  last_error TEXT, next_retry_at TEXT,
  created_on TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_on TEXT, completed_on TEXT, keep_alive TEXT,
  expire_in_seconds INTEGER NOT NULL DEFAULT 300);
CREATE TABLE IF NOT EXISTS outbox_events_archive (
  id TEXT PRIMARY KEY, type TEXT NOT NULL, payload TEXT NOT NULL, occurred_at TEXT NOT NULL,
  status TEXT NOT NULL, retry_count INTEGER NOT NULL, last_error TEXT,
  created_on TEXT NOT NULL, started_on TEXT, completed_on TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS idx_outbox_events_status_retry
  ON outbox_events (status, next_retry_at);
"""


def iso(seconds=0.0):
    """Now, or so much later, as JavaScript's toISOString() writes it."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


class Bus:
    def __init__(self, path, max_retries=5, backoff=1.0, batch=50):
        self.db = sqlite3.connect(path, isolation_level=None, timeout=5)
        self.db.row_factory = sqlite3.Row
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.executescript(TABLES)
        self.max_retries, self.backoff, self.batch = max_retries, backoff, batch

    def publish(self, kind, payload, event_id=None):
        event_id = event_id or str(uuid.uuid4())
        self.db.execute(
            "INSERT INTO outbox_events (id, type, payload, occurred_at, status) "
            "VALUES (?, ?, ?, ?, 'created')",
            (event_id, kind, json.dumps(payload), iso()),
        )
        return event_id

    def claim(self):
        """Select, then update, in a deferred transaction; no order is asked for."""
        now = iso()
        self.db.execute("BEGIN")
        try:
            rows = self.db.execute(
                "SELECT * FROM outbox_events WHERE status = 'created' "
                "OR (status = 'failed' AND retry_count < ? AND next_retry_at <= ?) "
                "OR (status = 'active' AND datetime(keep_alive, '+' || expire_in_seconds "
                "|| ' seconds') < datetime(?)) LIMIT ?",
                (self.max_retries, now, now, self.batch),
            ).fetchall()
            marks = ",".join("?" * len(rows))
            self.db.execute(
                "UPDATE outbox_events SET status = 'active', started_on = ?, "
                f"keep_alive = ? WHERE id IN ({marks})",
                (now, now, *(row["id"] for row in rows)),
            )
            self.db.execute("COMMIT")
        except sqlite3.OperationalError:  # busy: the other program was faster
            self.db.execute("ROLLBACK")
            return now, []
        return now, rows

    def fail(self, row, now, error):
        count = row["retry_count"] + 1
        self.retrying(
            "UPDATE outbox_events SET status = 'failed', retry_count = ?, last_error = ?, "
            "next_retry_at = ? WHERE id = ?",
            (count, error, iso(self.backoff * 2 ** (count - 1)), row["id"]),
        )

    def retrying(self, sql, values):
        while True:
            try:
                return self.db.execute(sql, values)
            except sqlite3.OperationalError as busy:
                if "locked" not in str(busy):
                    raise

    def archive(self, rows, now):
        self.retrying("BEGIN IMMEDIATE", ())
        for row in rows:
            self.db.execute(
                "INSERT INTO outbox_events_archive (id, type, payload, occurred_at, status, "
                "retry_count, last_error, created_on, started_on, completed_on) "
                "VALUES (?, ?, ?, ?, 'completed', ?, ?, ?, ?, ?)",
                (row["id"], row["type"], row["payload"], row["occurred_at"],
                 row["retry_count"], row["last_error"], row["created_on"], now, iso()),
            )
            self.db.execute("DELETE FROM outbox_events WHERE id = ?", (row["id"],))
        self.db.execute("COMMIT")

    def poll(self, handler):
        """One batch: handlers one after another, what succeeded archived at its end."""
        now, rows = self.claim()
        done = []
        for row in rows:
            try:
                handler({"id": row["id"], "type": row["type"],
                         "payload": json.loads(row["payload"])})
                done.append(row)
            except ValueError as error:
                self.fail(row, now, str(error))
        if done:
            self.archive(done, now)
        return len(rows)

    def failed(self):
        return self.db.execute(
            "SELECT * FROM outbox_events WHERE status = 'failed' "
            "ORDER BY occurred_at DESC LIMIT 100"
        ).fetchall()

    def retry(self, ids):
        marks = ",".join("?" * len(ids))
        self.retrying(
            "UPDATE outbox_events SET status = 'created', retry_count = 0, "
            f"last_error = NULL, next_retry_at = NULL WHERE id IN ({marks})", ids)


def main(path, log):
    bus = Bus(path)
    with open(log, "a", encoding="utf-8") as out:
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            bus.poll(lambda event: print(event["id"], file=out, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
