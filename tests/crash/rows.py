"""Random rows, written with plain SQL beside good ones: no row stops an outbox.

For each engine and database a producer writes good rows, numbered for each key, and between
them rows with random values in random columns, as a producer that may only INSERT and as the
owner, who has dropped the constraints.  A relay is at work meanwhile.  Afterwards every good
row was delivered, in the order of its key, and every other row is delivered or dead with a
reason.  On the database on SQL Server that WHERRY_TEST_MSSQL names, which is emptied, the producer is
the owner, who has dropped the constraints or not.

WHERRY_CRASH_SEED: which rows; WHERRY_ROWS_SECONDS: go on for so long, with more seeds;
WHERRY_ROWS_ONLY: cases whose name contains this; WHERRY_ROWS_FLOOD: bad rows in a flood.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time

import mssql
import tap

KEYS = 6
DEEP = os.environ.get("WHERRY_TEST_DEEP") == "1" or "WHERRY_ROWS_SECONDS" in os.environ
GOOD = 90 if DEEP else 30  # in a case
BAD = GOOD
PATIENCE = 120  # seconds
FLOOD = int(os.environ.get("WHERRY_ROWS_FLOOD") or (20000 if DEEP else 4000))  # bad rows in front of good ones
LONG = [300, 1001, 2800, 70000, 1048576, 1048577, 3000000]


class Literal(str):
    """SQL, not a value."""


# ---- values ----


def text(rng, database):
    if database == "mssql":
        return mssql_text(rng)
    kind = rng.randrange(12)
    if kind == 0:
        return "''"
    if kind == 1:
        return "NULL"
    if kind == 2:
        return f"'bad {rng.randrange(5)}'"
    if kind == 3:
        return "'é漢\N{PILE OF POO}'" if database != "ascii" else "E'\\xc3\\xa9'"
    if kind in (4, 5):
        n = rng.choice(LONG)
        return f"repeat('x', {n})" if database != "sqlite" else f"printf('%.*c', {n}, 'x')"
    if kind == 6:  # which does not compress
        n = rng.choice([40, 100, 3000])
        if database == "sqlite":
            return f"hex(randomblob({n * 16}))"
        return f"(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {n}))"
    if kind == 7:
        return "chr(1) || '99999999'" if database != "sqlite" else "char(1) || '99999999'"
    if kind == 8:
        return "E'a\\nb\\tc=d \"e\"'" if database != "sqlite" else "char(10) || 'b=c \"'"
    if kind == 9 and database == "sqlite":
        return rng.choice(["x'00ff'", "x'c328'", "CAST(x'c328' AS TEXT)", "char(0) || 'a'",
                           "zeroblob(1200000)", "17", "1.5", "9e999"])  # fmt: skip
    if kind in (9, 10) and database == "ascii":
        return rng.choice(["E'\\xff\\xfe'", "E'bad \\xc3'", "E'\\xed\\xa0\\x80'", "E'\\x81'",
                           "E'x\\x8d'", "E'\\x9dx'"])  # fmt: skip
    return f"'bad {rng.randrange(100)}'"


def mssql_text(rng):
    """Also halves of surrogate pairs, and the character of number 0."""
    x = "CAST(N'x' AS NVARCHAR(MAX))"
    return rng.choice([
        "N''", "NULL", f"N'bad {rng.randrange(5)}'", f"N'bad {rng.randrange(100)}'",
        "N'é漢\N{PILE OF POO}'", "N'e  '", f"REPLICATE({x}, {rng.choice(LONG)})",
        f"N'{rng.randbytes(rng.choice([40, 100, 3000]) * 16).hex()}'", "NCHAR(1) + N'99999999'",
        "N'a' + NCHAR(10) + N'b' + NCHAR(9) + N'c=d \"e\"'", "NCHAR(55357) + N'x'", "N'x' + NCHAR(56489)",
        "N'a' + NCHAR(0) + N'b'",
    ])  # fmt: skip


def number(rng, database):
    values = ["0", "1", "3", "-1", "999999999", "1000000001", "2147483647", "-2147483648"]
    if database == "sqlite":
        values += ["9223372036854775807", "-9223372036854775808", "1.5", "9e999", "-9e999", "'x'",
                   "x'00'", "1e300"]  # fmt: skip
    return rng.choice(values)


def time_of(rng, database):
    if database == "sqlite":
        return rng.choice(["0", "1", "-1", "1700000000000", "253402300800000", "'x'", "x'00'",
                           "9223372036854775807", "9e999", "-9e999", "1.5"])  # fmt: skip
    if database == "mssql":
        return rng.choice(["'0001-01-01'", "'9999-12-31T23:59:59.999'", "'1753-01-01'", "'1970-01-01'",
                           "'2020-01-01'", "SYSUTCDATETIME()"])  # fmt: skip
    return rng.choice(["'infinity'", "'-infinity'", "'294276-12-31'", "'0001-01-01'",
                       "'4713-01-01 BC'", "now()", "'1970-01-01'", "'2020-01-01'"])  # fmt: skip


def headers(rng, database):
    values = ["'{}'", "'[]'", "'1'", "'99999999'", "'null'", "'\"x\"'", "'{\"a\": 1}'",
              "'{\"a\": \"b\"}'", "'{\"a\": {\"b\": [1]}}'"]  # fmt: skip
    if database == "sqlite":
        values += ["'{'", "x'00'", "'{\"a\": \"' || printf('%.*c', 2000000, 'x') || '\"}'"]
    elif database == "mssql":
        x = "REPLICATE(CAST(N'x' AS NVARCHAR(MAX)), 2000000)"
        values += ["N'{'", "N''", f"N'{{\"a\": \"' + {x} + N'\"}}'"]
    else:
        values += ["('{\"a\": \"' || repeat('x', 2000000) || '\"}')::json"]
    return rng.choice(values)


def payload(rng, database, layout):
    if layout == "eventferry" or layout == "event-bus":
        return rng.choice(["'1'", "'null'", "'{}'", "'[1e30000]'"])
    if database == "mssql":
        return rng.choice(["N''", "N'{}'", "NCHAR(0)", "NCHAR(55357) + N'x'", "N'1'"]) if rng.random() < 0.98 \
            else "REPLICATE(CAST(N'x' AS NVARCHAR(MAX)), 18000000)"  # fmt: skip
    if rng.random() < 0.05:
        return "zeroblob(18000000)" if database == "sqlite" else "decode(repeat('00', 18000000), 'hex')"
    if database == "sqlite":
        return rng.choice(["''", "x'00ff'", "'{}'", "1", "9e999"])
    return rng.choice(["''", "'\\x00ff'", "'{}'"])


def bad_row(rng, database, layout, owner):
    """Columns and their SQL."""
    if layout == "event-bus":
        return bad_event(rng, database)
    key = '"key"' if layout == "eventferry" else "partition_key"
    row = {"topic": "'bad'", "payload": payload(rng, database, layout)}
    if layout == "eventferry":
        row.update(aggregate_type="'a'", aggregate_id=f"'bad {rng.randrange(9)}'")
    texts = ["topic", "aggregate_type", "aggregate_id", key, "trace_id"]
    if layout != "eventferry":
        texts.append("message_id")
    for column in rng.sample(texts, rng.randrange(1, 3)):
        row[column] = text(rng, database)
        if column == "message_id" and "'bad" in row[column]:
            row[column] += f" {'+' if database == 'mssql' else '||'} '{rng.random()}'"
    if rng.random() < 0.2:
        row["headers"] = headers(rng, database)
    if rng.random() < 0.3:
        row["attempts"] = number(rng, database)
    if database == "mssql" and "NCHAR(" in row.get("message_id", ""):
        row["message_id"] = f"N'bad {rng.random()}'"  # Babelfish leaves the escapes of JSON in a text
    if database == "mssql" and layout == "eventferry":
        row["message_id"] = "CAST(NEWID() AS NVARCHAR(36))"
    for column in ("created_at", "next_retry_at", "claimed_at"):
        if rng.random() < 0.2:
            row[column] = time_of(rng, database)
    if rng.random() < 0.15:
        row["status"] = rng.choice(["1", "3", "3"])
        row.setdefault("next_retry_at", time_of(rng, database))
    if database == "mssql":
        for column in ("next_retry_at", "claimed_at"):
            if "9999" in row.get(column, ""):
                row[column] = "'2020-01-01'"  # or it waits until then
        return row
    if rng.random() < 0.1 and owner and layout == "log":
        row["id"] = rng.choice(["0", "-1", "-5", "-9223372036854775807"]) \
            if rng.random() < 0.5 else f"-{rng.randrange(2, 1 << 40)}"
    if rng.random() < 0.1 and owner and layout == "eventferry":
        row["id"] = rng.choice(["0", "-1", "-9223372036854775808", "9223372036854775807"])
    return row


def bad_event(rng, database):
    row = {"id": f"'bad ' || '{rng.random()}'", "type": "'bad'", "payload": "'{}'",
           "occurred_at": "'2026-01-01T00:00:00.000Z'"}  # fmt: skip
    for column in rng.sample(["type", "payload", "occurred_at", "last_error", "keep_alive"], 2):
        row[column] = text(rng, database)
    if rng.random() < 0.2:
        row["id"] = rng.choice([f"{rng.randrange(1000)}", "1.5", f"x'{rng.randrange(256):02x}'",
                                "x'c328'", "x'006100'", "x''", "zeroblob(1200000)"])  # fmt: skip
    if rng.random() < 0.3:
        row["retry_count"] = number(rng, database)
    for column in ("created_on", "started_on"):
        if rng.random() < 0.2:
            row[column] = time_of(rng, database)
    if rng.random() < 0.2:
        row["next_retry_at"] = rng.choice(["'2020-01-01T00:00:00.000Z'", "'soon'", "''", "x'00'",
                                           "x'ff'", "'é'", "1", "-9e999"])  # fmt: skip
    if rng.random() < 0.2:
        row["status"] = rng.choice(["'active'", "'failed'"])
    if rng.random() < 0.2:
        row["expire_in_seconds"] = number(rng, database)
    return row


def flood(database, owner):
    """So many rows that no relay can handle; a producer that may only INSERT sends headers of a
    wrong kind."""
    columns, values = "topic, payload, headers", "'bad', 'x', '[]'"
    if owner:
        never = {"sqlite": "-1", "mssql": "'19600101'"}.get(database.kind, "NULL")
        columns, values = "topic, payload, created_at", f"'', 'x', {never}"
    if database.kind == "sqlite":
        numbers = f"WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {FLOOD})"
        return f"{numbers} INSERT INTO outbox({columns}) SELECT {values} FROM s"
    if database.kind == "mssql":
        return f"INSERT INTO outbox({columns}) SELECT TOP ({FLOOD // 10}) {values} " \
               "FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b"  # fmt: skip
    return f"INSERT INTO outbox({columns}) SELECT {values} FROM generate_series(1, {FLOOD})"


TELL = "UPDATE wherry_outbox SET control_version = control_version + 1"  # as operators do
STATES = ("attempts", "next_retry_at", "claimed_at", "status", "claim_token")  # beside a log


def insert(row, layout, database=None, owner=False):
    if layout == "log":
        return insert_into_log(row, database, owner)
    over = "OVERRIDING SYSTEM VALUE " if layout == "eventferry" and "id" in row else ""
    return f"INSERT INTO outbox({', '.join(row)}) {over}VALUES ({', '.join(row.values())})"


def insert_into_log(row, database, owner):
    """A producer cannot write the state of a message.  The owner writes it in the same transaction."""
    state = {name.replace("claimed_at", "changed_at").replace("status", "state"): value
             for name, value in row.items() if name in STATES}  # fmt: skip
    plain = insert({name: value for name, value in row.items() if name not in STATES}, None)
    if not owner or not state:
        return plain
    names, values = ", ".join(state), ", ".join(state.values())
    into = f"INSERT INTO outbox_exception(subscription, id, {names}) SELECT 'relay',"
    if database == "sqlite":
        return f"BEGIN; {plain}; {into} last_insert_rowid(), {values}; {TELL}; COMMIT"
    if database == "mssql":
        return f"SET XACT_ABORT ON; BEGIN TRANSACTION; {plain}; {into} SCOPE_IDENTITY(), {values}; {TELL}; COMMIT"
    return f"WITH m AS ({plain} RETURNING id), x AS ({into} id, {values} FROM m) {TELL}"


# A log in the form of a table whose rows say what became of them.
UNCOVERED = {"sqlite": "t.id > p.high", "postgres": "t.id > p.high OR NOT pg_visible_in_snapshot(t.tx, p.seen)",
             "mssql": "CONVERT(BIGINT, t.rv) > p.high"}  # fmt: skip
STATES_OF_LOG = """CREATE {temp} VIEW states AS
  SELECT t.id, coalesce(x.state, CASE WHEN {uncovered} THEN 0 ELSE 2 END) AS status, x.attempts, x.next_retry_at,
         x.last_error
  FROM outbox_progress AS p CROSS JOIN outbox AS t LEFT JOIN outbox_exception AS x ON x.id = t.id"""


# ---- databases ----


class SQLite:
    kind = "sqlite"

    def __init__(self, folder, layout, owner):
        self.path = os.path.join(folder, "db")
        self.url = "sqlite:" + self.path
        self.owner, self.layout = owner, layout

    def prepare(self):
        self.db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        self.db.text_factory = bytes
        if self.owner:
            self.db.execute("PRAGMA ignore_check_constraints = ON")
        if self.layout == "log":
            self.db.execute(STATES_OF_LOG.format(temp="TEMP", uncovered=UNCOVERED["sqlite"]))

    def write(self, statements):
        """The number of those that were refused."""
        refused = 0
        for sql in statements:
            try:
                for part in sql.split("; ") if sql.startswith("BEGIN; ") else [sql]:
                    self.db.execute(part)
            except sqlite3.Error:
                refused += 1
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
        return refused

    def rows(self, sql):
        return [[v.decode(errors="replace") if isinstance(v, bytes) else v for v in row]
                for row in self.db.execute(sql)]  # fmt: skip

    def close(self):
        self.db.close()


class PostgreSQL:
    def __init__(self, server, name, encoding, layout, owner):
        self.kind = "postgres" if encoding == "UTF8" else "ascii"  # bytes that are no UTF-8
        self.server, self.name, self.owner, self.layout = server, name, owner, layout
        self.url = f"postgres://wherry@/{name}?host={server}"
        self.psql("postgres", f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' "
                              "TEMPLATE template0")  # fmt: skip

    def psql(self, database, sql, user="wherry", check=True):
        done = subprocess.run(
            ["psql", "-X", "-q", "-A", "-t", "-h", self.server, "-U", user, database],
            input=sql.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PGCLIENTENCODING": "SQL_ASCII"},
        )  # fmt: skip
        if check and done.stderr:
            raise RuntimeError(done.stderr.decode(errors="replace")[:500])
        return done

    def prepare(self):
        if self.owner:
            self.psql(self.name, "ALTER TABLE outbox DROP CONSTRAINT outbox_sane", check=False)
        if self.layout == "log":
            self.psql(self.name, STATES_OF_LOG.format(temp="", uncovered=UNCOVERED["postgres"]))
        self.psql("postgres", "DO $$ BEGIN CREATE ROLE producer LOGIN; EXCEPTION WHEN "
                              "duplicate_object THEN NULL; END $$")  # fmt: skip
        self.psql(self.name, "GRANT INSERT ON outbox TO producer")

    def write(self, statements):
        user = "wherry" if self.owner else "producer"
        done = self.psql(self.name, ";\n".join(statements) + ";\n", user, check=False)
        return done.stderr.count(b"ERROR:")

    def rows(self, sql):
        out = self.psql(self.name, f"SELECT row_to_json(r) FROM ({sql}) AS r").stdout
        return [list(json.loads(line).values())
                for line in out.decode(errors="replace").splitlines()]  # fmt: skip

    def close(self):
        self.psql("postgres", f"DROP DATABASE {self.name} WITH (FORCE)")


class SQLServer:
    kind = "mssql"

    def __init__(self, layout, owner):
        self.url, self.owner = mssql.URL, owner
        self.layout, self.db = layout, mssql.Database()
        self.db.clear()

    def prepare(self):
        checks = "SELECT name FROM sys.check_constraints WHERE parent_object_id = OBJECT_ID('outbox')"
        for (name,) in self.db.execute(checks) if self.owner else ():
            self.db.execute(f'ALTER TABLE outbox DROP CONSTRAINT "{name}"')
        if self.layout == "log":
            self.db.execute(STATES_OF_LOG.format(temp="", uncovered=UNCOVERED["mssql"]))

    def write(self, statements):
        refused = 0
        for sql in statements:
            try:
                self.db.connection.execute(sql)
            except Exception:
                refused += 1
        return refused

    def rows(self, sql):
        return [list(row) for row in self.db.execute(sql.replace(" LIMIT 5", ""))[:5]]

    def close(self):
        self.db.clear()
        self.db.close()


# ---- a case ----


class Case:
    def __init__(self, name, engine, layout, relays, open_database, flood=False):
        self.name, self.engine, self.layout, self.relays = name, engine, layout, relays
        self.open = open_database
        self.flood = flood  # of bad rows, in front of all


def good_row(layout, key, n):
    body = f"""'{{"good": "{key}", "n": {n}}}'"""
    if layout == "event-bus":
        return {"id": f"'good {key} {n}'", "type": "'good'", "payload": body,
                "occurred_at": f"'2026-01-01T00:00:00.{n:03}Z'"}  # fmt: skip
    if layout == "eventferry":
        return {"topic": "'good'", "aggregate_type": "'g'", "aggregate_id": f"'{key}'",
                "payload": body, "message_id": f"'00000000-0000-4000-8000-{key[1:]:0>4}{n:0>8}'"}  # fmt: skip
    return {"topic": "'good'", "partition_key": f"'{key}'", "payload": body}


def statements(rng, case, database, owner, start):
    """Good and bad rows, mixed; the good ones of each key are numbered from start on."""
    counts = [start] * KEYS
    out = []
    for _ in range(GOOD // 2):
        key = rng.randrange(KEYS)
        out.append(insert(good_row(case.layout, f"k{key}", counts[key]), case.layout, database.kind, owner))
        counts[key] += 1
    order = list(range(len(out)))
    mixed = [(i, sql) for i, sql in zip(order, out)]
    for _ in range(BAD // 2):
        at = rng.choice([-1, rng.randrange(len(out))])  # many in front of all
        bad = bad_row(rng, database.kind, case.layout, owner)
        mixed.append((at, insert(bad, case.layout, database.kind, owner)))
    mixed.sort(key=lambda item: item[0])
    good = {f"k{key}": counts[key] for key in range(KEYS)}
    return [sql for _, sql in mixed], good


def delivered(path):
    got = {}
    if not os.path.exists(path):
        return got
    with open(path, errors="replace") as lines:
        for line in lines:
            try:
                body = json.loads(line)["body"]
                body = json.loads(body) if isinstance(body, str) else body
            except (ValueError, KeyError, TypeError):
                continue
            if isinstance(body, dict) and "good" in body:
                got.setdefault(body["good"], []).append(body["n"])
    return got


def open_states(case):
    """Of an event-bus table: a failed row without a time is dead."""
    if case.layout == "event-bus":
        return "status IN ('created', 'active') OR next_retry_at IS NOT NULL"
    return "status IN (0, 1, 3)"


def states_of(case):
    return "states" if case.layout == "log" else "outbox"


def n_open(case, database):
    return database.rows(f"SELECT count(*) FROM {states_of(case)} WHERE {open_states(case)}")[0][0]


def explain_open(case, database):
    tries = "retry_count" if case.layout == "event-bus" else "attempts"
    rows = database.rows(f"SELECT id, status, {tries}, next_retry_at FROM {states_of(case)} "
                         f"WHERE {open_states(case)} ORDER BY id LIMIT 5")  # fmt: skip
    return f"open: {rows}"


def told_again(case, database, owner):
    """A relay that reads a message before it hears of its state delivers it as a new one, and looks at the state when it is
    told the next time."""
    if owner and case.layout == "log" and time.monotonic() > told_again.next:
        told_again.next = time.monotonic() + 5
        database.write([TELL])
    return False


told_again.next = 0.0


def run(case, folder, seed, server):
    rng = random.Random(f"{case.name} {seed}")
    owner = seed % 2 == 1
    database = case.open(folder, server, owner)
    out = os.path.join(folder, "out")
    log = open(os.path.join(folder, "log"), "w")
    create = ["--layout", case.layout]
    if case.engine == "partitions":
        create += ["--partitions"]
    if case.layout == "log" and database.kind in ("postgres", "ascii"):
        create += ["--payload", rng.choice(["bytea", "json", "jsonb", "text"])]
    subprocess.run([tap.WHERRY, "create", database.url, *create], check=True, stdout=log, stderr=log)
    database.prepare()
    first, good = statements(rng, case, database, owner, 0)
    if case.flood:
        first.insert(0, flood(database, owner))
    refused = database.write(first[: len(first) // 2])
    relays = [
        subprocess.Popen(
            [tap.WHERRY, "relay", database.url, f"file:{out}{i}", "--set", "relay.sweep=5s",
             "--set", "relay.claim_timeout=10s", "--set", "relay.lease=10s"],
            stdout=log, stderr=log,
        )
        for i in range(case.relays)
    ]  # fmt: skip
    try:
        refused += database.write(first[len(first) // 2 :])
        done = tap.wait_until(PATIENCE, lambda: ended(case, database, out, good, relays)
                              or told_again(case, database, owner))  # fmt: skip
        check(case, database, out, good, relays, done, seed)
    finally:
        for relay in relays:
            relay.terminate()
        for relay in relays:
            relay.wait()
        log.close()
    tap.totals[f"rows tried, {case.name}"] += len(first)
    tap.totals[f"refused, {case.name}"] += refused
    database.close()


def all_delivered(case, out):
    got = {}
    for i in range(case.relays):
        for key, ns in delivered(f"{out}{i}").items():
            got.setdefault(key, []).append(ns)
    return got


def ended(case, database, out, good, relays):
    if any(relay.poll() is not None for relay in relays):
        return True
    time.sleep(0.2)
    got = all_delivered(case, out)
    whole = all(len({n for ns in got.get(key, []) for n in ns}) >= count
                for key, count in good.items())  # fmt: skip
    return whole and n_open(case, database) == 0


def check(case, database, out, good, relays, done, seed):
    who = "owner" if seed % 2 else "producer"
    tried = f"{case.name}, {who}, seed {seed}"
    tap.check(f"no row ends a relay ({tried})", all(r.poll() is None for r in relays))
    got = all_delivered(case, out)
    missing = {key: count - len({n for ns in got.get(key, []) for n in ns})
               for key, count in good.items()}  # fmt: skip
    tap.check(f"every good row is delivered ({tried})", not any(missing.values()),
              f"missing: {missing}", explain_open(case, database))  # fmt: skip
    orders = case.layout == "event-bus" or all(
        ns == sorted(ns) for lists in got.values() for ns in lists)  # fmt: skip
    tap.check(f"good rows are delivered in the order of their keys ({tried})", orders, got)
    tap.check(f"every other row is delivered or dead ({tried})", done or
              n_open(case, database) == 0, explain_open(case, database))  # fmt: skip
    if case.layout == "log":
        silent = database.rows(f"SELECT count(*) FROM {states_of(case)} WHERE status = 4 "
                               "AND coalesce(last_error, '') = ''")  # fmt: skip
        tap.check(f"every dead row says why ({tried})", silent[0][0] == 0)


def sqlite(folder, _, owner):
    return SQLite(folder, "log", owner)


def event_bus(folder, _, owner):
    return SQLite(folder, "event-bus", owner)


def postgres(name, encoding, layout="log"):
    return lambda folder, server, owner: PostgreSQL(server, name, encoding, layout, owner)


def sql_server(layout):
    return lambda folder, server, owner: SQLServer(layout, owner)


def cases(server):
    yield Case("SQLite log", "log", "log", 1, sqlite)
    yield Case("SQLite event-bus", "competing", "event-bus", 2, event_bus)
    yield Case("SQLite flood", "log", "log", 1, sqlite, flood=True)
    if mssql.URL:
        yield Case("SQL Server log", "log", "log", 1, sql_server("log"))
        yield Case("SQL Server eventferry", "competing", "eventferry", 1, sql_server("eventferry"))
        yield Case("SQL Server flood", "log", "log", 1, sql_server("log"), flood=True)
    if not server:
        return
    yield Case("PostgreSQL flood", "log", "log", 1, postgres("flood", "UTF8"), flood=True)
    engines = (("log", 1), ("partitions", 2))
    for encoding, some in (("UTF8", engines), ("SQL_ASCII", engines), ("WIN1252", engines[:1])):
        for engine, relays in some:
            yield Case(f"PostgreSQL {encoding} {engine}", engine, "log", relays,
                       postgres(f"{engine}_{encoding.lower()}", encoding))  # fmt: skip
    yield Case("eventferry UTF8", "competing", "eventferry", 1, postgres("ferry", "UTF8", "eventferry"))


def start_server():
    script = os.path.join(tap.SOURCE, "tests", "postgres", "server.sh")
    process = subprocess.Popen(["bash", script], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    return process, process.stdout.readline().strip()


def main():
    seed = tap.first_seed()
    until = time.monotonic() + float(os.environ.get("WHERRY_ROWS_SECONDS") or 0)
    only = os.environ.get("WHERRY_ROWS_ONLY") or ""
    process, server = start_server()
    if not server:
        tap.skip("rows on PostgreSQL", "no server is installed")
    try:
        for seed in range(seed, seed + 1000000):
            tap.tell(f"rows: WHERRY_CRASH_SEED={seed}")
            for case in cases(server):
                if only in case.name:
                    tap.in_folder("rows", seed, lambda folder: run(case, folder, seed, server))
            if time.monotonic() >= until and seed % 2:
                break  # both the producer and the owner had their turn
    finally:
        process.stdin.close()
        process.wait()
    for what, n in tap.totals.items():
        tap.tell(f"{n} {what}")
    print(f"1..{tap.count}")
    return tap.failures > 0


if __name__ == "__main__":
    sys.exit(main())
