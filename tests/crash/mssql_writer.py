"""A writer in T-SQL: mssql_writer.py NAME SEED PACE_MS FILL

A few messages a transaction, each with its row in the table ledger, some of it rolled back; by INSERT or
by the procedure wherry_enqueue.  Transactions that write a key come one after the other, since they
update its row in the table counter.  Ends when killed.
"""

import json
import random
import sys
import time

import mssql

KEYS = [("key", str(n)) for n in range(6)] + [("aggregate", str(n)) for n in range(6)]
DEADLOCK = "(1205)"


class Writer:
    def __init__(self, name, seed, pace_ms, fill):
        self.rng = random.Random(int(seed))
        self.name, self.n = name, 0
        self.pace_s, self.fill = float(pace_ms) / 1000, int(fill)
        self.db = mssql.connect()
        self.db.autocommit = False  # a transaction is always open

    def place(self, key):
        """The message's number within its key; nobody else writes the key before this one commits."""
        if not key:
            return 0
        self.db.execute("UPDATE counter SET n = n + 1 WHERE k = ?", key)
        return self.db.execute("SELECT n FROM counter WHERE k = ?", key).fetchone()[0]

    def send(self):
        kind, number = self.rng.choice([*self.rng.sample(KEYS, 3), ("", "")])
        key = f"{kind}:{number}" if kind else ""
        ident = f"{self.name}-{self.n}"
        self.n += 1
        body = {"k": key, "n": self.place(key)}
        if self.fill and self.rng.random() < 0.02:
            body["fill"] = "x" * self.rng.randrange(self.fill)
        self.db.execute("INSERT INTO ledger(id, k, n) VALUES (?, ?, ?)", ident, key, body["n"])
        aggregate = ("thing", number) if kind == "aggregate" else ("", "")
        self.db.execute(
            self.rng.choice([
                "INSERT INTO outbox(message_id, topic, aggregate_type, aggregate_id, partition_key, payload) "
                "VALUES (?, N'crash', ?, ?, ?, ?)",
                "EXEC wherry_enqueue @message_id = ?, @topic = N'crash', @aggregate_type = ?, "
                "@aggregate_id = ?, @key = ?, @payload = ?",
            ]),
            ident, *aggregate, number if kind == "key" else None, json.dumps(body),
        )  # fmt: skip

    def transact(self):
        for _ in range(self.rng.randint(1, 8)):
            self.send()
        if self.rng.random() < 0.05:
            time.sleep(self.rng.random() / 10)  # others commit higher ids meanwhile
        if self.rng.random() < 0.2:
            self.db.rollback()
        else:
            self.db.commit()

    def begin_again(self):
        """The server has rolled the transaction back, and the driver does not know it."""
        self.db.close()
        self.db = mssql.connect()
        self.db.autocommit = False

    def run(self):
        while True:
            try:
                self.transact()
            except Exception as error:
                if DEADLOCK not in str(error):
                    raise
                self.begin_again()
            time.sleep(self.rng.random() * self.pace_s)


if __name__ == "__main__":
    Writer(*sys.argv[1:]).run()
