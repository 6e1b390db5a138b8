"""A PostgreSQL server that is killed and started again, and a shop on it.

Processes are killed, not the machine: what they wrote is there, synced or not, so fsync is
off.  A kill may tear a page that is being written, so full_page_writes is on.
"""

import json
import os
import subprocess
import time

import kill
import tap
import victims

WRITER = os.path.join(tap.BUILD, "tests", "crash_postgres_main")
SETTINGS = [
    "full_page_writes=on", "deadlock_timeout=50ms", "wal_writer_delay=1s", "autovacuum=on",
    "autovacuum_naptime=1s",
]  # fmt: skip


class NoServer(Exception):
    """None is installed."""


class Server:
    def __init__(self, log, settings=()):
        script = os.path.join(tap.SOURCE, "tests", "postgres", "server.sh")
        self.process = subprocess.Popen(
            ["bash", script, *SETTINGS, *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log, text=True,
        )  # fmt: skip
        self.folder = self.process.stdout.readline().strip()
        if not self.folder:
            raise NoServer if self.process.wait() == 77 else RuntimeError("no server starts")

    def kill(self):
        """Its first process; the others end as soon as they notice."""
        with open(os.path.join(self.folder, "pid")) as number:
            pid = int(number.read())
        if kill.try_kill(pid):
            self.process.stdin.write(f"start {pid}\n")
            self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def with_server(folder, connections, work):
    """Call work(server) with a private server, or with None where none is installed."""
    with open(os.path.join(folder, "log"), "a") as log:
        try:
            server = Server(log, [f"max_connections={connections}"])
        except NoServer:
            server = None
        try:
            work(server)
        finally:
            if server:
                server.close()


class Answer(list):
    def fetchone(self):
        return self[0] if self else None


class Database:
    """Runs SQL through psql; tries until there is an answer."""

    def __init__(self, server, log):
        self.command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                        "-h", server.folder, "-U", "wherry", "postgres", "-c"]  # fmt: skip
        self.log = log

    def run(self, sql):
        for _ in range(300):
            done = subprocess.run([*self.command, sql], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=self.log, text=True)
            if done.returncode == 0:
                return done.stdout
            time.sleep(0.1)
        raise RuntimeError(f"the server does not answer: {sql}")

    def execute(self, sql):
        lines = self.run(f"SELECT row_to_json(rows) FROM ({sql}) AS rows").splitlines()
        return Answer(tuple(json.loads(line).values()) for line in lines)

    def close(self):
        pass


class Shop(victims.Shop):
    OF_POSITION = """(p.mask >> (coalesce(hashtextextended((CASE WHEN o.partition_key <> '' THEN '=' || o.partition_key
      WHEN o.aggregate_type <> '' OR o.aggregate_id <> ''
      THEN length(o.aggregate_type)::text || ':' || o.aggregate_type || o.aggregate_id END) COLLATE "C", 0), o.id)
      & 63)::integer) & 1 = 1"""
    UNCOVERED = "o.id > p.high OR NOT pg_visible_in_snapshot(o.tx, p.seen)"
    LEADER = "SELECT owner FROM wherry_lease WHERE expires_at > clock_timestamp()"
    SERVER = []  # more settings of the server

    def make(self, path):
        self.server = Server(self.log, self.SERVER)
        self.path = self.url = "postgres://wherry@/postgres?host=" + self.server.folder
        self.sync = self.rng.random() < 0.7
        self.db = Database(self.server, self.log)
        self.wherry("create", self.url, check=True)
        self.db.run(
            "CREATE TABLE ledger(id text PRIMARY KEY, k text NOT NULL, n bigint NOT NULL);"
            "CREATE TABLE counter(k text PRIMARY KEY, n bigint NOT NULL);"
            "CREATE EXTENSION amcheck"
        )

    def integrity(self):
        """Rows and indexes agree; so do message ids and their index."""
        self.db.run("SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class AS i "
                    "ON i.oid = indexrelid WHERE i.relname LIKE 'outbox%'")  # fmt: skip
        return "ok"

    def relay_arguments(self, sync):
        """With or without it, all relays of a shop."""
        return super().relay_arguments(self.sync)

    def in_postgres(self):
        return self.writer("w", WRITER)

    def victims(self, kinds):
        commands = {"relay": self.relay, "writer": self.in_postgres}
        return [Victim(self, kind, commands[kind], self.log) for kind in kinds]

    def wait_ready(self):
        self.db.run("SELECT 1")
        time.sleep(0.1)  # one that was killed just now may have answered
        self.db.run("SELECT 1")

    def close(self):
        super().close()
        self.server.close()


class Victim(victims.Victim):
    """A relay that finds no server when it starts ends, as it should."""

    def __init__(self, shop, *about):
        self.shop, self.unlucky = shop, 0
        super().__init__(*about)

    def start(self):
        self.shop.wait_ready()
        self.began = time.monotonic()
        super().start()

    def revive(self):
        """Start it again, if it ended; whose fault that was is seen by when."""
        code = self.process.poll()
        if code is None:
            return
        self.note(code)
        self.start()

    def note(self, code):
        if code == 1 and self.kind != "writer" and time.monotonic() - self.began < 30:
            self.unlucky += 1
        else:
            self.ends.append(code)

    def kill(self):
        self.revive()
        super().kill()
