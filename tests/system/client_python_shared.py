"""What the tests of the package for Python share: WHERRY EXTENSION URL."""

import asyncio
import contextlib
import faulthandler
import importlib.util
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time

import psycopg

import wherry
import wherry.aio

WHERRY, EXTENSION, URL = sys.argv[1:4]
ENV = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
count = failed = 0
faulthandler.dump_traceback_later(float(os.environ.get("WHERRY_HANGS", "280")), exit=True)
logging.basicConfig(filename="worker.log", level=logging.INFO)


def check(sentence, truth, seen=""):
    global count, failed
    count += 1
    if not truth:
        failed += 1
        print(f"# {seen}")
    print(f"{'ok' if truth else 'not ok'} {count} - {sentence}", flush=True)


def finish():
    print(f"1..{count}")
    sys.exit(1 if failed else 0)


def command(*words):
    return subprocess.run([WHERRY, *words], check=True, capture_output=True, text=True, env=ENV).stdout


def until(truth, seconds=20.0):
    """Wait until it is true; what it says at last."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said = truth()
        if said:
            return said
        time.sleep(0.01)
    return truth()


class Place:
    """A database with queues, and a driver."""

    def __init__(self, driver, kind):
        self.driver, self.kind = driver, kind
        self.name = f"{driver} {kind}"
        self.sqlite = driver == "sqlite3"
        if self.sqlite:
            path = f"{driver}_{kind}.db"
            self.url = f"sqlite:{path}"
            self.admin = sqlite3.connect(path, isolation_level=None, timeout=20, check_same_thread=False)
            wherry.load(self.admin, EXTENSION)
        else:
            base = f"{driver}_{kind}"
            with psycopg.connect(URL, autocommit=True) as db:
                db.execute(f"CREATE DATABASE {base}".encode())
            self.url = URL.replace("/postgres?", f"/{base}?")
            self.admin = psycopg.connect(self.url, autocommit=True)
        command("create", self.url)
        self.sql("CREATE TABLE effects(job bigint, attempt bigint)")

    def queue(self, name):
        command("create", "--kind", "queue", f"{self.url}#{name}")

    def sql(self, statement):
        cursor = self.admin.execute(statement)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement):
        rows = self.sql(statement)
        return rows[0][0] if rows else None

    def send(self, queue, *bodies, **options):
        if self.sqlite:
            self.admin.execute("BEGIN IMMEDIATE")
        ids = [wherry.send(self.admin, queue, body, **options) for body in bodies]
        if self.sqlite:
            self.admin.execute("COMMIT")
        return ids

    def worker(self, **options):
        made = wherry.Worker if self.kind == "threads" else wherry.aio.Worker
        return made(self.url, driver=self.driver, extension=EXTENSION, **options)

    def handler(self, function):
        """The function as a handler of this kind."""
        if self.kind == "threads":
            return function

        async def handle(*args):
            return function(*args)

        return handle

    def writer(self, before=None, after=None):
        """A handler that writes an effect in its transaction."""
        sql = "INSERT INTO effects VALUES ({}, {})"

        def statement(message):
            return sql.format(int(message.json()["job"]), message.attempt)

        if self.kind == "threads" or self.sqlite:

            def write(message, connection):
                if before:
                    before(message)
                if self.driver == "psycopg2":
                    with connection.cursor() as cursor:
                        cursor.execute(statement(message))
                else:
                    connection.execute(statement(message))
                if after:
                    after(message)

            return self.handler(write)

        async def awrite(message, connection):
            if before:
                before(message)
            await connection.execute(statement(message))
            if after:
                after(message)

        return awrite

    @contextlib.contextmanager
    def running(self, worker):
        """A worker that runs in a thread meanwhile, and stops."""
        ended = []

        def run():
            try:
                if self.kind == "threads":
                    worker.run()
                else:
                    asyncio.run(worker.run())
                ended.append(None)
            except BaseException as why:
                ended.append(why)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield ended
        finally:
            worker.stop()
            thread.join(60)
            if ended != [None]:
                check(f"{self.name}: the worker ends well", False, f"{ended}")


def places():
    """Every driver and kind that can run here."""
    for driver, kind in [
        ("psycopg", "threads"),
        ("psycopg2", "threads"),
        ("psycopg", "asyncio"),
        ("asyncpg", "asyncio"),
        ("sqlite3", "threads"),
        ("sqlite3", "asyncio"),
    ]:
        if f"{driver} {kind}" not in os.environ.get("WHERRY_ONLY", f"{driver} {kind}").split(","):
            continue
        if importlib.util.find_spec(driver) is None:
            print(f"# {driver} is not installed")
        elif driver == "sqlite3" and not hasattr(sqlite3.Connection, "enable_load_extension"):
            print("# this Python cannot load extensions of SQLite")
        else:
            yield Place(driver, kind)
