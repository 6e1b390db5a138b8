"""Four relays work on the tables of another library, eventferry, outbox-event-bus or Debezium, or on a log,
where one leads or they share the keys, or on a table of another program that is read as a log, and are killed and stopped at
random.  At the end each message must have been delivered, and the first deliveries of each aggregate must be in order, but for
outbox-event-bus.  Of an adopted table each row that says it was published must have been delivered before.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time

import judge
import mssql
import postgres
import tap
import victims

RELAYS, CLAIM_S = 4, 1.0


class Outbox:
    """The table: made, filled, counted.  Messages are {"k": aggregate, "n": number in it}."""

    ordered, extras = True, []

    def make(self, producer):
        """The command that makes the table."""
        return ["create", f"{self.url}#{self.table}", "--layout", self.layout, *self.extras]

    def started(self, rng):
        """Options of a relay that is started."""
        return []

    def published(self):
        """Messages that the table says were delivered."""
        return []

    def end(self):
        """Commit what is open."""

    def settings(self, rng):
        batch = rng.choice([50, 500, 1000])
        return [
            "relay.claim_timeout=1s", f"relay.batch={batch}", f"relay.window={batch * 2}",
            "relay.idle_interval=100ms", "relay.sweep=1s", "db.synchronous=normal",
            f"file.sync={rng.choice(['on', 'off'])}",
        ]  # fmt: skip


class Eventferry(Outbox):
    layout, table = "eventferry", "outbox"
    SERVER = []  # settings

    def __init__(self, folder, log):
        self.server = postgres.Server(log, self.SERVER)
        self.url = "postgres://wherry@/postgres?host=" + self.server.folder
        self.db = postgres.Database(self.server, log)

    def put(self, messages):
        rows = ",".join(f"('t', 'o', '{k}', '{json.dumps({'k': k, 'n': n})}')"
                        for k, n in messages)  # fmt: skip
        self.db.run("INSERT INTO outbox(topic, aggregate_type, aggregate_id, payload) VALUES "
                    + rows)  # fmt: skip

    def open(self):
        return self.db.execute("SELECT count(*) FROM outbox WHERE status <> 2").fetchone()[0]

    def close(self):
        self.server.close()


class Debezium(Eventferry):
    """It is read from the WAL, and the connection that this comes by is ended at times."""

    layout, table, extras = "debezium", "outboxevent", ["--stream"]
    SERVER, end_lsn = ["wal_level=logical", "wal_sender_timeout=10s"], "0/0"

    def settings(self, rng):
        return lead(rng)

    def put(self, messages):
        """A slot tells of what is written after a relay has begun to read it."""
        if self.end_lsn == "0/0":
            slots = "SELECT count(*) FROM pg_replication_slots WHERE active"
            assert tap.wait_until(60, lambda: self.db.execute(slots).fetchone()[0] == 1)
        rows = ",".join(f"(gen_random_uuid(), 'o', '{k}', 't', '{json.dumps({'k': k, 'n': n})}')" for k, n in messages)
        self.db.run(f"BEGIN; INSERT INTO outboxevent VALUES {rows}; DELETE FROM outboxevent; COMMIT")
        if len(messages) % 3 == 0:
            self.db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        self.end_lsn = self.db.run("SELECT pg_current_wal_insert_lsn()").strip()

    def open(self):
        """Of slots: where the relay has told its slot the end, all is delivered."""
        behind = "SELECT count(*) FROM pg_replication_slots WHERE confirmed_flush_lsn < "
        return self.db.execute(f"{behind} '{self.end_lsn}'").fetchone()[0]


class EventBus(Outbox):
    ordered, layout, table = False, "event-bus", "outbox_events"

    def __init__(self, folder, log):
        self.path = os.path.join(folder, "bus.db")
        self.url = "sqlite:" + self.path

    def connect(self):
        return sqlite3.connect(self.path, timeout=60)

    def put(self, messages):
        with self.connect() as db:
            db.executemany(
                "INSERT INTO outbox_events(id, type, payload, occurred_at) VALUES (?, 't', ?, "
                "strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
                [(f"{k}-{n}", json.dumps({"k": k, "n": n})) for k, n in messages],
            )
        db.close()

    def open(self):
        db = self.connect()
        n = db.execute("SELECT count(*) FROM outbox_events").fetchone()[0]
        db.close()
        return n

    def close(self):
        pass


def lead(rng):
    window = rng.choice([10, 500, 5000])
    return [
        "relay.lease=1s", f"relay.batch={max(1, window // 2)}", f"relay.window={window}",
        f"file.sync={rng.choice(['on', 'off'])}",
    ]  # fmt: skip


class Log(Eventferry):
    """Half of the aggregates are written by a transaction that stays open for a while, with ids
    below those that others have committed."""

    layout = "log"

    def __init__(self, folder, log):
        super().__init__(folder, log)
        self.late = subprocess.Popen(
            [*self.db.command[:-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.late.stdin.write("BEGIN;\n")

    def settings(self, rng):
        return lead(rng)

    def insert(self, messages):
        rows = ",".join(f"('t', '{k}', '{json.dumps({'k': k, 'n': n})}')" for k, n in messages)
        return "INSERT INTO outbox(topic, partition_key, payload) VALUES " + rows

    def put(self, messages):
        late = [m for m in messages if int(m[0][1:]) % 2]
        soon = [m for m in messages if int(m[0][1:]) % 2 == 0]
        if late:
            self.late.stdin.write(f"COMMIT; BEGIN; {self.insert(late)};\n")
            self.late.stdin.flush()
        if soon:
            self.db.run(self.insert(soon))

    def end(self):
        self.late.stdin.write("COMMIT;\n")
        self.late.stdin.close()
        assert self.late.wait() == 0

    def open(self):
        return self.db.execute(
            "SELECT (SELECT count(*) FROM outbox_exception) + count(*) "
            "FROM outbox AS o, outbox_progress AS p "
            "WHERE (p.mask >> (hashtextextended('=' || o.partition_key, 0) & 63)::integer) & 1 = 1 "
            "AND (o.id > p.high OR NOT pg_visible_in_snapshot(o.tx, p.seen))"
        ).fetchone()[0]

    def close(self):
        self.late.kill()
        super().close()


class WalLog(Log):
    """A relay takes new messages from the WAL or from the table, whichever it was started with.  The connection that
    they come by is ended at times, and half of the time no transaction stays open, which a slot would wait for."""

    SERVER, turn = ["wal_level=logical", "wal_sender_timeout=10s"], 0

    def started(self, rng):
        return ["--set", f"relay.source={rng.choice(['wal', 'wal', 'table'])}"]

    def put(self, messages):
        super().put(messages)
        self.turn += 1
        if self.turn % 2:
            self.late.stdin.write("COMMIT; BEGIN;\n")
            self.late.stdin.flush()
            streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            tap.wait_until(1, lambda: self.db.execute(streams).fetchone()[0])
        if sum(n for _, n in messages) % 3 == 0:
            self.db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")

    def open(self):
        """A relay that ended has marked what it delivered and its position does not cover."""
        return self.db.execute(
            "SELECT (SELECT count(*) FROM outbox_exception WHERE state <> 2) + count(*) "
            "FROM outbox AS o, outbox_progress AS p "
            "WHERE (o.id > p.high OR NOT pg_visible_in_snapshot(o.tx, p.seen)) "
            "AND NOT EXISTS (SELECT 1 FROM outbox_exception AS x WHERE x.id = o.id AND x.state = 2)"
        ).fetchone()[0]


class SharedLog(Log):
    """The relays share the keys, and their positions differ."""

    extras = ["--partitions"]


class SegmentedLog(Log):
    """Old segments are dropped while messages are written and relays read them."""

    extras = ["--segments", "50"]

    def settings(self, rng):
        return [*lead(rng), "outbox.retention=300ms", "relay.purge_every=100ms"]

    def put(self, messages):
        super().put(messages)
        if len(messages) % 3:  # nothing has the table now and then
            self.late.stdin.write("COMMIT; BEGIN;\n")
            self.late.stdin.flush()


class LogInFile(EventBus):
    ordered, layout, table = True, "log", "outbox"

    def settings(self, rng):
        return lead(rng)

    def put(self, messages):
        with self.connect() as db:
            db.executemany(
                "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', ?, ?)",
                [(k, json.dumps({"k": k, "n": n})) for k, n in messages],
            )
        db.close()

    def open(self):
        db = self.connect()
        n = db.execute(
            "SELECT (SELECT count(*) FROM outbox_exception) + count(*) "
            "FROM outbox AS o, outbox_progress AS p WHERE o.id > p.high"
        ).fetchone()[0]
        db.close()
        return n


ADOPT = [
    "--as", "outbox", "--topic", "kind", "--key", "order_no", "--body", "data", "--done", "published_at", "--yes",
]  # fmt: skip


def event(k, n):
    return ("t", k, json.dumps({"k": k, "n": n}))


def told(rows):
    return [(body["k"], body["n"]) for body in (json.loads(data) for (data,) in rows)]


PUBLISHED = "SELECT data FROM events WHERE published_at IS NOT NULL AND kind <> 'old'"
UNPUBLISHED = "SELECT count(*) FROM events WHERE published_at IS NULL"


class Adopted(Log):
    """When it is adopted it has rows, of which some were published."""

    def make(self, producer):
        self.db.run(
            "CREATE TABLE events(id bigserial PRIMARY KEY, kind text NOT NULL, order_no text NOT NULL, "
            "data text NOT NULL, published_at timestamptz)"
        )
        self.db.run(
            "INSERT INTO events(kind, order_no, data, published_at) "
            "SELECT 'old', 'old', '{}', now() FROM generate_series(1, 100)"
        )
        producer.put(100, self.put_soon)
        return ["adopt", self.url + "#events", *ADOPT]

    def insert(self, messages):
        rows = ",".join(str(event(k, n)) for k, n in messages)
        return "INSERT INTO events(kind, order_no, data) VALUES " + rows

    def put_soon(self, messages):
        self.db.run(self.insert(messages))

    def published(self):
        return told(self.db.execute(PUBLISHED))

    def open(self):
        return self.db.execute(UNPUBLISHED).fetchone()[0]


class AdoptedInFile(LogInFile):
    def make(self, producer):
        with self.connect() as db:
            db.execute(
                "CREATE TABLE events(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, order_no TEXT NOT NULL, "
                "data TEXT NOT NULL, published_at DATETIME)"
            )
            db.executemany(
                "INSERT INTO events(kind, order_no, data, published_at) "
                "VALUES ('old', 'old', '{}', '2026-01-01 00:00:00')", [()] * 100
            )  # fmt: skip
        db.close()
        producer.put(100)
        return ["adopt", self.url + "#events", *ADOPT]

    def put(self, messages):
        with self.connect() as db:
            db.executemany(
                "INSERT INTO events(kind, order_no, data) VALUES (?, ?, ?)",
                [event(k, n) for k, n in messages],
            )
        db.close()

    def ask(self, sql):
        db = self.connect()
        rows = db.execute(sql).fetchall()
        db.close()
        return rows

    def published(self):
        return told(self.ask(PUBLISHED))

    def open(self):
        return self.ask(UNPUBLISHED)[0][0]


class AdoptedOnSQLServer(Outbox):
    """On the database that WHERRY_TEST_MSSQL names.  Half of the aggregates are written by a transaction that stays open
    for a while."""

    layout, table = "adopted", "outbox"

    def __init__(self, folder, log):
        self.url, self.db = mssql.URL, mssql.Database()
        self.db.clear()

    def settings(self, rng):
        return [*lead(rng), "relay.lease=5s"]  # The server parses each statement in each session.

    def make(self, producer):
        self.db.execute(
            "CREATE TABLE events(id BIGINT IDENTITY PRIMARY KEY, kind NVARCHAR(20) NOT NULL, order_no NVARCHAR(20) NOT NULL, "
            "data NVARCHAR(MAX) NOT NULL, published_at DATETIME2(3))"
        )
        self.db.execute(
            "INSERT INTO events(kind, order_no, data, published_at) SELECT TOP (100) N'old', N'old', N'{}', SYSUTCDATETIME() "
            "FROM sys.all_columns"
        )
        producer.put(100, lambda messages: self.write(self.db.connection, messages))
        self.late = mssql.connect()
        self.late.autocommit = False
        return ["adopt", self.url + "#events", *ADOPT]

    def write(self, connection, messages):
        for at in range(0, len(messages), 500):
            rows = ",".join(str(event(k, n)) for k, n in messages[at : at + 500])
            connection.execute("INSERT INTO events(kind, order_no, data) VALUES " + rows)

    def put(self, messages):
        late = [m for m in messages if int(m[0][1:]) % 2]
        soon = [m for m in messages if int(m[0][1:]) % 2 == 0]
        self.late.commit()
        self.write(self.late, late)
        self.write(self.db.connection, soon)

    def end(self):
        self.late.commit()

    def published(self):
        return told(self.db.execute(PUBLISHED))

    def open(self):
        return self.db.execute(UNPUBLISHED)[0][0]

    def close(self):
        self.late.close()
        self.db.clear()
        self.db.close()


class Producer:
    """The next messages, of aggregates at random."""

    def __init__(self, outbox, rng):
        self.outbox, self.rng = outbox, rng
        self.keys = [f"a{i}" for i in range(rng.choice([5, 20, 200]))]
        self.last = dict.fromkeys(self.keys, 0)

    def put(self, n, how=None):
        messages = []
        for _ in range(n):
            k = self.rng.choice(self.keys)
            self.last[k] += 1
            messages.append((k, self.last[k]))
        (how or self.outbox.put)(messages)


def disturb(rng, relays):
    """What several relays had claimed expires at once, and those that are idle then share it."""
    relay = rng.choice(relays)
    what = rng.random()
    if what < 0.6:
        some = rng.sample(relays, rng.choice([1, 2, 4]))
        for relay in some:
            relay.kill()
        for relay in some:
            relay.start()
    elif what < 0.75:
        relay.end()
        relay.start()
    else:
        relay.stop(CLAIM_S * rng.uniform(0.1, 1.7))


def count(outbox, out, producer, left, relays):
    delivered, broken = judge.read_file(out)
    first, position = {}, {}
    for _, body in delivered:
        first.setdefault((body["k"], body["n"]), None)
    wanted = {(k, n) for k, last in producer.last.items() for n in range(1, last + 1)}
    disorder = []
    for k, n in first:
        if n != position.get(k, 0) + 1:
            disorder.append((k, position.get(k, 0), n))
        position[k] = n
    lost = sorted(wanted - first.keys())
    tap.tell_counts(
        {
            "messages": len(wanted), "delivered": len(first), "lost": len(lost),
            "out of order": len(disorder) if outbox.ordered else 0,
            "duplicates": len(delivered) - len(first),
            "kills": sum(r.kills for r in relays), "stops": sum(r.stops for r in relays),
        },
        f"{left} open at the end, table {outbox.table}",
    )  # fmt: skip
    tap.check("nothing committed is lost", not lost, lost[:20])
    tap.check("nothing is delivered that was not committed", first.keys() <= wanted)
    if outbox.ordered:
        tap.check("the order of each aggregate is kept", not disorder, disorder[:20])
    tap.check("all are done, none died", left == 0, f"{left} are left")
    tap.check("every line is a whole message", broken == 0, f"{broken} are not")
    words = victims.last_words(relays)
    tap.check("no relay ended by itself", not words, *words)


def published_early(outbox, out):
    """Messages whose row says that they were delivered, and which were not."""
    published = outbox.published()
    if not published:
        return []
    delivered = {(body["k"], body["n"]) for _, body in judge.read_file(out)[0]}
    return [m for m in published if m not in delivered]


def run_on(outbox, folder, log, rng, rounds, tell_round):
    out = os.path.join(folder, "out")
    settings = [part for s in outbox.settings(rng) for part in ("--set", s)]
    relay = [tap.WHERRY, "relay", f"{outbox.url}#{outbox.table}", "file:" + out, *settings]
    producer = Producer(outbox, rng)
    assert victims.start([tap.WHERRY, *outbox.make(producer)], log).wait() == 0
    relays = [victims.Victim("relay", lambda: relay + outbox.started(rng), log) for _ in range(RELAYS)]
    chunk, early = (5000 if tap.rounds(0) > 20 else 1000) // rounds, []
    for _ in range(rounds):
        producer.put(chunk)
        time.sleep(rng.uniform(0, 0.06))
        disturb(rng, relays)
        early += published_early(outbox, out)
        tell_round()
    outbox.end()
    tap.wait_until(60, lambda: outbox.open() == 0)
    early += published_early(outbox, out)
    tap.check("no row says that it was published before it was delivered", not early, early[:20])
    for victim in relays:
        victim.end()
    count(outbox, out, producer, outbox.open(), relays)


def run(folder, seed, rounds, tell_round):
    rng = victims.random.Random(seed)
    with open(os.path.join(folder, "log"), "ab") as log:
        try:
            kinds = [Eventferry, EventBus, Debezium, Log, LogInFile, SharedLog, Adopted, AdoptedInFile, WalLog,
                     SegmentedLog]  # fmt: skip
            kinds += [AdoptedOnSQLServer] * bool(mssql.URL)
            outbox = kinds[seed % len(kinds)](folder, log)
        except (postgres.NoServer, mssql.NoServer) as error:
            tap.skip("relays on the tables of a server lose nothing", str(error) or "no PostgreSQL server")
            return
        try:
            run_on(outbox, folder, log, rng, rounds, tell_round)
        finally:
            outbox.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("kill-layouts", 60, 10 if tap.rounds(60) > 60 else 6, run))
