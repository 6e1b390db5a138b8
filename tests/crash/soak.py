"""Four pipelines in one daemon: PostgreSQL to Kafka and to a web server, SQLite to a web
server and to a file.  Writers commit all the time; what they wrote is in a ledger, in the same
transaction.  Meanwhile the broker and the web server go away, refuse and come back, PostgreSQL
is killed, and the daemon is stopped for a while, killed, or told to read its file again.
"""

import collections
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request

import judge
import postgres
import tap

BROKER = os.path.join(tap.SOURCE, "tests", "kafka", "broker.py")
LINKED = os.path.join(tap.BUILD, "tests", "publish_kafka_linked_test")  # built with librdkafka
PRODUCE = 0
# Answers to what was not written, and to what was, but not by enough.
NOT_LEADER, NOT_ENOUGH, TIMED_OUT, NOT_ENOUGH_AFTER = 6, 19, 7, 20
RECEIVER = os.path.join(tap.SOURCE, "tests", "webhook", "server.py")
KEYS, BATCH = 20, 25
# Windows are small, so that the first failure fills them: later they are no growth.
FILE = """
http: {{listen: '127.0.0.1:0'}}
defaults:
  lease: 2s
  sweep: 2s
  batch: 100
  window: 400
  stop_timeout: 5s
  retry: {{attempts: 1000, base: 20ms, cap: 500ms}}
relays:
  - {{name: kafka, from: '{pg}', to: 'kafka://{broker}'}}
  - {{name: hook, from: '{pg}#hooks', to: 'http://127.0.0.1:{port}/hook'}}
  - {{name: web, from: 'sqlite:web.db', to: 'http://127.0.0.1:{port}/web'}}
  - {{name: file, from: 'sqlite:file.db', to: 'file:file.out'}}
"""


class Kafka:
    """A broker that checks sequences, in a process of its own."""

    def __init__(self, log):
        self.process = subprocess.Popen([sys.executable, BROKER, "--topic", "outbox", "4"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True)  # fmt: skip
        self.broker = self.process.stdout.readline().strip()

    def tell(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline().strip() != "ok":
            raise RuntimeError(f"the broker did not do: {' '.join(words)}")

    def read(self, topic):
        """Message ids with bodies, each partition in its order."""
        done = subprocess.run(["kcat", "-b", self.broker, "-t", topic, "-C", "-e", "-q", "-o",
                               "beginning", "-J"], stdout=subprocess.PIPE, text=True,
                              timeout=120)  # fmt: skip
        for line in done.stdout.splitlines():
            record = json.loads(line)
            headers = record["headers"]
            ident = dict(zip(headers[::2], headers[1::2]))["message-id"]
            yield ident, json.loads(record["payload"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Receiver:
    """A web server, in a process of its own, always at the same port."""

    def __init__(self, folder, log):
        self.path, self.port, self.log = os.path.join(folder, "received"), 0, log
        self.start("200")

    def start(self, answer):
        self.process = subprocess.Popen(
            [sys.executable, RECEIVER, "--port", str(self.port), "--log", self.path,
             "--answer", answer],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def read(self, path):
        """What came to that path and was taken, in order."""
        with open(self.path) as lines:
            for line in lines:
                entry = json.loads(line)
                if entry["request"].split()[1] == path and entry["answer"] == "200":
                    yield entry["headers"]["idempotency-key"], json.loads(entry["body"])


class Writer(threading.Thread):
    """Commits batches of messages, each with its line in the ledger, until it is stopped."""

    def __init__(self, table, seed):
        super().__init__(daemon=True)
        self.table, self.rng = table, random.Random(seed)
        self.count = collections.Counter()
        self.stop = threading.Event()
        self.failed = None

    def batch(self):
        rows = []
        for _ in range(self.rng.randint(1, BATCH)):
            key = f"k{self.rng.randrange(KEYS)}"
            self.count[key] += 1
            rows.append((key, self.count[key]))
        return rows

    def run(self):
        try:
            while not self.stop.wait(self.rng.uniform(0, 0.1)):
                self.commit(self.batch())
        except Exception as why:  # pylint: disable=broad-except
            self.failed = why


class PostgresWriter(Writer):
    def __init__(self, server, table, log, seed):
        super().__init__(table, seed)
        self.db = postgres.Database(server, log)
        self.db.run(f"CREATE TABLE ledger_{table}(id text PRIMARY KEY, k text, n bigint)")

    def commit(self, rows):
        """Again until it is there: a lost answer is no second copy."""
        values = ", ".join(f"('{key}', {n})" for key, n in rows)
        self.db.run(
            f"BEGIN; WITH new(k, n) AS (VALUES {values}), sent AS ("
            f"INSERT INTO {self.table}(message_id, topic, partition_key, payload) "
            f"SELECT k || '-' || n, '{self.table}', k, json_build_object("
            f"'k', k, 'n', n) FROM new ORDER BY n "
            f"ON CONFLICT (message_id) DO NOTHING RETURNING 1) "
            f"INSERT INTO ledger_{self.table} SELECT k || '-' || n, k, n FROM new "
            f"ON CONFLICT DO NOTHING; COMMIT"
        )

    def ledger(self):
        rows = self.db.execute(f"SELECT id, k, n FROM ledger_{self.table}")
        return {ident: (key, n) for ident, key, n in rows}


class SqliteWriter(Writer):
    def __init__(self, path, seed):
        super().__init__("outbox", seed)
        self.path = path
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE ledger(id TEXT PRIMARY KEY, k TEXT, n INTEGER)")

    def run(self):
        self.db = sqlite3.connect(self.path, timeout=30)
        super().run()
        self.db.close()

    def commit(self, rows):
        with self.db:
            for key, n in rows:
                self.db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (f"{key}-{n}", key, n))
                self.db.execute(
                    "INSERT INTO outbox(message_id, topic, partition_key, payload) "
                    "VALUES (?, 'soak', ?, ?)",
                    (f"{key}-{n}", key, json.dumps({"k": key, "n": n})),
                )

    def ledger(self):
        with sqlite3.connect(self.path) as db:
            rows = db.execute("SELECT id, k, n FROM ledger").fetchall()
        return {ident: (key, n) for ident, key, n in rows}


class Daemon:
    def __init__(self, folder, log):
        self.folder, self.log = folder, log
        self.samples = []  # of the process that lives: (seconds, resident KB, descriptors)
        self.began = 0
        self.start()

    def start(self):
        # What a sanitizer keeps of memory that is freed is no growth.
        small = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        self.process = subprocess.Popen([tap.WHERRY, "run"], cwd=self.folder, stderr=self.log,
                                        env={**os.environ, "ASAN_OPTIONS": small})  # fmt: skip
        self.began = time.monotonic()
        self.samples = []

    def kill(self):
        self.process.kill()
        self.process.wait()

    def sample(self):
        folder = f"/proc/{self.process.pid}"
        try:
            with open(f"{folder}/status") as status:
                resident = int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])
            descriptors = len(os.listdir(f"{folder}/fd"))
        except (OSError, TypeError):
            return
        self.samples.append((time.monotonic() - self.began, resident, descriptors))

    def metrics(self):
        """The numbers of each relay, by name."""
        with open(self.log.name) as log:
            port = re.findall(r"event=http .*port=(\d+)", log.read())[-1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        found = re.findall(r'^(\w+)\{relay="(\w+)"\} (\S+)$', text, re.MULTILINE)
        return {(relay, name): float(value) for name, relay, value in found}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Soak:
    def __init__(self, folder, seed):
        self.folder, self.rng = folder, random.Random(seed)
        self.log = open(os.path.join(folder, "log"), "a")
        self.faults = collections.Counter()
        self.server = postgres.Server(self.log)
        self.kafka, self.receiver = Kafka(self.log), Receiver(folder, self.log)
        self.pg = "postgres://wherry@/postgres?host=" + self.server.folder
        self.paths = {name: os.path.join(folder, name) for name in ("web.db", "file.db")}
        self.urls = {"kafka": self.pg, "hook": f"{self.pg}#hooks", "web": "sqlite:" + self.paths["web.db"],
                     "file": "sqlite:" + self.paths["file.db"]}  # fmt: skip
        for url in self.urls.values():
            self.wherry("create", url, *["--unique-ids"] * (url.startswith("postgres")))
        self.writers = {
            "kafka": PostgresWriter(self.server, "outbox", self.log, seed),
            "hook": PostgresWriter(self.server, "hooks", self.log, seed + 1),
            "web": SqliteWriter(self.paths["web.db"], seed + 2),
            "file": SqliteWriter(self.paths["file.db"], seed + 3),
        }
        with open(os.path.join(folder, "wherry.yaml"), "w") as file:
            file.write(FILE.format(pg=self.pg, broker=self.kafka.broker, port=self.receiver.port))
        self.daemon = Daemon(folder, self.log)

    def wherry(self, *arguments):
        subprocess.run([tap.WHERRY, *arguments], check=True, stdout=self.log, stderr=self.log)

    # ---- faults ----

    def broker_away(self):
        self.kafka.tell("down")
        time.sleep(self.rng.uniform(0.2, 1.5))
        self.kafka.tell("up")

    def broker_refuses(self):
        code = self.rng.choice([NOT_LEADER, NOT_ENOUGH, TIMED_OUT, NOT_ENOUGH_AFTER])
        self.kafka.tell("refuse", str(PRODUCE), str(code), str(self.rng.randint(1, 5)))

    def web_server_away(self):
        self.receiver.kill()
        time.sleep(self.rng.uniform(0.1, 1))
        self.receiver.start("200")

    def web_server_refuses(self):
        self.receiver.kill()
        self.receiver.start(self.rng.choice(["503 retry-after=1 times=1", "500 times=1",
                                             "429 times=1", "close times=1"]))  # fmt: skip

    def database_killed(self):
        self.server.kill()

    def backend_ended(self):
        self.writers["kafka"].db.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 2"
        )

    def daemon_paused(self):
        self.daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.5, 3))
        self.daemon.process.send_signal(signal.SIGCONT)

    def daemon_killed(self):
        self.daemon.kill()
        self.daemon.start()

    def daemon_reloads(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    def one_fault(self, kill_daemon):
        faults = [self.broker_away, self.broker_refuses, self.web_server_away,
                  self.web_server_refuses, self.database_killed, self.backend_ended,
                  self.daemon_paused, self.daemon_reloads]  # fmt: skip
        fault = self.rng.choice(faults + [self.daemon_killed] * kill_daemon)
        self.faults[fault.__name__] += 1
        fault()

    # ---- the run ----

    def run(self, seconds):
        """The daemon is killed in the first fifth only: then its memory is watched."""
        began = time.monotonic()
        for writer in self.writers.values():
            writer.start()
        next_fault = began + 2
        while (now := time.monotonic()) < began + seconds:
            self.daemon.sample()
            if now >= next_fault:
                self.one_fault(now < began + seconds / 5)
                next_fault = time.monotonic() + self.rng.uniform(0.5, 3)
            tap.progress(f"soak: {now - began:.0f} of {seconds} s")
            time.sleep(0.2)
        for writer in self.writers.values():
            writer.stop.set()
            writer.join(60)
        if self.receiver.process.poll() is None:
            self.receiver.kill()
        self.receiver.start("200")

    def open_rows(self):
        """How many wait in all outboxes."""
        n = 0
        for url in self.urls.values():
            done = subprocess.run([tap.WHERRY, "status", url, "--json"], stdout=subprocess.PIPE,
                                  stderr=self.log)  # fmt: skip
            if done.returncode:
                return -1
            states = json.loads(done.stdout)
            n += sum(states[state] for state in ("pending", "processing", "failed"))
        return n

    def delivered(self):
        path = os.path.join(self.folder, "file.out")
        return {
            "kafka": list(self.kafka.read("outbox")),
            "hook": list(self.receiver.read("/hook")),
            "web": list(self.receiver.read("/web")),
            "file": judge.read_file(path)[0],
        }

    def judge(self):
        for name, delivered in self.delivered().items():
            ledger, first = self.writers[name].ledger(), {}
            for ident, body in delivered:
                first.setdefault(ident, (body["k"], body["n"]))
            lost = [i for i in ledger if i not in first]
            unborn = [i for i in first if i not in ledger]
            disorder = judge.find_disorder(first)
            tap.tell_counts({"committed": len(ledger), "delivered": len(first),
                             "duplicates": len(delivered) - len(first)}, f"by {name}")  # fmt: skip
            tap.check(f"{name}: writers wrote", len(ledger) > 50, self.writers[name].failed)
            tap.check(f"{name}: nothing is lost", not lost, lost[:20])
            tap.check(f"{name}: nothing is unborn", not unborn, unborn[:20])
            tap.check(f"{name}: the order of each key is kept", not disorder, disorder[:20])

    def judge_growth(self):
        """Of the process that lives: its second quarter beside its last.  Connections to a web
        server come and go; what leaks does not, and shows in the least there were."""
        samples = self.daemon.samples
        quarter = len(samples) // 4
        early, late = samples[quarter : 2 * quarter], samples[-quarter:]
        if not quarter:
            return
        resident = [max(s[1] for s in part) for part in (early, late)]
        descriptors = [max(s[2] for s in early), min(s[2] for s in late)]
        tap.tell(f"resident {resident[0]} KB, then {resident[1]} KB; "
                 f"descriptors {descriptors[0]}, then {descriptors[1]}")  # fmt: skip
        tap.check("memory is flat", resident[1] <= resident[0] * 1.15 + 4096, resident)
        tap.check("so are descriptors", descriptors[1] <= descriptors[0] + 8, descriptors)

    def judge_metrics(self):
        """What the daemon tells of itself.  It answers after a second with what it has counted by
        then: on a slow machine the first answer lacks the numbers of some tables."""
        told, wrong = {}, []

        def agree():
            nonlocal told, wrong
            told = self.daemon.metrics()
            wrong = [name for name in self.writers
                     if told.get((name, "wherry_outbox_pending")) != 0
                     or told.get((name, "wherry_up")) != 1
                     or not told.get((name, "wherry_delivered_total"))]  # fmt: skip
            return not wrong

        tap.check("its metrics agree", tap.wait_until(60, agree), wrong, told)
        tap.check("Kafka's, too", told.get(("kafka", "wherry_kafka_bytes_total"), 0) > 0, told)

    def close(self):
        self.daemon.kill()
        self.receiver.kill()
        self.kafka.close()
        self.server.close()
        self.log.close()


def play(folder, seed, seconds):
    try:
        soak = Soak(folder, seed)
    except postgres.NoServer:
        tap.skip("a daemon that is troubled loses nothing", "no PostgreSQL server is installed")
        return
    try:
        soak.run(seconds)
        tap.tell(", ".join(f"{n} {what}" for what, n in sorted(soak.faults.items())))
        empty = tap.wait_until(120, lambda: soak.open_rows() == 0)
        tap.check("in the end nothing waits", empty, f"{soak.open_rows()} rows")
        soak.judge_growth()
        soak.judge_metrics()
        tap.check("the daemon ends when asked", soak.daemon.stop() == 0)
        soak.judge()
    finally:
        soak.close()


def main():
    if not os.path.exists(LINKED) or not shutil.which("kcat"):
        tap.skip("a daemon that is troubled loses nothing", "there is no Kafka here")
        print("1..1")
        return 0
    seconds, seed = int(os.environ.get("WHERRY_SOAK_SECONDS") or 20), tap.first_seed()
    tap.tell(f"soak: WHERRY_CRASH_SEED={seed} WHERRY_SOAK_SECONDS={seconds}")
    tap.in_folder("soak", seed, lambda folder: play(folder, seed, seconds))
    print(f"1..{tap.count}")
    return tap.failures > 0


if __name__ == "__main__":
    sys.exit(main())
