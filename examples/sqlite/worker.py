#!/usr/bin/env python3
"""A worker of a queue on SQLite: worker.py FILE EXTENSION QUEUE

It leases jobs, handles each and acknowledges it.  Run as many as you like on one file.
"""

import sqlite3
import sys
import time

file, extension, queue = sys.argv[1:]
db = sqlite3.connect(file, isolation_level=None, timeout=30)
db.enable_load_extension(True)
db.load_extension(extension)


def handle(body):
    print(body, flush=True)


while True:
    jobs = db.execute("SELECT id, body, token FROM wherry_receive(?, 10, '5 minutes', 5)", (queue,)).fetchall()
    for number, body, token in jobs:
        try:
            handle(body)
        except Exception as error:  # It comes again after a minute, and is dead after five attempts.
            db.execute("SELECT wherry_nack(?, ?, ?, '1 minute', ?)", (queue, number, token, str(error)))
        else:
            db.execute("SELECT wherry_ack(?, ?, ?)", (queue, number, token))
    if not jobs:
        time.sleep(0.2)
