"""Work on a queue in one database and write to another one, each job once, in Python with psycopg.

The id of a job and what it writes are one transaction of the second database. The job is
acknowledged afterwards: if this program ends in between, it comes again, and the inbox knows it.

usage: mailer.py postgres://USER@HOST/OF_QUEUE QUEUE postgres://USER@HOST/OF_INBOX
"""

import json
import sys

import psycopg

ATTEMPTS = 5


def handle(mails, message_id, body):
    """Write the mail. False if the job was handled before."""
    with mails.transaction():
        (new,) = mails.execute("SELECT wherry_accept(%s)", (message_id,)).fetchone()
        if new:
            mails.execute("INSERT INTO mails(order_id) VALUES (%s)", (json.loads(body)["order"],))
    return new


def main():
    queue_url, queue, mails_url = sys.argv[1:4]
    with psycopg.connect(queue_url, autocommit=True) as jobs, psycopg.connect(
        mails_url, autocommit=True
    ) as mails:
        while messages := jobs.execute(
            "SELECT id, message_id, body, token FROM wherry_receive(%s, 10, '1 minute', %s)",
            (queue, ATTEMPTS),
        ).fetchall():
            for number, message_id, body, token in messages:
                new = handle(mails, message_id, body)
                jobs.execute("SELECT wherry_ack(%s, %s, %s)", (queue, number, token))
                print("done" if new else "seen before", flush=True)


main()
