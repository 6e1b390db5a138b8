"""Kill writers and relays at random moments, then count.  See kill.sh.

Every writer notes what it commits in the table ledger, in the same transaction: message
id, key, and the message's number within its key.  At the end every row of the ledger must
have been delivered, nothing else may have been, and within each key the first occurrences
must be in the order of their numbers.
"""

import ctypes
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

KEYS = 6
WINDOW = 200
LEASE_S = 1.0


# ---- a writer in plain SQL ----


def write(path, name, seed):
    rng = random.Random(int(seed))
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA synchronous = " + rng.choice(["FULL", "NORMAL"]))
    n = 0

    def send():
        nonlocal n
        kind = rng.choice(["key", "key", "aggregate", ""])
        number = str(rng.randrange(KEYS))
        key = f"{kind}:{number}" if kind else ""
        ident = f"{name}-{n}"
        n += 1
        (place,) = db.execute(
            "SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE k = ?", (key,)
        ).fetchone()
        body = {"k": key, "n": place}
        if rng.random() < 0.02:
            body["fill"] = "x" * rng.randrange(30000)
        db.execute(
            "INSERT INTO outbox(message_id, topic, aggregate_type, aggregate_id,"
            " partition_key, payload) VALUES (?, 'kill', ?, ?, ?, ?)",
            (
                ident,
                "thing" if kind == "aggregate" else "",
                number if kind == "aggregate" else "",
                number if kind == "key" else None,
                json.dumps(body),
            ),
        )
        db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (ident, key, place))

    while True:
        db.execute("BEGIN IMMEDIATE")
        for _ in range(rng.randint(1, 8)):
            send()
        if rng.random() < 0.02:
            time.sleep(rng.random() / 100)  # so that a kill may come here
        db.execute("ROLLBACK" if rng.random() < 0.2 else "COMMIT")
        time.sleep(rng.random() / 50)


# ---- those that are killed ----


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Victim:
    """A process that is started again, with another name, whenever it is killed."""

    def __init__(self, kind, command, log):
        self.kind, self.command, self.log = kind, command, log
        self.kills = self.ends = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            preexec_fn=die_with_parent,
        )

    def kill(self):
        self.process.kill()
        code = self.process.wait()
        if code != -signal.SIGKILL:
            self.ends += 1  # it had ended by itself, which it never should
        self.kills += 1

    def stop(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)


# ---- TAP ----

count = failures = 0


def check(sentence, holds, *details):
    global count, failures
    count += 1
    failures += not holds
    print(f"{'ok' if holds else 'not ok'} {count} - {sentence}")
    for detail in [] if holds else details:
        print(f"# {detail}")
    sys.stdout.flush()


def tell(text):
    print(f"# {text}", flush=True)


# ---- the run ----


def run(folder, build, seconds, seed):
    rng = random.Random(seed)
    wherry = os.path.join(build, "wherry")
    helper = os.path.join(build, "tests", "system_kill_main")
    path = os.path.join(folder, "kill.db")
    out = os.path.join(folder, "out.ndjson")
    log = open(os.path.join(folder, "log"), "ab")
    names = iter(range(1000000))

    subprocess.run([wherry, "init", "sqlite:" + path], check=True, stdout=log)
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute(
        "CREATE TABLE ledger(id TEXT PRIMARY KEY, k TEXT NOT NULL, n INTEGER NOT NULL)"
    )
    db.execute("CREATE INDEX ledger_key ON ledger(k, n)")

    # A process that is killed loses nothing that it wrote, synced or not; but it is killed
    # at other places.
    def relay(*more, sync=None):
        on_disk = rng.random() < 0.5 if sync is None else sync
        return [
            wherry, "relay", "sqlite:" + path, "file:" + out, "--lease", f"{LEASE_S:.0f}s",
            "--set", f"relay.window={WINDOW}",
            "--set", "db.synchronous=" + ("full" if on_disk else "normal"),
            "--set", "file.sync=" + ("on" if on_disk else "off"), *more,
        ]  # fmt: skip

    def in_c():
        return [helper, path, f"c{next(names)}", str(rng.randrange(1 << 30))]

    def in_python():
        return [
            sys.executable, __file__, "write", path, f"p{next(names)}",
            str(rng.randrange(1 << 30)),
        ]  # fmt: skip

    victims = [
        Victim("relay", relay, log),
        Victim("relay", relay, log),
        Victim("writer", in_c, log),
        Victim("writer", in_c, log),
        Victim("writer", in_python, log),
    ]
    stops = 0
    end = time.monotonic() + seconds
    stop_at = [end - seconds * part for part in (0.75, 0.4, 0.15)]
    try:
        while time.monotonic() < end:
            time.sleep(rng.random() * 0.6)
            if stop_at and time.monotonic() > stop_at[0]:
                # The one that leads: paused past its lease, it must not go on.
                owner = db.execute("SELECT owner FROM wherry_slot").fetchone()[0]
                leader = [v for v in victims if f":{v.process.pid}:" in owner]
                if leader:
                    stop_at.pop(0)
                    leader[0].stop(LEASE_S * rng.uniform(1.2, 2))
                    stops += 1
                    continue
            victim = rng.choice(victims + victims[:2])  # relays twice as often
            victim.kill()
            victim.start()
    finally:
        rng.shuffle(victims)
        for victim in victims:
            victim.kill()
    began = time.monotonic()
    last = subprocess.run(
        relay("--until-empty", "--timeout", "60s", sync=False), stdout=log, stderr=log,
        preexec_fn=die_with_parent,
    )  # fmt: skip
    last_s = time.monotonic() - began
    log.close()
    relay_kills = sum(v.kills for v in victims if v.kind == "relay")
    writer_kills = sum(v.kills for v in victims if v.kind == "writer")
    tell(
        f"{relay_kills} relays and {writer_kills} writers killed, {stops} leading relays "
        f"stopped past their lease, the last relay took {last_s:.1f} s"
    )
    judge(db, out, last.returncode, sum(v.ends for v in victims), relay_kills + stops)


def read_lines(out):
    """What was delivered, and how many lines are no message."""
    delivered, broken = [], 0
    with open(out, "rb") as lines:
        for line in lines:
            try:
                message = json.loads(line)
                delivered.append((message["message_id"], message["body"]))
            except (ValueError, KeyError):
                broken += 1
    return delivered, broken


def judge(db, out, last_code, ends, interruptions):
    ledger = {i: (k, n) for i, k, n in db.execute("SELECT id, k, n FROM ledger")}
    delivered, broken = read_lines(out)
    first = {}
    for ident, body in delivered:
        first.setdefault(ident, (body["k"], body["n"]))
    lost = [i for i in ledger if i not in first]
    unborn = [i for i in first if i not in ledger]
    changed = [i for i in first if i in ledger and first[i] != ledger[i]]
    duplicates = len(delivered) - len(first)
    disorder, seen = [], {}
    for ident, (key, n) in first.items():  # in the order of their first occurrence
        if key and n != seen.get(key, 0) + 1:
            disorder.append((key, seen.get(key, 0), n, ident))
        seen[key] = n
    states = dict(db.execute("SELECT status, count(*) FROM outbox GROUP BY status"))
    rows = {i for (i,) in db.execute("SELECT message_id FROM outbox")}
    tell(
        f"{len(ledger)} committed, {len(first)} delivered, {len(lost)} lost, "
        f"{len(unborn)} unborn, {duplicates} duplicates, {len(disorder)} out of order in "
        f"{len([k for k in seen if k])} keys, states {states}"
    )
    check("the last relay finds an end", last_code == 0, f"exit status {last_code}")
    check("nobody ended who was not killed", ends == 0, f"{ends} did")
    check("writers wrote and relays delivered", len(ledger) > 100, f"{len(ledger)} rows")
    check("nothing committed is lost", not lost, lost[:20])
    check("nothing is delivered that was not committed", not unborn, unborn[:20])
    check("messages arrive as they were written", not changed, changed[:20])
    check("the order of each key is kept", not disorder, disorder[:20])
    check(
        "no more is delivered twice than was in flight",
        duplicates <= interruptions * WINDOW,
        f"{duplicates}, at most {interruptions} times {WINDOW}",
    )
    check("every line is a whole message", broken == 0, f"{broken} are not")
    check("an outbox row is there just when its business row is", rows == set(ledger))
    check("all are done, none died", set(states) <= {2}, states)
    (integrity,) = db.execute("PRAGMA integrity_check").fetchone()
    check("the database is sound", integrity == "ok", integrity)


def main():
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    build = os.environ.get("WHERRY_BUILD", os.path.join(source, "build", "dev"))
    seconds = float(os.environ.get("WHERRY_KILL_SECONDS", "20"))
    seed = int(os.environ.get("WHERRY_KILL_SEED") or random.SystemRandom().randrange(1 << 31))
    keep = os.environ.get("WHERRY_KILL_KEEP")
    folder = tempfile.mkdtemp(prefix="wherry-kill.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tell(f"WHERRY_KILL_SEED={seed} WHERRY_KILL_SECONDS={seconds:g}")
    try:
        run(folder, build, seconds, seed)
        if failures:
            with open(os.path.join(folder, "log"), errors="replace") as log:
                for line in log.readlines()[-60:]:
                    tell(line.rstrip())
    finally:
        if keep and failures:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        shutil.rmtree(folder)
    print(f"1..{count}")
    return failures > 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(*sys.argv[2:])
    sys.exit(main())
