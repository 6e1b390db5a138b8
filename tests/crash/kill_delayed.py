"""Producers and consumers of a delayed queue that are killed at random.

Eight producers replace each other's messages, since they share few keys, and eight consumers apply
them and drop some.  The last offer of a key, and each one that was applied before the next one, is
applied, unless it was dropped; each other one was replaced.  Where a message is applied and acknowledged in one transaction, it is
applied once, and a replaced one never.  Otherwise a message may be applied again if the consumer
that applied it was killed.

WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.  WHERRY_CRASH_SECONDS: how long the cases
with 2,000 keys go on at least.
"""

import collections
import itertools
import json
import os
import random
import subprocess
import sys
import time

import kill_queues
import postgres
import tap
import victims

PROGRAM = os.path.join(tap.BUILD, "tests", "crash_delayed_postgres_main")
EACH = 8  # producers, and as many consumers
PATIENCE = 120  # seconds
OFFERS_LEAST = 300
FEW, MANY = 40, 2000  # keys
SECONDS = float(os.environ.get("WHERRY_CRASH_SECONDS", 0))  # with many keys, at least
TABLES = {
    "sqlite": "CREATE TABLE offered(id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT, body TEXT, "
    "created INTEGER)",
    "postgres": "CREATE TABLE offered(id bigserial PRIMARY KEY, k text, body text, created integer)",
    "mssql": "CREATE TABLE offered(id bigint IDENTITY PRIMARY KEY, k varchar(20), body varchar(60), "
    "created integer)",
}
APPLIED = "CREATE TABLE applied(body varchar(60), who varchar(60))"
LATE = "CREATE TABLE late(body varchar(60), who varchar(60))"  # applied by these after their leases


def count(database):
    out = subprocess.run(
        [tap.WHERRY, "status", f"{database.url}#delayed/moves", "--json"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    return json.loads(out)


def drained(database):
    state = count(database)
    return state["ready"] + state["leased"] + state["waiting"] == 0


def play(title, mode, database, kind, keys, folder, rng, rounds, tell_round, each=EACH):
    log = open(os.path.join(folder, "log"), "a")
    make = [tap.WHERRY, "create", "--kind", "delayed", database.url]
    subprocess.run(make, stdout=log, stderr=log, check=True)
    database.in_bank(TABLES[kind])
    database.in_bank(APPLIED)
    database.in_bank(LATE)
    numbers, killed = itertools.count(), set()

    def command(role, letter):
        def make():
            return [PROGRAM, role, database.bank, f"{letter}{next(numbers)}", str(keys)]

        return make

    def kill(victim):
        killed.add(victim.process.args[-2])
        victim.kill()

    producers = [victims.Victim("producer", command("produce", "p"), log) for _ in range(each)]
    consumers = [victims.Victim("consumer", command(mode, "c"), log) for _ in range(each)]
    try:
        tap.wait_until(PATIENCE, lambda: offers(database) >= OFFERS_LEAST)
        end = time.monotonic() + (SECONDS if keys == MANY else 0)
        for n in itertools.count():
            if n >= rounds and time.monotonic() >= end:
                break
            database.await_work()
            time.sleep(rng.random() * 0.1)
            victim = rng.choice(producers + consumers)
            kill(victim)
            victim.start()
            if n < rounds:
                tell_round()
        for producer in producers:
            kill(producer)
        done = tap.wait_until(PATIENCE, lambda: drained(database))
    finally:
        # The last kills take no message along: the queue is empty.
        for victim in producers + consumers:
            victim.kill()
    judge(title, mode, database, killed, producers + consumers, done)
    log.close()


def offers(database):
    return int(database.in_bank("SELECT count(*) FROM offered")[0][0])


def judge(title, mode, database, killed, processes, done):
    offered = database.in_bank("SELECT k, body, created FROM offered ORDER BY k, id")
    appliers = collections.defaultdict(list)
    for body, who in database.in_bank("SELECT body, who FROM applied"):
        appliers[body].append(who)
    replaced = {
        body for (key, body, _), (after, _, created) in itertools.pairwise(offered)
        if key == after and created == "0"
    }  # fmt: skip
    drops = {body for _, body, _ in offered if body.startswith("drop ")}
    bodies = {body for _, body, _ in offered} - drops
    replaced -= drops
    lost = bodies - replaced - set(appliers)
    again = {body: who for body, who in appliers.items() if len(who) > 1}
    tap.check(f"{title}: the queue is drained", done, count(database))
    tap.check(f"{title}: no process ends by itself", not any(v.ends for v in processes),
              *victims.last_words(processes))  # fmt: skip
    tap.check(f"{title}: no message is lost", not lost, sorted(lost)[:20])
    tap.check(f"{title}: only offers that were committed are applied", set(appliers) <= bodies,
              sorted(set(appliers) - bodies)[:20])  # fmt: skip
    if mode == "apart":
        # One of those that applied it acknowledged it, and each other one was killed before or was
        # so slow that its lease ended.
        late = set(database.in_bank("SELECT body, who FROM late"))
        firm = {b: [who for who in w if (b, who) not in late] for b, w in again.items()}
        strange = {b: again[b] for b, w in firm.items()
                   if len(set(w) - killed) > 1 or len(set(w)) < len(w)}  # fmt: skip
        tap.check(f"{title}: a message is applied again only if its consumer was killed, or late",
                  not strange, strange)  # fmt: skip
    else:
        tap.check(f"{title}: no message is applied twice", not again, again)
        stale = replaced & set(appliers)
        tap.check(f"{title}: no message that was replaced is applied", not stale,
                  sorted(stale)[:20])  # fmt: skip
    tap.tell_counts({"kills": len(killed), f"offers {mode}": len(bodies),
                     f"replaced or dropped {mode}": len(replaced), f"lost {mode}": len(lost),
                     f"applied again {mode}": len(again)}, title)  # fmt: skip


def cases(server, folder):
    modes = ("atomic", "lease", "apart")
    for mode in modes:
        yield f"SQLite, {mode}", mode, kill_queues.SQLite(folder, mode, False), "sqlite", FEW
    yield "SQLite, many keys", "lease", kill_queues.SQLite(folder, "many", False), "sqlite", MANY
    if not server:
        tap.skip("a delayed queue on PostgreSQL", "no PostgreSQL server is installed")
        return
    for mode in modes:
        database = kill_queues.PostgreSQL(server, f"delayed_{mode}", "native", False)
        yield f"PostgreSQL, {mode}", mode, database, "postgres", FEW
    database = kill_queues.PostgreSQL(server, "delayed_many", "native", False)
    yield "PostgreSQL, many keys", "lease", database, "postgres", MANY


def run(folder, seed, rounds, tell_round):
    rng = random.Random(seed)
    each = max(2, rounds // 8)

    def work(server):
        for title, mode, database, kind, keys in cases(server, folder):
            play(title, mode, database, kind, keys, folder, rng, each, tell_round)

    postgres.with_server(folder, 60, work)


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-delayed", 40, 240, run))
