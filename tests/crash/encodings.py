"""Texts that have no form in UTF-8, in databases of three encodings: no command stops at them.

In a database of SQL_ASCII, of WIN1252 and of LATIN1 each table of a model has good rows, and for each of its
columns a row whose text there has a byte that cannot be converted (in LATIN1: an a with two dots, which can).
Each command must do its work for the good rows.

WHERRY_ROWS_ONLY: encodings whose name contains this.
"""

import json
import os
import subprocess
import sys

import rows
import tap

BYTES = {"SQL_ASCII": "\\xff", "WIN1252": "\\x81", "LATIN1": "\\xe4"}
GOOD = 3


class Place(rows.PostgreSQL):
    def __init__(self, server, encoding):
        super().__init__(server, f"e_{encoding.lower()}", encoding, "native", True)
        self.encoding, self.byte = encoding, BYTES[encoding]

    def odd(self, text):
        """An expression for the text with the byte in it."""
        return f"E'{text}{self.byte}'"

    def sql(self, text):
        return self.psql(self.name, text)

    def utf8(self, text):
        """What a program gets that wants UTF-8."""
        return subprocess.run(["psql", "-X", "-q", "-A", "-t", "-h", self.server, "-U", "wherry", self.name, "-c", text],
                              capture_output=True, env={**os.environ, "PGCLIENTENCODING": "UTF8"})  # fmt: skip


def wherry(*words):
    return subprocess.run([tap.WHERRY, *words], capture_output=True, text=True, errors="replace", timeout=60)


def works(place, what, done, wanted, codes=(0,)):
    missing = [text for text in wanted if text not in done.stdout]
    return tap.check(f"{place.encoding}: {what}", done.returncode in codes and not missing,
                     f"exit status {done.returncode}, missing {missing}", done.stderr[-600:])  # fmt: skip


def insert(table, row):
    return f"INSERT INTO {table}({', '.join(row)}) VALUES ({', '.join(row.values())})"


def fill(place, table, columns, good_row, more):
    """Good rows, and a row for each column that has the byte there."""
    done = [insert(table, {**good_row(f"good {n}"), **more}) for n in range(GOOD)]
    for column in columns:
        value = place.odd("{\"a\":\"x") + "'\"}'" if column == "headers" else place.odd(f"bad {column} ")
        if column == "headers":
            value = f"(E'{{\"a\":\"x{place.byte}\"}}')::json"
        done.append(insert(table, {**good_row(f"bad {column}"), column: value, **more}))
    place.sql("; ".join(done))
    return len(columns)


def arrived(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [str(json.loads(line).get("body")) for line in lines]


def relay(place, source, folder, name, *more):
    out = os.path.join(folder, name)
    done = wherry("relay", source, f"file:{out}", "--until-empty", "--timeout", "10s", "--set", "retry.attempts=1", *more)
    got = arrived(out)
    tap.check(f"{place.encoding}: a relay delivers the good messages of {name}",
              done.returncode in (0, 3) and sum(body.startswith("good") for body in got) == GOOD,
              done.returncode, got, done.stderr[-900:])  # fmt: skip


def outbox(place, folder):
    columns = ("message_id", "topic", "aggregate_type", "aggregate_id", "partition_key", "headers", "trace_id", "payload")
    wherry("create", place.url, "--payload", "text")
    good = lambda name: {"topic": "'t'", "message_id": f"'outbox {name}'", "payload": f"'{name}'"}  # noqa: E731
    n = fill(place, "outbox", columns, good, {})
    names = [f"outbox good {i}" for i in range(GOOD)]
    works(place, "list of an outbox", wherry("list", place.url, "--json"), names)
    works(place, "table of an outbox", wherry("list", place.url), names)
    works(place, "status of an outbox", wherry("status", place.url), [], (0, 1))
    works(place, "doctor of an outbox", wherry("doctor", place.url), [], (0, 1))
    for i in range(GOOD + 1, GOOD + n + 1):
        works(place, f"show {columns[i - GOOD - 1]}", wherry("show", place.url, str(i)), [])
    relay(place, place.url, folder, "outbox")
    place.sql(f"UPDATE outbox_exception SET last_error = {place.odd('why')} WHERE state = 4")
    works(place, "dead of an outbox", wherry("list", place.url, "--state", "dead", "--json"), [])
    works(place, "retry of an outbox", wherry("retry", place.url, "--all"), [])


def queue(place, folder):
    columns = ("message_id", "topic", "correlation_id", "reply_to", "headers", "body")
    good = lambda name: {"topic": "'t'", "body": f"'{name}'"}  # noqa: E731
    bodies = [f"good {i}" for i in range(GOOD)]
    for name in "jobs", "sqljobs", "relayed":
        wherry("create", "--kind", "queue", f"{place.url}#{name}", "--payload", "text")
        fill(place, name, columns, good, {})
    works(place, "tables", wherry("tables", place.url), ["jobs"])
    works(place, "status", wherry("status", f"{place.url}#jobs"), [])
    works(place, "list", wherry("list", f"{place.url}#jobs", "--bodies"), bodies)
    works(place, "list --json", wherry("list", f"{place.url}#jobs", "--bodies", "--json"), bodies)
    works(place, "doctor", wherry("doctor", f"{place.url}#jobs"), [], (0, 1))
    got = []
    for _ in range(20):
        done = wherry("receive", f"{place.url}#jobs", "--json")
        if done.returncode:
            break
        got.append(done.stdout)
    tap.check(f"{place.encoding}: receive comes to the end", done.returncode == 1 and "no message" in done.stderr, done.stderr)
    tap.check(f"{place.encoding}: receive gets every good message",
              all(any(body in text for text in got) for body in bodies), got)  # fmt: skip
    got = []
    for _ in range(20):
        done = place.utf8("SELECT body FROM wherry_receive('sqljobs', 2)")
        if done.returncode or not done.stdout.strip():
            break
        got.append(done.stdout.decode(errors="replace"))
    tap.check(f"{place.encoding}: wherry_receive() gets every good message", done.returncode == 0 and
              all(any(body in text for text in got) for body in bodies), got, done.stderr)  # fmt: skip
    fill(place, "jobs", (*columns, "last_error"), good, {"state": "4"})
    works(place, "list --state dead", wherry("list", f"{place.url}#jobs", "--state", "dead", "--bodies"), [])
    works(place, "list --state dead --json", wherry("list", f"{place.url}#jobs", "--state", "dead", "--bodies", "--json"), [])
    works(place, "retry", wherry("retry", f"{place.url}#jobs", "--all"), [])
    relay(place, f"{place.url}#relayed", folder, "relayed")


def delayed(place, folder):
    kind = "md5('q|bytes')"
    good = lambda name: {'"pKey"': f"'{name}'", '"pKind"': kind, "payload": f"'{name}'", '"scheduledAt"': "1000",  # noqa: E731
                         '"scheduledAtInitially"': "1000", '"createdAt"': "1000"}  # fmt: skip
    bodies = [f"good {i}" for i in range(GOOD)]
    for table in "d", "relayed_d", "sql_d":
        wherry("create", "--kind", "delayed", f"{place.url}#{table}")
        fill(place, table, ('"pKey"',), good, {})
    of = [f"{place.url}#d/q"]
    works(place, "status of the delayed queue", wherry("status", *of), [])
    works(place, "list of the delayed queue", wherry("list", *of, "--bodies"), bodies)
    works(place, "list of the delayed queue --json", wherry("list", *of, "--bodies", "--json"), bodies)
    got = []
    for _ in range(10):
        done = wherry("poll", *of, "--limit", "2", "--json")
        if done.returncode:
            break
        got.append(done.stdout)
    tap.check(f"{place.encoding}: poll comes to the end", done.returncode == 1, done.stderr)
    tap.check(f"{place.encoding}: poll gets every good message",
              all(any(body in text for text in got) for body in bodies), got)  # fmt: skip
    got = []
    for _ in range(10):
        done = place.utf8("SELECT key, convert_from(body, 'UTF8') FROM wherry_poll('q', 2, delayed => 'sql_d')")
        if done.returncode or not done.stdout.strip():
            break
        got.append(done.stdout.decode(errors="replace"))
    tap.check(f"{place.encoding}: wherry_poll() gets every good message", done.returncode == 0 and
              all(any(body in text for text in got) for body in bodies), got, done.stderr)  # fmt: skip
    done = place.utf8("SELECT count(*) FROM sql_d_dead WHERE last_error LIKE 'its key cannot be sent%'")
    tap.check(f"{place.encoding}: and makes the other dead", done.stdout.strip() == (b"0" if place.encoding == "LATIN1" else b"1"),
              done.stdout, done.stderr)  # fmt: skip
    dead = lambda name: {"id": "(SELECT coalesce(max(id), 100) + 1 FROM d_dead)", **good(name), "attempts": "1",  # noqa: E731
                         "died_at": "1000"}  # fmt: skip
    for name in ("good 0", "good 1"):
        place.sql(insert("d_dead", {k: v for k, v in dead(name).items() if k != '"scheduledAt"'}))
    for column in ('"pKey"', "last_error"):
        row = {**{k: v for k, v in dead(f"dead {column}").items() if k != '"scheduledAt"'}, column: place.odd("x")}
        place.sql(insert("d_dead", row))
    works(place, "dead of the delayed queue", wherry("list", *of, "--state", "dead", "--bodies"), ["good 0", "good 1"])
    works(place, "dead of the delayed queue --json", wherry("list", *of, "--state", "dead", "--bodies", "--json"), ["good 0", "good 1"])
    works(place, "retry of the delayed queue", wherry("retry", *of, "--all"), [])
    relay(place, f"{place.url}#relayed_d/q", folder, "delayed")


def play(server, encoding, folder):
    place = Place(server, encoding)
    for model in outbox, queue, delayed:
        model(place, folder)
    place.close()


def main():
    process, server = rows.start_server()
    only = os.environ.get("WHERRY_ROWS_ONLY") or ""
    if not server:
        tap.skip("databases of other encodings", "no server is installed")
    try:
        for encoding in BYTES if server else ():
            if only in encoding:
                tap.in_folder("encodings", 0, lambda folder: (open(os.path.join(folder, "log"), "w").close(),
                                                              play(server, encoding, folder)))
    finally:
        process.stdin.close()
        process.wait()
    print(f"1..{tap.count}")
    return tap.failures > 0


if __name__ == "__main__":
    sys.exit(main())
