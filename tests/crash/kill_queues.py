"""Workers of a queue that are killed at random: what each mode of receiving promises is counted.

Four workers move money between accounts, one move for each message.  In mode atomic, and with an
inbox in another database, each message is applied once and the sum stays.  Under a lease none is
lost, and those that were applied twice were in the hands of a worker that was killed, or was slower than its lease.  At most
once, none is applied twice, and those that were lost were in such hands.

WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which; WHERRY_ROWS_ONLY: cases whose name
contains this.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time

import postgres
import tap
import victims

WORKER = os.path.join(tap.BUILD, "tests", "crash_queue_postgres_main")
WORKERS = 4
BATCH = 3  # as in the worker
ACCOUNTS = 8
PATIENCE = 120  # seconds
TABLES = (
    "CREATE TABLE accounts(id integer PRIMARY KEY, balance bigint)",
    "CREATE TABLE applied(message_id varchar(60))",
    "CREATE TABLE late(n integer)",  # one for each message applied by a worker whose lease had ended
    "INSERT INTO accounts " + " UNION ALL ".join(f"SELECT {i}, 1000" for i in range(ACCOUNTS)),
)


class Place:
    def await_work(self):
        """Before a kill: workers begin at once."""


class PostgreSQL(Place):
    """One database for the queue and the bank, or two."""

    def __init__(self, server, name, layout, apart):
        self.server, self.name, self.layout = server, name, layout
        self.bank_name = name + "_bank" if apart else name
        for database in {self.name, self.bank_name}:
            self.psql("postgres", f"CREATE DATABASE {database}")
        self.url = self.url_of(self.name)
        self.bank = self.url_of(self.bank_name)
        self.bank_url = self.bank

    def url_of(self, database):
        return f"postgres://wherry@/{database}?host={self.server.folder}"

    def psql(self, database, sql):
        done = subprocess.run(
            ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.server.folder,
             "-U", "wherry", database], input=sql, text=True, check=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        return [tuple(line.split("|")) for line in done.stdout.splitlines()]

    def in_bank(self, sql):
        return self.psql(self.bank_name, sql)

    def send(self, messages):
        if self.layout == "native":
            rows = [f"SELECT wherry_send('jobs', '\"{body}\"', message_id => '{message_id}');"
                    for message_id, body in messages]  # fmt: skip
        else:
            rows = ["INSERT INTO jobs(id, headers, body) VALUES (gen_random_uuid(), "
                    f"'{{\"NServiceBus.MessageId\":\"{message_id}\"}}', '{body}');"
                    for message_id, body in messages]  # fmt: skip
        self.psql(self.name, "BEGIN;" + "\n".join(rows) + "COMMIT;")


class SQLite(Place):
    def __init__(self, folder, name, apart):
        self.path = os.path.join(folder, name + ".db")
        self.bank = os.path.join(folder, name + "_bank.db") if apart else self.path
        self.url, self.bank_url = "sqlite:" + self.path, "sqlite:" + self.bank

    def run(self, path, sql):
        db = sqlite3.connect(path, timeout=60, isolation_level=None)
        try:
            return [tuple(str(v) for v in row) for row in db.execute(sql)]
        finally:
            db.close()

    def in_bank(self, sql):
        return self.run(self.bank, sql)

    def send(self, messages):
        values = ", ".join(f"""('{message_id}', '"{body}"')""" for message_id, body in messages)
        self.run(self.path, f"INSERT INTO jobs(message_id, body) VALUES {values}")


def length(database):
    out = subprocess.run(
        [tap.WHERRY, "status", f"{database.url}#jobs", "--json"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    return json.loads(out)


def drained(database):
    state = length(database)
    return state["ready"] + state["leased"] + state["waiting"] == 0


def play(title, mode, database, layout, folder, rng, rounds, tell_round):
    log = open(os.path.join(folder, "log"), "a")
    make = [tap.WHERRY, "create", "--kind", "queue", f"{database.url}#jobs", "--layout", layout]
    subprocess.run(make, stdout=log, stderr=log, check=True)
    if mode == "inbox":
        make = [tap.WHERRY, "create", "--kind", "inbox", database.bank_url]
        subprocess.run(make, stdout=log, stderr=log, check=True)
    for sql in TABLES:
        database.in_bank(sql)
    sent, kills = [], 0

    def send(n):
        some = [(f"m{len(sent) + i}", f"{rng.randrange(ACCOUNTS)} {rng.randrange(ACCOUNTS)} "
                 f"{rng.randrange(1, 50)}") for i in range(n)]  # fmt: skip
        sent.extend(some)
        database.send(some)

    send(200)
    command = [WORKER, mode, database.url, database.bank]
    workers = [victims.Victim("worker", lambda: command, log) for _ in range(WORKERS)]
    try:
        for _ in range(rounds):
            send(rng.randrange(20, 120))
            database.await_work()
            time.sleep(rng.random() * 0.05)
            worker = rng.choice(workers)
            worker.kill()
            worker.start()
            kills += 1
            tell_round()
        done = tap.wait_until(PATIENCE, lambda: drained(database))
    finally:
        for worker in workers:
            worker.kill()
    # The last kill takes no message along: the queue was empty.
    judge(title, mode, database, {message_id for message_id, _ in sent}, kills, workers, done)
    log.close()


def judge(title, mode, database, sent, kills, workers, done):
    rows = database.in_bank("SELECT message_id, count(*) FROM applied GROUP BY message_id")
    applied = {message_id: int(n) for message_id, n in rows}
    total = int(database.in_bank("SELECT sum(balance) FROM accounts")[0][0])
    lost = len(sent - set(applied))
    again = sum(n - 1 for n in applied.values())
    tap.check(f"{title}: the queue is drained", done, length(database))
    tap.check(f"{title}: no worker ends by itself", not any(w.ends for w in workers),
              *victims.last_words(workers))  # fmt: skip
    tap.check(f"{title}: the sum is right", total == ACCOUNTS * 1000, f"it is {total}")
    most_lost = kills * BATCH if mode == "once" else 0
    late = int(database.in_bank("SELECT count(*) FROM late")[0][0])
    most_again = kills * BATCH + late if mode == "lease" else 0
    tap.check(f"{title}: at most {most_lost} of {len(sent)} messages are lost",
              lost <= most_lost, f"{lost} are")  # fmt: skip
    tap.check(f"{title}: at most {most_again} are applied twice", again <= most_again,
              f"{again} are")  # fmt: skip
    tap.tell_counts({"kills": kills, f"messages {mode}": len(sent), f"lost {mode}": lost,
                     f"applied twice {mode}": again}, title)  # fmt: skip


def cases(server, folder):
    modes = ("atomic", "inbox", "lease", "once")
    for mode in modes:
        yield f"SQLite, {mode}", mode, "native", SQLite(folder, mode, mode == "inbox")
    if not server:
        tap.skip("workers on PostgreSQL that are killed", "no PostgreSQL server is installed")
        return
    for layout in ("native", "nservicebus"):
        for mode in modes:
            name = f"{layout}_{mode}"
            yield (f"PostgreSQL, {layout}, {mode}", mode, layout,
                   PostgreSQL(server, name, layout, mode == "inbox"))  # fmt: skip


def run(folder, seed, rounds, tell_round):
    rng = random.Random(seed)
    each = max(2, rounds // 12)
    only = os.environ.get("WHERRY_ROWS_ONLY") or ""

    def work(server):
        for title, mode, layout, database in cases(server, folder):
            if only in title:
                play(title, mode, database, layout, folder, rng, each, tell_round)

    postgres.with_server(folder, 40, work)


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-queues", 36, 240, run))
