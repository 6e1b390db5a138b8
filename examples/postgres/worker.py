"""Work on a queue, from Python with psycopg: write the mails that the jobs ask for.

What a job writes and its acknowledgement are one transaction, so each job takes effect once.

usage: worker.py postgres://USER@HOST/DATABASE QUEUE [--until-empty]
"""

import json
import select
import sys

import psycopg

ATTEMPTS = 5
LOOK_AGAIN = 10


class LeaseLost(Exception):
    """Another worker has the job."""


def handle(db, job):
    """Do a job, in the transaction that is open."""
    db.execute("INSERT INTO mails(order_id) VALUES (%s)", (job["order"],))


def work(db, queue, message):
    number, body, attempts, token = message
    try:
        with db.transaction():
            handle(db, json.loads(body))
            (held,) = db.execute(
                "SELECT wherry_ack(%s, %s, %s)", (queue, number, token)
            ).fetchone()
            if not held:
                raise LeaseLost
        print(f"done: {number}")
    except LeaseLost:
        print(f"another worker has it: {number}")
    except Exception as why:
        print(f"failed: {number}")
        if attempts < ATTEMPTS:
            db.execute(
                "SELECT wherry_nack(%s, %s, %s, delay => %s::interval, error => %s)",
                (queue, number, token, f"{2**attempts} s", str(why)),
            )
        else:
            db.execute(
                "SELECT wherry_dead_letter(%s, %s, %s, %s)", (queue, number, token, str(why))
            )


def receive(db, queue, after):
    return db.execute(
        "SELECT id, body, attempts, token FROM wherry_receive(%s, 10, '1 minute', %s, %s)",
        (queue, ATTEMPTS, after),
    ).fetchall()


def main():
    url, queue = sys.argv[1:3]
    with psycopg.connect(url, autocommit=True) as db:
        notified = []
        db.add_notify_handler(notified.append)
        listens = False
        after = receives = 0
        while True:
            notified.clear()
            receives += 1
            if receives % LOOK_AGAIN == 0:
                after = 0  # messages that were given back have lower ids
            began, messages = after, receive(db, queue, after)
            after = messages[-1][0] if messages else 0
            if messages and listens:
                db.execute("SELECT wherry_unlisten(%s)", (queue,))
                listens = False
            for message in messages:
                work(db, queue, message)
            if messages or began:
                continue
            if "--until-empty" in sys.argv:
                return
            if not listens:
                (listens,) = db.execute("SELECT wherry_listen(%s)", (queue,)).fetchone()
                if listens:
                    continue  # for what was sent before
            if not notified:
                # Not for longer, since messages also come when their time has come.
                select.select([db], [], [], 1 if listens else 0.25)


main()
