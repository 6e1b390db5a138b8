"""Processes that are killed and started again, and the database they work on."""

import ctypes
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import tap

WRITER = os.path.join(tap.BUILD, "tests", "crash_writer_main")
NO_ROOM = 3  # with this a writer ends that cannot open its database on a full disk


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start(command, log):
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
    )


class Victim:
    """A process that is started again, with another name, whenever it is killed.  What it says
    goes to a file of its own and, by copy(), to the log of all."""

    def __init__(self, kind, command, log):
        self.kind, self.command, self.log = kind, command, log
        self.kills = self.stops = 0
        self.ends = []  # exit statuses of those that ended by themselves
        self.last_words = []  # what each of them said last
        self.start()

    def start(self):
        self.said, self.n_copied = tempfile.TemporaryFile(), 0
        self.process = start(self.command(), self.said)

    def copy(self):
        while text := os.pread(self.said.fileno(), 1 << 20, self.n_copied):
            self.n_copied += len(text)
            os.write(self.log.fileno(), text)

    def kill(self):
        self.process.kill()
        code = self.process.wait()
        if code != -signal.SIGKILL:
            self.note(code)
        self.copy()
        self.kills += 1

    def note(self, code):
        """It ended by itself."""
        self.copy()
        self.ends.append(code)
        size = os.fstat(self.said.fileno()).st_size
        text = os.pread(self.said.fileno(), 100000, max(0, size - 100000))
        lines = text.decode(errors="replace").splitlines()
        # A sanitizer has its say, at length, after the program.
        report = next((i for i, line in enumerate(lines) if line.startswith("=====")), len(lines))
        lines = lines[max(0, report - 4) : report + 4]
        self.last_words.append(f"{self.kind} ended with {code}: " + " | ".join(lines))

    def end(self):
        """Ask it to end; it may not have come as far as to hear it."""
        self.process.terminate()
        code = self.process.wait(timeout=30)
        if code not in (0, -signal.SIGTERM):
            self.note(code)
        self.copy()

    def stop(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)
        self.stops += 1


def last_words(victims):
    """Of those that ended by themselves; each for a line of its own."""
    return [words for victim in victims for words in victim.last_words]


class Shop:
    """A database with an outbox and a ledger, relays, writers, and what they are given."""

    DRAIN_S = 60
    OF_POSITION = "true"  # rows of whose partition p is the position
    UNCOVERED = "o.id > p.high"  # rows that it does not cover
    LEADER = "SELECT owner FROM wherry_lease, wherry_clock WHERE expires_at > ms"

    def __init__(self, folder, seed, to, pace_ms=20, fill=30000, settings=(), path=None,
                 lease_s=1.0):
        self.rng = random.Random(seed)
        self.folder, self.to = folder, to
        self.out = os.path.join(folder, "out")
        self.log = open(os.path.join(folder, "log"), "ab")
        self.pace_ms, self.fill = str(pace_ms), str(fill)
        self.names = iter(range(1000000))
        self.window = self.rng.choice([20, 100, 200, 500])
        self.settings, self.lease_s = settings, lease_s
        self.make(path)

    def make(self, path):
        """The database, its URL, and a connection for who counts."""
        self.path = path or os.path.join(self.folder, "crash.db")
        self.url = "sqlite:" + self.path
        self.wherry("create", self.url, check=True)
        self.db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        self.db.execute(
            "CREATE TABLE ledger(id TEXT PRIMARY KEY, k TEXT NOT NULL, n INTEGER NOT NULL)"
        )
        self.db.execute("CREATE INDEX ledger_key ON ledger(k, n)")

    def integrity(self):
        """ok, or what is wrong with the database."""
        return self.db.execute("PRAGMA integrity_check").fetchone()[0]

    def wherry(self, *arguments, **how):
        return subprocess.run(
            [tap.WHERRY, *arguments], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, preexec_fn=die_with_parent, **how,
        )  # fmt: skip

    def set(self, settings):
        return [part for setting in settings for part in ("--set", setting)]

    # A process that is killed loses nothing that it wrote, synced or not; but it is killed
    # at other places.
    def relay_arguments(self, sync):
        return [
            "relay", self.url, self.to, "--lease", f"{self.lease_s * 1000:.0f}ms",
            *self.set([
                f"relay.window={self.window}", "relay.purge_every=500ms", "relay.sweep=1s",
                "db.synchronous=" + ("full" if sync else "normal"),
                "file.sync=" + ("on" if sync else "off"), *self.settings,
            ]),
        ]  # fmt: skip

    def relay(self):
        return [tap.WHERRY, *self.relay_arguments(self.rng.random() < 0.5)]

    def writer(self, letter, *program):
        return [
            *program, self.path, f"{letter}{next(self.names)}",
            str(self.rng.randrange(1 << 30)), self.pace_ms, self.fill,
        ]  # fmt: skip

    def in_c(self):
        return self.writer("c", WRITER)

    def in_python(self):
        program = os.path.join(os.path.dirname(__file__), "writer.py")
        return self.writer("p", sys.executable, program)

    def victims(self, kinds):
        commands = {"relay": self.relay, "c": self.in_c, "python": self.in_python}
        return [Victim(kind, commands[kind], self.log) for kind in kinds]

    def leader(self, victims):
        """A relay that holds a lease, of several any, and the others; None: nobody does."""
        owners = [owner for (owner,) in self.db.execute(self.LEADER)]
        relays = [v for v in victims if v.kind == "relay"]
        holders = [v for v in relays if any(f":{v.process.pid}:" in owner for owner in owners)]
        leader = self.rng.choice(holders) if holders else None
        return leader, [v for v in relays if v is not leader]

    def is_busy(self):
        """Enough was written to judge by."""
        return self.db.execute("SELECT count(*) > 50 FROM ledger").fetchone()[0]

    def drain(self):
        """Deliver the rest, undisturbed; the exit status, and how long it took."""
        self.wherry("resume", self.url, check=True)
        began = time.monotonic()
        last = self.wherry(*self.relay_arguments(False), "--until-empty", "--timeout", f"{self.DRAIN_S}s")
        return last.returncode, time.monotonic() - began

    def close(self):
        self.db.close()
        self.log.close()
