"""The tables that ordinary.py writes to: of each model, layout and database."""

import contextlib
import hashlib
import json
import urllib.parse
import os
import re
import sqlite3
import subprocess
import uuid
from decimal import Decimal

import tap
from ordinary_values import alike

HELPER = os.path.join(tap.BUILD, "tests", "system_ordinary_main")
KIND = hashlib.md5(b"q|bytes").hexdigest()  # of the delayed messages
SURE = 100  # seconds
WAYS = ("plain SQL", "SQL functions", "the library", "the commands")


@contextlib.contextmanager
def open_sqlite(path):
    db = sqlite3.connect(path, timeout=60)
    try:
        yield db
        db.commit()
    finally:
        db.close()


def call(command, text=b"", sure=False):
    done = subprocess.run(command, input=text, capture_output=True, timeout=SURE, check=False)
    if sure and done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.decode(errors='replace')}")
    return done


def literal(value):
    """Of PostgreSQL."""
    if value is None:
        return "NULL"
    if isinstance(value, (int, Decimal)):
        return str(value)
    return "E'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def numeric(text):
    """The number, if an integer column would show the same."""
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() and str(int(text)) == text \
        and -(1 << 63) <= int(text) < 1 << 63 else text  # fmt: skip


class World:
    """An SQLite file and a PostgreSQL database with all tables, and copies of them."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.server = ""
        if os.path.exists(os.path.join(tap.SOURCE, "tests", "postgres", "server.sh")):
            self.start()

    def start(self):
        script = os.path.join(tap.SOURCE, "tests", "postgres", "server.sh")
        self.process = subprocess.Popen(["bash", script, "wal_level=logical", "max_connections=60"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.server = self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def database_url(self, kind, copy="source"):
        if kind == "sqlite":
            return f"sqlite:{self.folder}/{copy}.db"
        database = "postgres" if copy == "source" else copy
        return f"postgres://wherry@/{database}?host={self.server}"

    def url(self, place, copy="source"):
        return self.database_url(place.kind, copy)

    def psql(self, sql, database="postgres"):
        return call(["psql", "-X", "-q", "-A", "-t", "-h", self.server, "-U", "wherry", database], sql.encode())

    def copy(self, name):
        source = os.path.join(self.folder, "source.db")
        if os.path.exists(source):
            with open_sqlite(source) as db, open_sqlite(os.path.join(self.folder, f"{name}.db")) as copy:
                db.backup(copy)
        if self.server:
            self.psql(f"CREATE DATABASE {name} TEMPLATE postgres", "template1")


class Place:
    costly = ("the commands",)
    unique = ("message_id",)
    jsonb = False
    wherry_layout = None

    def __init__(self, world, kind):
        self.world, self.kind = world, kind
        base = "SQLite" if kind == "sqlite" else "PostgreSQL"
        self.name = f"{self.model} {self.layout} on {base}"

    def wherry(self, *words, text=b"", sure=False):
        return call([tap.WHERRY, *words], text, sure)

    def takes(self, field, value, way):
        return True

    def same(self, field, wanted, got):
        if field == "body" and self.jsonb:
            wanted, got = (json.loads(b, parse_int=Decimal, parse_float=Decimal) for b in (wanted, got))
        return wanted == got

    def write(self, way, rows):
        """The lines of what was refused."""
        if not rows:
            return []
        if way == "plain SQL":
            return self.write_sql([self.columns(row) for row in rows])
        if way == "SQL functions":
            return self.errors(self.world.psql("".join(f"SELECT {self.function(row)};\n" for row in rows)))
        if way == "the library":
            fields = b"".join(b"-\0" if f is None else b"=" + f.encode() + b"\0"
                              for row in rows for f in self.library(row))  # fmt: skip
            return self.errors(call([HELPER, self.model, self.world.url(self), self.table], fields))
        return [line for row in rows for line in self.command(row)]

    def errors(self, done):
        return done.stderr.decode(errors="replace").splitlines()

    def write_sql(self, rows, table=None):
        table = table or self.table
        if self.kind == "postgres":
            return self.errors(self.world.psql("".join(
                f'INSERT INTO {table}({", ".join(row)}) VALUES ({", ".join(map(literal, row.values()))});\n'
                for row in rows)))  # fmt: skip
        refused = []
        with open_sqlite(os.path.join(self.world.folder, "source.db")) as db:
            for row in rows:
                try:
                    db.execute(f'INSERT INTO {table}({", ".join(row)}) VALUES ({", ".join("?" * len(row))})',
                               [numeric(v) if isinstance(v, str) else v for v in row.values()])  # fmt: skip
                except sqlite3.Error as error:
                    refused.append(f"{row}: {error}")
        return refused

    def headers(self, row):
        return json.dumps({"h": row.fields["header"]}, ensure_ascii=row.number % 2 == 0)

    def library(self, row):
        f = row.fields.get
        return (f("message_id"), f("topic"), f("aggregate_type", f("correlation_id")),
                f("aggregate_id", f("reply_to")), f("key"),
                self.headers(row) if "header" in row.fields else None, f("trace_id"), row.body)  # fmt: skip


class Outbox(Place):
    model, layout = "outbox", "log"
    fields = ("message_id", "topic", "aggregate_type", "aggregate_id", "key", "header", "trace_id", "text")
    key_column = "partition_key"

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.table = f"outbox_{self.layout.replace('-', '_')}"
        self.ways = WAYS
        if kind == "sqlite":
            self.ways = ("plain SQL", "the library", "the commands")

    def make(self):
        self.wherry("create", f"{self.world.url(self)}#{self.table}", "--layout", self.layout, sure=True)

    def takes(self, field, value, way):
        if way != "plain SQL" and field in ("topic", "message_id") and value == "":
            return False
        return not (way == "the commands" and field == "aggregate_type" and value == "")

    def columns(self, row):
        names = {"key": self.key_column, "header": "headers"}
        out = {names.get(f, f): v for f, v in row.fields.items() if f != "text"}
        if "headers" in out:
            out["headers"] = self.headers(row)
        return {**out, "payload": row.body}

    def function(self, row):
        f = {name: literal(value) for name, value in row.fields.items()}
        return f"""wherry_enqueue({f['topic']}, {literal(row.body)}::text, key => {f['key']}::text,
            message_id => {f['message_id']}, headers => {literal(self.headers(row))}::json,
            aggregate_type => {f['aggregate_type']}, aggregate_id => {f['aggregate_id']},
            trace_id => {f['trace_id']}, outbox => '{self.table}')"""

    def command(self, row):
        """Takes key and ids out of the body: a number as it is written."""
        f = row.fields
        row.body = "{%s, %s}" % (row.body[1:-1], ", ".join(
            f'"{n}": {f[n] if n in f and is_number(f[n]) and row.number % 2 else json.dumps(f.get(n))}'
            for n in ("message_id", "aggregate_id", "key") if n in f))  # fmt: skip
        words = [f"--topic={f['topic']}"]
        for name, option in (("message_id", "--id"), ("aggregate_id", "--aggregate-id"), ("key", "--key")):
            words += [option, "/" + name] if name in f else []
        words += [f"--aggregate-type={f['aggregate_type']}"] if "aggregate_type" in f else []
        words += [f"--header=h={f['header']}"] if "header" in f else []
        f.pop("trace_id", None)
        done = self.wherry("enqueue", "--lines", f"{self.world.url(self)}#{self.table}", *words, text=row.body.encode() + b"\n")
        said = done.stdout.decode()
        return self.errors(done) + ([] if said.startswith("1 enqueued, 0 dup") else [f"{f}: {said}"])

    def relay(self, url):
        return [f"{url}#{self.table}"]


def is_number(text):
    """Of JSON, and not beyond those that receivers keep as doubles: Wherry does not take such a body for JSON."""
    return "400" not in text and re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", text) is not None


class EventBus(Outbox):
    layout = "event-bus"
    fields = ("message_id", "topic", "text")

    def columns(self, row):
        return {"id": row.fields["message_id"], "type": row.fields["topic"], "payload": row.body,
                "occurred_at": "2026-11-26T01:02:03.000Z"}  # fmt: skip


class Adopted(Outbox):
    """The table of another program, which alone writes it."""

    layout = "adopted"

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.ways, self.theirs = ("plain SQL",), "events_of_theirs"

    def make(self):
        number = "integer PRIMARY KEY" if self.kind == "sqlite" else "bigserial PRIMARY KEY"
        columns = ", ".join(f"{c} text" for c in ("message_id", "topic", "aggregate_type", "aggregate_id",
                                                  "partition_key", "headers", "trace_id", "payload"))  # fmt: skip
        self.execute(f"CREATE TABLE {self.theirs}(number {number}, {columns})")
        self.wherry("adopt", f"{self.world.url(self)}#{self.theirs}", "--as", self.table, "--yes", sure=True)

    def takes(self, field, value, way):
        """Without a message id it is the number of the row."""
        return field != "message_id" or value != ""

    def execute(self, sql):
        if self.kind == "postgres":
            self.world.psql(sql)
        else:
            with open_sqlite(os.path.join(self.world.folder, "source.db")) as db:
                db.execute(sql)

    def write_sql(self, rows):
        return super().write_sql(rows, self.theirs)


class Eventferry(Outbox):
    layout = "eventferry"
    fields = ("topic", "aggregate_type", "aggregate_id", "key", "header", "trace_id", "text")
    key_column = '"key"'
    jsonb = True

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.ways = ("plain SQL", "the library", "the commands")

    def takes(self, field, value, way):
        if field == "trace_id":
            return len(value) <= 64
        if field == "aggregate_id" and value == "" and way != "plain SQL":
            return False  # it is then filled in
        return super().takes(field, value, way)


class Debezium(Outbox):
    layout = "debezium"
    fields = ("topic", "aggregate_id", "header", "text")
    jsonb = True

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.ways = ("plain SQL", "the library", "the commands")

    def command(self, row):
        """It has no option for the type, which is then the topic."""
        del row.fields["header"]
        return super().command(row)

    def columns(self, row):
        return {"id": str(uuid.uuid4()), "aggregatetype": row.fields["topic"],
                "aggregateid": row.fields["aggregate_id"], "type": row.fields["header"],
                "payload": row.body}  # fmt: skip

    def headers(self, row):
        return json.dumps({"type": row.fields["header"]})


class Queue(Place):
    model, layout = "queue", "native"
    fields = ("message_id", "topic", "correlation_id", "reply_to", "header", "text")

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.table = f"queue_{self.layout}"
        self.ways = WAYS
        if kind == "sqlite":
            self.ways = ("plain SQL", "the library", "the commands")

    def make(self):
        self.wherry("create", "--kind", "queue", f"{self.world.url(self)}#{self.table}", "--layout", self.layout, sure=True)

    def takes(self, field, value, way):
        return value != "" or field in ("header", "text")

    def columns(self, row):
        out = {f: v for f, v in row.fields.items() if f not in ("header", "text")}
        return {**out, "headers": self.headers(row), "body": row.body}

    def function(self, row):
        f = {name: literal(value) for name, value in row.fields.items()}
        return f"""wherry_send('{self.table}', {literal(row.body)}::text, {literal(self.headers(row))}::json,
            correlation_id => {f['correlation_id']}, reply_to => {f['reply_to']},
            message_id => {f['message_id']}, topic => {f['topic']})"""

    def command(self, row):
        f = row.fields
        del f["topic"]
        return self.errors(self.wherry(
            "send", f"{self.world.url(self)}#{self.table}", f"--header=h={f['header']}",
            f"--id={f['message_id']}", f"--correlation-id={f['correlation_id']}", f"--reply-to={f['reply_to']}",
            text=row.body.encode()))  # fmt: skip

    def relay(self, url):
        sign = "&" if "?" in url else "?"
        return [f"{url}#{self.table}"]


class NServiceBus(Queue):
    layout = "nservicebus"

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.ways = ("plain SQL", "the library", "the commands")

    def columns(self, row):
        f = row.fields
        headers = {"NServiceBus.MessageId": f["message_id"], "NServiceBus.EnclosedMessageTypes": f["topic"],
                   "NServiceBus.CorrelationId": f["correlation_id"], "NServiceBus.ReplyToAddress": f["reply_to"],
                   "h": f["header"]}  # fmt: skip
        return {"id": str(uuid.uuid4()), "headers": json.dumps(headers, ensure_ascii=row.number % 2 == 0),
                "body": "\\x" + row.body.encode().hex()}  # fmt: skip


class Delayed(Place):
    model, layout = "delayed", "native"
    fields = ("key", "text")
    unique = ("key",)

    def __init__(self, world, kind):
        super().__init__(world, kind)
        self.table = f"delayed_{self.layout}"
        self.ways = WAYS
        if kind == "sqlite" or self.layout == "funfix":
            self.ways = ("plain SQL", "the library", "the commands")

    def make(self):
        self.wherry("create", "--kind", "delayed", f"{self.world.url(self)}#{self.table}", "--layout", self.layout,
                    sure=True)  # fmt: skip

    def takes(self, field, value, way):
        return field != "key" or 0 < len(value) <= 195

    def columns(self, row):
        body = row.body.encode() if self.kind == "sqlite" else "\\x" + row.body.encode().hex()
        return {'"pKey"': row.fields["key"], '"pKind"': KIND, "payload": body, '"scheduledAt"': 1000,
                '"scheduledAtInitially"': 1000, '"createdAt"': 1000}  # fmt: skip

    def function(self, row):
        return f"""wherry_offer('q', {literal(row.fields['key'])}, {literal(row.body)}::text,
            delayed => '{self.table}')"""

    def library(self, row):
        return None, "q", None, None, row.fields["key"], None, None, row.body

    def command(self, row):
        return self.errors(self.wherry("offer", f"{self.world.url(self)}#{self.table}/q", f"--key={row.fields['key']}", "-", text=row.body.encode()))  # fmt: skip

    def relay(self, url):
        sign = "&" if "?" in url else "?"
        return [f"{url}#{self.table}/q"]


class Funfix(Delayed):
    layout = "funfix"


class DelayedNames(Place):
    """Names of delayed queues, and their keys, through the commands."""

    model, layout, table = "delayed", "names", "delayed_names"

    def check(self, _, values):
        url = self.world.url(self)
        self.wherry("create", "--kind", "delayed", f"{url}#{self.table}", sure=True)
        wrong = []
        values = [v for v in values if v][::2]
        for value in values:
            where = f"{url}#{self.table}/{urllib.parse.quote(value, safe='')}"
            offered = self.wherry("offer", where, f"--key={value}", "--", f"{value}")
            polled = self.wherry("poll", where, "--json")
            got = json.loads(polled.stdout or b"{}")
            if got.get("key") != value or "body" not in got or got["body"] not in (value, parsed(value)):
                wrong.append(f"{value!r}: {got} {offered.stderr} {polled.stderr}")
        yield "the commands", len(values), wrong


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


class Inbox(Place):
    model, layout, table = "inbox", "native", "inbox_ordinary"

    def check(self, values, _):
        url = self.world.url(self)
        self.wherry("create", "--kind", "inbox", f"{url}#{self.table}", sure=True)
        values = [v for v in dict.fromkeys(values) if v]
        plain, called, sent = ([alike(v, n) for v in values] for n in range(3))
        yield "plain SQL", len(plain), self.write_sql([{"consumer": "c", "message_id": v} for v in plain])
        if self.kind == "postgres":
            done = self.world.psql("".join(
                f"SELECT wherry_accept({literal(v)}, 'c', '{self.table}'), wherry_accept({literal(v)}, 'c', "
                f"'{self.table}'), wherry_accept({literal(p)}, 'c', '{self.table}');\n" for v, p in zip(called, plain)))
            wrong = self.errors(done) + [line for line in done.stdout.decode().splitlines() if line != "t|f|f"]
            yield "SQL functions", len(called), wrong
        else:
            called = []
        fields = b"".join(b"=" + v.encode() + b"\0" + b"-\0" * 7 for v in sent)
        yield "the library", len(sent), self.errors(call([HELPER, "inbox", url, self.table], fields))
        wanted, got = set(plain + called + sent), self.kept()
        yield "in the table", len(wanted), sorted(map(repr, wanted ^ got))

    def kept(self):
        if self.kind == "sqlite":
            with open_sqlite(os.path.join(self.world.folder, "source.db")) as db:
                return {row[0] for row in db.execute(f"SELECT message_id FROM {self.table}")}
        out = self.world.psql(f"SELECT to_json(message_id) FROM {self.table}").stdout
        return set(map(json.loads, out.decode().splitlines()))


def all_places(world):
    for kind in ("sqlite", "postgres") if world.server else ("sqlite",):
        yield Outbox(world, kind)
        yield Adopted(world, kind)
        yield Queue(world, kind)
        yield Delayed(world, kind)
        yield Funfix(world, kind)
    yield EventBus(world, "sqlite")
    if world.server:
        for one in (Eventferry, Debezium, NServiceBus):
            yield one(world, "postgres")


def tables_of_ids(world):
    for kind in ("sqlite", "postgres") if world.server else ("sqlite",):
        yield Inbox(world, kind)
        yield DelayedNames(world, kind)
