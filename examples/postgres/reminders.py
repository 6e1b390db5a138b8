"""Work on a delayed queue, from Python with psycopg: write the mails that are due.

What a message writes and its acknowledgement are one transaction, so each takes effect once, and
one that was replaced meanwhile takes none.

usage: reminders.py postgres://USER@HOST/DATABASE QUEUE [--until-empty]
"""

import json
import sys
import time

import psycopg

ATTEMPTS = 5


class NotOurs(Exception):
    """It was replaced, or another worker has it."""


def handle(db, key, reminder):
    """Do what is due, in the transaction that is open."""
    db.execute("INSERT INTO mails(key, order_id) VALUES (%s, %s)", (key, reminder["order"]))


def work(db, queue, message):
    key, body, attempts, token = message
    try:
        with db.transaction():
            handle(db, key, json.loads(body))
            (outcome,) = db.execute("SELECT wherry_done(%s, %s)", (queue, token)).fetchone()
            if outcome != "acknowledged":
                raise NotOurs(outcome)
        print(f"done: {key}")
    except NotOurs as why:
        print(f"{why}: {key}")
    except Exception as why:
        print(f"failed: {key}")
        if attempts < ATTEMPTS:
            db.execute(
                "SELECT wherry_delayed_nack(%s, %s, delay => %s::interval, error => %s)",
                (queue, token, f"{2**attempts} s", str(why)),
            )
        else:
            db.execute("SELECT wherry_delayed_dead_letter(%s, %s, %s)", (queue, token, str(why)))


def main():
    url, queue = sys.argv[1:3]
    with psycopg.connect(url, autocommit=True) as db:
        while True:
            messages = db.execute(
                "SELECT key, body, attempts, token FROM wherry_poll(%s, 10, '1 minute', %s)",
                (queue, ATTEMPTS),
            ).fetchall()
            for message in messages:
                work(db, queue, message)
            if not messages:
                if "--until-empty" in sys.argv:
                    return
                time.sleep(1)


main()
