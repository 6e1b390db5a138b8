"""Workers in Python that are killed, and whose connections are: count what was done. Prints TAP.

As a worker: client_python_kills.py WHERRY EXTENSION URL DRIVER KIND.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

from client_python_shared import EXTENSION, WHERRY, Place, check, finish, places, until

import wherry
import wherry.aio

MESSAGES = 600


def work(url, driver, kind):
    """Write each job, in its transaction."""
    made = wherry.Worker if kind == "threads" else wherry.aio.Worker
    worker = made(url, driver=driver, extension=EXTENSION, grace=2)
    place = Place.__new__(Place)
    place.driver, place.kind, place.sqlite = driver, kind, driver == "sqlite3"
    worker.handler("writes", transaction=True, lease=1, poll=0.2, backoff=lambda _: 0.05, max_attempts=0)(place.writer())
    if kind == "threads":
        worker.run()
    else:
        asyncio.run(worker.run())


def kills(place):
    seed = int(os.environ.get("WHERRY_CRASH_SEED", "1"))
    chosen = random.Random(seed)
    place.queue("writes")
    command = [sys.executable, __file__, WHERRY, EXTENSION, place.url, place.driver, place.kind]
    workers = []

    def start():
        workers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))

    start()
    start()
    rounds = killed = 0
    for n in range(MESSAGES):
        place.send("writes", {"job": n})
        if n % 30 == 29:
            done = place.value("SELECT count(*) FROM effects")
            until(lambda: place.value("SELECT count(*) FROM effects") >= min(n, done + 5))
            how = chosen.choice(["kill", "stop", "connection"])
            if how == "connection" and not place.sqlite:
                place.sql(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            else:
                victim = workers.pop(0)
                victim.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
                victim.wait(60)
                killed += 1
                start()
            rounds += 1
    until(lambda: place.value("SELECT count(*) FROM writes") == 0, 90)
    for worker in workers:
        worker.terminate()
    ends = [worker.wait(60) for worker in workers]
    ((rows, jobs),) = place.sql("SELECT count(*), count(DISTINCT job) FROM effects")
    left = place.value("SELECT count(*) FROM writes")
    check(
        f"{place.name}: of {MESSAGES} jobs none is lost and none done twice, in {rounds} rounds, {killed} of them kills and stops",
        (rows, jobs, left) == (MESSAGES, MESSAGES, 0),
        (rows, jobs, left, seed),
    )
    # One that has only just begun is ended by the signal.
    check(f"{place.name}: workers that stop end well", set(ends) <= {0, -signal.SIGTERM}, ends)


if len(sys.argv) > 4:
    work(*sys.argv[3:6])
else:
    for place in places():
        began = time.monotonic()
        kills(place)
        print(f"# {time.monotonic() - began:.1f} s")
        place.admin.close()
    finish()
