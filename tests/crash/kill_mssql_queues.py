"""Workers, producers and consumers of queues and delayed queues on SQL Server that are killed at random.

As kill_queues.py and kill_delayed.py, on the database that WHERRY_TEST_MSSQL names.  By its seed a bout
has queues of the native layout or of NServiceBus.  A kill waits until a message was applied since the
one before, as a process needs a few seconds to begin where the server parses each statement in each
session.

WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which; WHERRY_ROWS_ONLY: cases whose name contains
this.
"""

import os
import random
import sys

import kill_delayed
import kill_queues
import mssql
import tap

PROCESSES = 3  # of each kind, of a delayed queue
PATIENCE = 60  # seconds


class Place(kill_queues.Place):
    """The database, empty, for a queue and the bank."""

    def __init__(self, db, layout):
        self.db, self.layout = db, layout
        self.url = self.bank_url = self.bank = mssql.URL
        self.n_applied = 0
        db.clear()

    def in_bank(self, sql):
        return [tuple(str(value) for value in row) for row in self.db.execute(sql)]

    def send(self, messages):
        for i in range(0, len(messages), 50):
            self.db.execute(";".join(self.row(*message) for message in messages[i : i + 50]))

    def row(self, message_id, body):
        if self.layout == "nservicebus":
            return ("INSERT INTO jobs(Id, Recoverable, Headers, Body) VALUES (NEWID(), 1, "
                    f"N'{{\"NServiceBus.MessageId\":\"{message_id}\"}}', CAST('{body}' AS VARBINARY(MAX)))")  # fmt: skip
        return f"INSERT INTO jobs(message_id, body) VALUES (N'{message_id}', N'\"{body}\"')"

    def count_applied(self):
        return self.db.execute("SELECT count(*) FROM applied").fetchone()[0]

    def await_work(self):
        tap.wait_until(PATIENCE, lambda: self.count_applied() > self.n_applied)
        self.n_applied = self.count_applied()


def cases(seed):
    layout = ("native", "nservicebus")[seed % 2]
    for mode in ("atomic", "inbox", "lease", "once"):
        yield f"SQL Server, {layout}, {mode}", mode, layout
    for mode in ("atomic", "lease", "apart"):
        yield f"SQL Server, delayed, {mode}", mode, None


def play(db, title, mode, layout, folder, rng, rounds, tell_round):
    place = Place(db, layout)
    if layout:
        kill_queues.play(title, mode, place, layout, folder, rng, rounds, tell_round)
    else:
        kill_delayed.play(title, mode, place, "mssql", kill_delayed.FEW, folder, rng, rounds,
                          tell_round, PROCESSES)  # fmt: skip


def run(folder, seed, rounds, tell_round):
    try:
        db = mssql.Database()
    except mssql.NoServer as reason:
        tap.skip("workers on SQL Server that are killed", str(reason))
        return
    rng = random.Random(seed)
    only = os.environ.get("WHERRY_ROWS_ONLY") or ""
    for title, mode, layout in cases(seed):
        if only in title:
            play(db, title, mode, layout, folder, rng, max(2, rounds // 7), tell_round)
    db.clear()
    db.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-mssql-queues", 14, 70, run))
