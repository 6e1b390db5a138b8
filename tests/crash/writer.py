"""A writer in plain SQL: writer.py DATABASE NAME SEED PACE_MS FILL

A few messages a transaction, each with its row in the table ledger, some rolled back.
Ends when killed, or with 3 if the disk is too full to open the database.
"""

import json
import random
import sqlite3
import sys
import time

KEYS = 6


class Writer:
    def __init__(self, path, name, seed, pace_ms, fill):
        self.rng = random.Random(int(seed))
        self.name, self.n = name, 0
        self.pace_s, self.fill = float(pace_ms) / 1000, int(fill)
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.db.execute("PRAGMA synchronous = " + self.rng.choice(["FULL", "NORMAL"]))
        self.db.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def send(self):
        kind = self.rng.choice(["key", "key", "aggregate", ""])
        number = str(self.rng.randrange(KEYS))
        key = f"{kind}:{number}" if kind else ""
        ident = f"{self.name}-{self.n}"
        self.n += 1
        (place,) = self.db.execute(
            "SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE k = ?", (key,)
        ).fetchone()
        body = {"k": key, "n": place}
        if self.fill and self.rng.random() < 0.02:
            body["fill"] = "x" * self.rng.randrange(self.fill)
        self.db.execute(
            "INSERT INTO outbox(message_id, topic, aggregate_type, aggregate_id,"
            " partition_key, payload) VALUES (?, 'crash', ?, ?, ?, ?)",
            (
                ident,
                "thing" if kind == "aggregate" else "",
                number if kind == "aggregate" else "",
                number if kind == "key" else None,
                json.dumps(body),
            ),
        )
        self.db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (ident, key, place))

    def transact(self):
        self.db.execute("BEGIN IMMEDIATE")
        for _ in range(self.rng.randint(1, 8)):
            self.send()
        if self.rng.random() < 0.02:
            time.sleep(self.rng.random() / 100)  # so that a kill may come here
        self.db.execute("ROLLBACK" if self.rng.random() < 0.2 else "COMMIT")

    def run(self):
        while True:
            try:
                self.transact()
            except sqlite3.OperationalError as error:
                if not no_room(error):
                    raise
                print(f"{self.name}: no room: {error}", file=sys.stderr, flush=True)
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                time.sleep(self.pace_s)
            time.sleep(self.rng.random() * self.pace_s)


def no_room(error):
    return "full" in str(error) or "disk I/O" in str(error)


if __name__ == "__main__":
    try:
        Writer(*sys.argv[1:]).run()
    except sqlite3.OperationalError as error:
        print(f"{sys.argv[2]}: no room, or worse: {error}", file=sys.stderr)
        sys.exit(3 if no_room(error) or "unable to open" in str(error) else 1)
