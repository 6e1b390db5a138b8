"""Kills programs whose handlers write, two at a time; then the last ones end the work, and rows are
counted: each is there once.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import tap

MAIN = os.path.join(tap.BUILD, "tests", "crash_handlers_main")
PER_ROUND = 60
KEYS = 7
OPEN = """SELECT (SELECT count(*) FROM outbox, outbox_progress WHERE id > high)
  + (SELECT count(*) FROM outbox_exception)"""


class Shop:
    def __init__(self, folder):
        self.path = os.path.join(folder, "shop.db")
        self.log = os.path.join(folder, "log")
        self.orders = 0
        subprocess.run([tap.WHERRY, "create", f"sqlite:{self.path}"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        # No key but their own order: a row that is written twice is there twice.
        self.db.executescript("CREATE TABLE bills(number); CREATE TABLE mails(number);")

    def put(self, n):
        self.db.execute("BEGIN IMMEDIATE")
        for i in range(self.orders, self.orders + n):
            self.db.execute("INSERT INTO outbox(topic, partition_key, payload) VALUES (?, ?, ?)",
                            ("orders", f"k{i % KEYS}", str(i)))
        self.db.execute("COMMIT")
        self.orders += n

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            return subprocess.Popen([MAIN, self.path], stdout=log, stderr=log)

    def number(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def column(self, sql):
        return [row[0] for row in self.db.execute(sql)]


def out_of_order(shop, table):
    """Rows of one key stand in the order of their numbers."""
    last, bad = {}, []
    for number in map(int, shop.column(f"SELECT number FROM {table} ORDER BY rowid")):
        key = number % KEYS
        if number <= last.get(key, -1):
            bad.append(f"{table}: {number} after {last[key]}")
        last[key] = number
    return bad


def count(shop):
    each = [str(i) for i in range(shop.orders)]
    for table in "bills", "mails":
        rows = shop.column(f"SELECT number FROM {table}")
        missing, twice = set(each) - set(rows), len(rows) - len(set(rows))
        tap.check(f"each order has one row in {table}", sorted(rows) == sorted(each),
                  f"{len(missing)} missing, {twice} twice, of {shop.orders}")
        bad = out_of_order(shop, table)
        tap.check(f"{table} are in order", not bad, *bad[:20])
    tap.check("no follow-up message was written twice",
              shop.number("SELECT count(*) FROM outbox WHERE topic = 'bills'") == shop.orders)


def run(folder, seed, rounds, tell_round):
    rng = random.Random(seed)
    shop = Shop(folder)
    relays = [shop.start(), shop.start()]
    for _ in range(rounds):
        shop.put(PER_ROUND)
        time.sleep(rng.uniform(0.02, 0.25))
        i = rng.randrange(2)
        relays[i].send_signal(signal.SIGKILL)
        relays[i].wait()
        relays[i] = shop.start()
        tell_round()
    ended = tap.wait_until(60, lambda: shop.number(OPEN) == 0)
    tap.check("all is done in the end", ended, f"{shop.number(OPEN)} are open")
    for relay in relays:
        relay.kill()
        relay.wait()
    count(shop)
    tap.tell_counts({"kills": rounds, "orders": shop.orders}, "")
    shop.db.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-handlers", 24, 40 if tap.rounds(24) > 24 else 8, run))
