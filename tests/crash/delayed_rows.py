"""Random rows in delayed queues and inboxes, written with plain SQL beside good ones: no row stops anybody.

On each layout and database good messages are offered, and between them rows with random values in random
columns, as a sender with the rights of --grant and as the owner, who has dropped the constraints.  A relay
delivers them, or a consumer polls them.  Afterwards every good message was delivered once, the commands
that count and list them work, a key of a bad row can be offered again, and dead messages can be retried.

WHERRY_CRASH_SEED: which rows; WHERRY_ROWS_ONLY: cases whose name contains this.
"""

import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import time

import rows
import tap

GOOD = BAD = 40  # in a case
PATIENCE = 120  # seconds
KIND = hashlib.md5(b"q|bytes").hexdigest()
TIMES = ["0", "-1", "1", "1000", "253402300799999", "253402300800000", "9223372036854775807",
         "9223372036854775806", "-9223372036854775808", "1700000000000"]  # fmt: skip


class SQLite(rows.SQLite):
    encoding = "UTF8"

    def create(self, layout):
        wherry("create", "--kind", "delayed", f"{self.url}#d", "--layout", layout, sure=True)
        self.prepare()

    def literal(self, body):
        return f"CAST('{body}' AS BLOB)"


class PostgreSQL(rows.PostgreSQL):
    def __init__(self, server, name, encoding, layout, owner):
        super().__init__(server, name, encoding, layout, owner)
        self.encoding = encoding

    def create(self, layout):
        self.psql("postgres", "DO $$ BEGIN CREATE ROLE sender LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; "
                              "END $$")  # fmt: skip
        wherry("create", "--kind", "delayed", f"{self.url}#d", "--layout", layout, sure=True)
        if layout == "native":
            wherry("create", "--kind", "delayed", f"{self.url}#d", "--grant", "sender=sender", sure=True)
        else:
            self.psql(self.name, "GRANT INSERT, SELECT, UPDATE ON d TO sender; GRANT USAGE ON SEQUENCE d_id_seq TO sender")
        if self.owner and layout == "native":
            self.psql(self.name, "ALTER TABLE d DROP CONSTRAINT d_sane")

    def literal(self, body):
        return f"convert_to('{body}', 'UTF8')"

    def write(self, statements):
        user = "wherry" if self.owner else "sender"
        return self.psql(self.name, ";\n".join(statements) + ";\n", user, check=False).stderr.count(b"ERROR:")


def wherry(*words, sure=False):
    done = subprocess.run([tap.WHERRY, *words], capture_output=True, text=True, errors="replace", timeout=120)
    if sure and done.returncode:
        raise RuntimeError(done.stderr)
    return done


def bad_row(rng, database, n):
    key = f"'bad {n}'" if rng.random() < 0.7 else rows.text(rng, database.kind)
    row = {'"pKey"': key, '"pKind"': f"'{KIND}'", "payload": database.literal("bad")}
    for column in ('"scheduledAt"', '"scheduledAtInitially"', '"createdAt"'):
        row[column] = rng.choice(TIMES) if rng.random() < 0.7 else "1000"
    if rng.random() < 0.3:
        row['"lockUuid"'] = rng.choice(["''", "'x'", "'0195aaaa-aaaa-7aaa-aaaa-aaaaaaaaaaaa'", *(
            ["x''", "x'00ff'", "x'c328'", "17", "1.5"] if database.kind == "sqlite" else [])])  # fmt: skip
    if database.kind == "sqlite" and rng.random() < 0.1:
        row[rng.choice(list(row))] = rng.choice(["x'00'", "'x'", "1.5", "9e999", "-9e999"])
    return f"INSERT INTO d({', '.join(row)}) VALUES ({', '.join(row.values())})"


def play(case, folder, database, layout, seed):
    rng = random.Random(seed)
    database.create(layout)
    bad = [bad_row(rng, database, n) for n in range(BAD)]
    bad += [insert(database, f"edge {column} {at}", {column: at}) for at in TIMES
            for column in ('"scheduledAt"', '"scheduledAtInitially"', '"createdAt"')]  # fmt: skip
    good = [insert(database, f"good {n}", {}) for n in range(GOOD)]
    refused = database.write(bad + good)
    if database.kind == "sqlite":
        database.db.commit()
    # A key that has no form in UTF-8 can be relayed, which makes it dead, but not be listed or polled.
    commands = ["status"], ["list", "--state", "dead"], ["list"]
    for command in commands[:2] if "UTF8" not in database.encoding else commands:
        done = wherry(*command, f"{database.url}#d/q", "--json")
        tap.check(f"{case}: {' '.join(command)} works beside all rows", done.returncode == 0, done.stderr)
    source = f"{database.url}#d/q"
    done = wherry("status", source)
    tap.check(f"{case}: status works beside all rows", done.returncode in (0, 1), done.stderr)
    out = os.path.join(folder, "out")
    if "polls" in case:
        got = poll_all(database)
    else:
        relay = subprocess.Popen([tap.WHERRY, "relay", source, f"file:{out}", "--set", "retry.attempts=1", "--set",
                                  "relay.claim_timeout=1s"], stderr=subprocess.PIPE, text=True, errors="replace")  # fmt: skip
        tap.wait_until(PATIENCE, lambda: sum(str(key).startswith("good ") for key in keys_in(out)) >= GOOD)
        tap.wait_until(PATIENCE, quiet_for(2, lambda: [keys_in(out), database.rows("SELECT count(*) FROM d_dead")]))
        ended = relay.poll()
        relay.terminate()
        log = relay.communicate(timeout=60)[1]
        tap.check(f"{case}: no row ends the relay", ended is None and relay.returncode == 0, ended, log[-2000:])
        got = keys_in(out)
    missing = {f"good {n}" for n in range(GOOD)} - set(got)
    tap.check(f"{case}: every good message is delivered", not missing, sorted(missing))
    tap.check(f"{case}: none twice", len([k for k in got if k and k.startswith("good")]) <= GOOD, got)
    again = [wherry("offer", f"{database.url}#d/q", "again", "--key", key)
             for key in ("good 1", 'edge "createdAt" 9223372036854775807', 'edge "createdAt" 253402300799999')]  # fmt: skip
    tap.check(f"{case}: keys can be offered again", not any(d.returncode for d in again), *(d.stderr for d in again))
    retry_dead(case, database, layout)
    tap.totals[f"rows tried, {case}"] += len(bad) + len(good)
    tap.totals[f"refused, {case}"] += refused


def keys_in(out):
    try:
        with open(out, encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]  # The last one may be half written.
    except FileNotFoundError:
        return []
    return [json.loads(line)["key"] for line in lines]


def quiet_for(seconds, look):
    """Has what is seen not changed for so long?  To be asked again and again."""
    last = [None, 0]

    def quiet():
        seen, now = look(), time.monotonic()
        if seen != last[0]:
            last[:] = seen, now
        return now - last[1] >= seconds

    return quiet


def insert(database, key, values):
    row = {'"pKey"': f"'{key}'", '"pKind"': f"'{KIND}'", "payload": database.literal("1"), '"scheduledAt"': "1000",
           '"scheduledAtInitially"': "1000", '"createdAt"': "1000", **values}  # fmt: skip
    return f"INSERT INTO d({', '.join(row)}) VALUES ({', '.join(row.values())})"


def poll_all(database):
    got = []
    for _ in range(4):
        done = wherry("poll", f"{database.url}#d/q", "--limit", "1000", "--json")
        got += [json.loads(line)["key"] for line in done.stdout.splitlines()]
    return got


def retry_dead(case, database, layout):
    owner, database.owner = database.owner, True
    highest = 2**63 - 1 if layout == "native" and database.kind != "sqlite" else 2**62 - 1
    # What only an owner without constraints can write has no place in the table any more.
    if owner and database.kind == "sqlite":
        database.write(['DELETE FROM d_dead'])
    refused = database.write([
        f"INSERT INTO d_dead(id, \"pKey\", \"pKind\", payload, \"scheduledAtInitially\", \"createdAt\", attempts, died_at) "
        f"VALUES ({highest if n == 3 else 1000000 + n}, 'dead {n}', '{KIND}', {database.literal('1')}, 1000, {at}, 1, 1000)"
        for n, at in enumerate(("1000", "253402300799999", "9223372036854775807", "1000"))])  # fmt: skip
    if database.kind == "sqlite":
        database.db.commit()
    database.owner = owner
    done = wherry("retry", f"{database.url}#d/q", "--all")
    left = [k for (k,) in database.rows('SELECT "pKey" FROM d_dead') if k.startswith("dead ")]
    tap.check(f"{case}: dead messages of any version are retried", done.returncode == 0 and not left and not refused,
              done.stderr, left)  # fmt: skip


def inbox(case, database, times):
    wherry("create", "--kind", "inbox", f"{database.url}#seen", sure=True)
    for n, at in enumerate(times):
        database.write([f"DELETE FROM seen; INSERT INTO seen(consumer, message_id, accepted_at) VALUES ('c', 'm', {at})"]
                       if database.kind != "sqlite" else
                       ["DELETE FROM seen", f"INSERT INTO seen(consumer, message_id, accepted_at) VALUES ('c', '{n}', {at})"])
        if database.kind == "sqlite":
            database.db.commit()
        done = wherry("status", f"{database.url}#seen")
        purged = wherry("purge", f"{database.url}#seen", "--older-than", "1h", "--yes")
        tap.check(f"{case}: an id that was accepted at {at} stops no command",
                  done.returncode == purged.returncode == 0, done.stderr, purged.stderr)  # fmt: skip


def cases(server):
    for layout in "native", "funfix":
        for owner in False, True:
            for how in "relay", "polls":
                name = f"{layout} {'owner' if owner else 'sender'} {how}"
                yield f"SQLite {name}", layout, lambda folder: SQLite(folder, layout, owner)
                if not server:
                    continue
                for encoding in ("UTF8",) if how == "polls" else ("UTF8", "SQL_ASCII", "WIN1252"):
                    base = f"d_{layout}_{owner}_{how}_{encoding}".lower()
                    yield (f"PostgreSQL {encoding} {name}", layout,
                           lambda _: PostgreSQL(server, base, encoding, layout, owner))  # fmt: skip


def main():
    seed = tap.first_seed()
    process, server = rows.start_server()
    only = os.environ.get("WHERRY_ROWS_ONLY") or ""
    if not server:
        tap.skip("rows of delayed queues on PostgreSQL", "no server is installed")
    tap.tell(f"rows: WHERRY_CRASH_SEED={seed}")
    try:
        for case, layout, database in cases(server):
            if only in case:
                run_in(case, seed, lambda folder: play(case, folder, database(folder), layout, seed))
        run_in("inbox", seed, lambda folder: inboxes(folder, server))
    finally:
        process.stdin.close()
        process.wait()
    for what, n in tap.totals.items():
        tap.tell(f"{n} {what}")
    print(f"1..{tap.count}")
    return tap.failures > 0


def run_in(name, seed, work):
    def run(folder):
        open(os.path.join(folder, "log"), "w").close()
        work(folder)

    tap.in_folder(name.replace(" ", "-"), seed, run)


def inboxes(folder, server):
    lite = SQLite(folder, "native", True)
    wherry("create", "--kind", "inbox", f"{lite.url}#seen", sure=True)
    lite.prepare()
    inbox("SQLite inbox", lite, ["0", "-1", "9223372036854775807", "-9223372036854775808", "9e999", "'x'", "1.5"])
    if server:
        inbox("PostgreSQL inbox", PostgreSQL(server, "inboxes", "UTF8", "native", True),
              ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "now()"])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
