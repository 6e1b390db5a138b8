"""Random rows in every table that a role may write, with the rights of that role: no row stops anybody.

For each model and layout the server says which columns of which tables each role of --grant may insert or update.
Each role writes rows at the edge of each column's type into all of them, and changes rows that are there, while
good messages lie before, between and behind.  On SQLite everybody who can write the file is the role "writer".
Then relays and receivers work, and the commands that count, list and repair.  Every good message must be
delivered once and in order, no later than a claim lasts; every other row is gone, waits for its own time, or is dead
with a reason.  On the database on SQL Server that WHERRY_TEST_MSSQL names, which is emptied, the roles are users.

WHERRY_CRASH_SEED: which rows; WHERRY_ROWS_ONLY: cases whose name contains this; WHERRY_ROWS_SECONDS: go on for so
long, with more seeds.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
import urllib.parse
import uuid

import mssql
import rows
import tap

DEEP = os.environ.get("WHERRY_TEST_DEEP") == "1" or "WHERRY_ROWS_SECONDS" in os.environ
GOOD = 8  # before the others, and as many behind them
BAD = 60 if DEEP else 8  # for each table and role
CLAIM = 2  # seconds, of a claim and a lease
PATIENCE = 120
KIND = hashlib.md5(b"q|bytes").hexdigest()
WHERRY_TABLES = "wherry_lease", "wherry_outbox", "wherry_subscription"

INTEGERS = {"smallint": 1 << 15, "integer": 1 << 31, "int": 1 << 31, "bigint": 1 << 63}
TIMES = ["'infinity'", "'-infinity'", "'294276-12-31'", "'0001-01-01'", "'4713-01-01 BC'", "'2024-02-29'", "'1970-01-01'",
         "'9999-12-31'", "'1969-12-31 23:59:59.999+00'"]  # fmt: skip
MS = ["0", "-1", "1000", "253402300799999", "253402300800000", "9223372036854775807", "-9223372036854775808"]
UUIDS = ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]
# What says that messages have to wait, which a role with that right may say, and where a lease has its number.
LAWFUL = {"wherry_lease": {"expires_at", "outbox", "number"}, "wherry_outbox": {"paused_at", "name"}}


def wherry(*words):
    return subprocess.run([tap.WHERRY, *words], capture_output=True, text=True, errors="replace", timeout=120)


def made(*words):
    for _ in range(20):
        done = wherry(*words)
        if "another program makes tables" not in done.stderr:
            break
    if done.returncode:
        raise RuntimeError(done.stderr)


def value(rng, kind, name, nullable):
    """SQL of a value at the edge of a column's type."""
    if nullable and rng.random() < 0.15:
        return "NULL"
    if kind in INTEGERS:
        most = INTEGERS[kind]
        return rng.choice([*(MS if kind == "bigint" else []), "0", "1", "2", "-1", str(most - 1), str(-most)])
    if kind in TSQL:
        return TSQL[kind](rng, name)
    if kind.startswith("timestamp"):
        return rng.choice(TIMES)
    if kind == "uuid":
        return rng.choice([*UUIDS, f"'{uuid.UUID(int=rng.getrandbits(128))}'"])
    if kind == "boolean":
        return rng.choice(["true", "false"])
    if kind in ("json", "jsonb"):
        return rows.headers(rng, "postgres")
    if kind == "pg_snapshot":
        return rng.choice(["'1:1:'", "'1:9223372036854775807:'", "'3:9:4,5'", "'9000000000:9000000000:'"])
    if kind == "xid8":
        return rng.choice(["'0'", "'1'", "'3'", "'9000000000'", "'18446744073709551615'"])
    if kind == "bytea":
        return rng.choice(["''", "'\\x00ff'", "'{}'", "decode(repeat('00', 3000000), 'hex')"])
    if kind in ("text", "character varying"):
        return text(rng, "postgres", name)
    if kind == "sqlite":
        return rng.choice([rows.number(rng, "sqlite"), text(rng, "sqlite", name), rng.choice(MS), "''", "x''"])
    raise ValueError(kind)


def tsql_text(rng, name):
    return rows.headers(rng, "mssql") if name.lower() == "headers" else text(rng, "mssql", name)


def tsql_bytes(rng, name):
    many = "CAST(REPLICATE(CAST('x' AS VARCHAR(MAX)), 3000000) AS VARBINARY(MAX))"
    return rng.choice(["0x", "0x00FF", "CAST('{}' AS VARBINARY(MAX))", many])


# Values of the types that SQL Server alone has.
TSQL = {
    "nvarchar": tsql_text, "varchar": tsql_text, "varbinary": tsql_bytes,
    "tinyint": lambda rng, name: rng.choice(["0", "1", "2", "3", "4", "5", "255"]),
    "bit": lambda rng, name: rng.choice(["0", "1"]),
    "datetime2": lambda rng, name: rows.time_of(rng, "mssql"),
    "datetime": lambda rng, name: rng.choice(["'1753-01-01'", "'1970-01-01'", "'2024-02-29'", "'9999-12-31'"]),
    "uniqueidentifier": lambda rng, name: rng.choice([*UUIDS, "NEWID()"]),
}  # fmt: skip


def text(rng, database, name):
    if rng.random() < 0.2:
        return rng.choice(["'[1,'", "',,'", "'{}'", "'1'", f"'{KIND}'", "'1:1:1'", "'null'"])
    if database == "mssql" and name == "message_id" and rng.random() < 0.5:
        return f"N'bad {rng.random()}'"
    return rows.text(rng, database) if name != "lockUuid" else rng.choice(["''", "'x'", "'0195'"])


# ---- databases ----


class SQLite(rows.SQLite):
    def __init__(self, folder):
        super().__init__(folder, "native", False)

    def roles(self, kinds):
        return ["writer"]

    def role_of(self, kind):
        return kind

    def columns(self, role, table):
        """What a role may insert and update: pairs of name and type."""
        every = [(row[1].decode(), "sqlite", not row[3]) for row in self.db.execute(f'PRAGMA table_xinfo("{table}")')
                 if not row[6]]  # fmt: skip
        return every, every

    def tables(self):
        return {row[0].decode() for row in self.db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    def run(self, statements, role=None):
        refused = self.write(statements)
        if self.db.in_transaction:
            self.db.commit()
        return refused

    def literal(self, body):
        return f"CAST('{body}' AS BLOB)"

    def nth(self, table, where, share):
        """A condition that one of these rows meets: the share of them that are before it."""
        keys = {"wherry_outbox": "name", "outbox_progress": "subscription", "outbox_exception": "id"}
        one = keys.get(table, "rowid")
        of = f'FROM "{table}" WHERE {where}'
        return (f"{one} = (SELECT {one} {of} ORDER BY {one} LIMIT 1 "
                f"OFFSET CAST({share:.6f} * (SELECT count(*) {of}) AS integer))")  # fmt: skip


class PostgreSQL(rows.PostgreSQL):
    def __init__(self, server, name):
        super().__init__(server, name, "UTF8", "native", True)

    def prepare(self):
        pass

    def roles(self, kinds):
        for kind in kinds:
            self.psql("postgres", f"DO $$ BEGIN CREATE ROLE {kind} LOGIN; EXCEPTION WHEN duplicate_object "
                                  "THEN NULL; END $$")  # fmt: skip
        return kinds

    def columns(self, role, table):
        found = self.rows(
            "SELECT column_name AS c, data_type AS t, is_nullable = 'YES' AS n, "
            f"has_column_privilege('{role}', c.oid, column_name, 'INSERT') AS i, "
            f"has_column_privilege('{role}', c.oid, column_name, 'UPDATE') AS u "
            "FROM information_schema.columns JOIN pg_class AS c ON c.relname = table_name AND c.relkind = 'r' "
            f"WHERE table_name = '{table}' AND table_schema = 'public' AND is_generated = 'NEVER' "
            "ORDER BY ordinal_position")  # fmt: skip
        return [x[:3] for x in found if x[3]], [x[:3] for x in found if x[4]]

    def tables(self):
        return {name for (name,) in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}

    def run(self, statements, role="wherry"):
        """The number of those that were refused; each says what it may wait for."""
        done = self.psql(self.name, "SET client_min_messages = error; " + ";\n".join(statements) + ";\n", role, check=False)
        return done.stderr.count(b"ERROR:")

    def literal(self, body):
        return f"convert_to('{body}', 'UTF8')"

    def nth(self, table, where, share):
        of = f'FROM "{table}" WHERE {where}'
        return (f"ctid = (SELECT ctid {of} ORDER BY ctid LIMIT 1 "
                f"OFFSET CAST({share:.6f} * (SELECT count(*) {of}) AS integer))")  # fmt: skip


class SQLServer(rows.SQLServer):
    PASSWORD = "Wherry-rows-1"

    def __init__(self):
        super().__init__("native", True)
        self.as_role = {}
        self.is_babelfish = self.db.execute("SELECT @@VERSION")[0][0].startswith("Babelfish")

    def prepare(self):
        pass

    def login(self, role):
        """Logins are the server's, and other databases may be tested at the same time."""
        return f"wherry_r_{urllib.parse.urlsplit(self.url).path.strip('/')}_{role}"

    def user(self, role):
        if role not in self.as_role:
            url = urllib.parse.urlsplit(self.url)
            login = f"{self.login(role)}:{self.PASSWORD}@{url.netloc.rpartition('@')[2]}"
            self.as_role[role] = mssql.connect(url._replace(netloc=login).geturl())
        return self.as_role[role]

    def roles(self, kinds):
        for kind in kinds:
            self.db.execute(f"IF USER_ID(N'{kind}') IS NULL AND SUSER_ID(N'{self.login(kind)}') IS NULL "
                            f"CREATE LOGIN {self.login(kind)} WITH PASSWORD = '{self.PASSWORD}'")  # fmt: skip
            self.db.execute(f"IF USER_ID(N'{kind}') IS NULL CREATE USER {kind} FOR LOGIN {self.login(kind)}")
        return kinds

    def columns(self, role, table):
        """Not identities, which only the owner writes.  A role may not see the columns of a table to which it adds rows."""
        every = self.db.execute(
            "SELECT c.name, TYPE_NAME(c.system_type_id), c.is_nullable FROM sys.columns AS c "
            f"WHERE c.object_id = OBJECT_ID(N'\"{table}\"', N'U') AND c.is_computed = 0 AND c.is_identity = 0 "
            "ORDER BY c.column_id")  # fmt: skip
        may = "HAS_PERMS_BY_NAME(N'\"%s\"', N'OBJECT', N'%s'%s)"
        may = [may % (table, "INSERT", ""),
               *(may % (table, "UPDATE", f", N'{name}', N'COLUMN'") for name, _, _ in every)]  # fmt: skip
        insert, *update = self.user(role).execute(f"SELECT {', '.join(may)}").fetchone()
        stamp = [name for name, kind, _ in every if kind == "timestamp"]
        if stamp and any(update) and self.is_babelfish:
            # With each update it writes the row's version, and asks for the right to it.
            self.db.execute(f'GRANT UPDATE ("{stamp[0]}") ON "{table}" TO {role}')
        written = [c for c in every if c[1] != "timestamp"] if insert else []
        return written, [c for c, may in zip(every, update) if may and c[1] != "timestamp"]

    def tables(self):
        return {name for (name,) in self.db.execute("SELECT name FROM sys.tables")}

    def rows(self, sql):
        return [list(row) for row in self.db.execute(sql)]

    def run(self, statements, role=None):
        refused = 0
        for sql in statements:
            try:
                (self.user(role) if role else self.db.connection).execute(sql)
            except Exception:
                refused += 1
        return refused

    def literal(self, body):
        return f"CAST('{body}' AS VARBINARY(MAX))"

    def nth(self, table, where, share):
        one = {"jobs.Delayed": "RowVersion", "seen": "message_id", "cron": "name", "wherry_outbox": "name",
               "outbox_progress": "subscription"}.get(table, "id")
        if table == "jobs" and self.db.execute("SELECT COL_LENGTH(N'jobs', N'RowVersion')")[0][0]:
            one = "RowVersion"
        of = f'FROM "{table}" WHERE {where}'
        return (f'"{one}" = (SELECT "{one}" {of} ORDER BY "{one}" '
                f"OFFSET CAST({share:.6f} * (SELECT COUNT(*) {of}) AS INT) ROWS FETCH NEXT 1 ROWS ONLY)")  # fmt: skip

    def close(self):
        for connection in self.as_role.values():
            connection.close()
        self.db.clear()
        for role in self.as_role:
            for sql in (f"REVOKE SELECT ON wherry_clock FROM {role}", f"DROP USER {role}", f"DROP LOGIN {self.login(role)}"):
                self.run([sql])
        super().close()


# ---- models ----


class Model:
    """The tables of a layout: row() is an ordinary row of each; unfit, columns that are left alone; bad, which
    rows are no good messages; open_now, those that should have been delivered; dead, those that say no reason."""

    layout, roles, ways = "native", (), ()
    main, open_now, dead, unfit = "", "", "", ()

    def __init__(self, database):
        self.db, self.sqlite, self.rights = database, database.kind == "sqlite", {}
        self.tsql = database.kind == "mssql"
        self.now = "SYSUTCDATETIME()" if self.tsql else "now()"

    def base(self, table, n):
        if table == "wherry_lease":
            return {"outbox": f"'{self.main}'", "number": str(n % 3), "engine": "'log'", "epoch": "1"}
        if table == "wherry_outbox":
            return {"name": f"'{self.main}'"}
        if table == "wherry_subscription":
            return {"queue": f"'{self.main}'", "topic": f"'bad {n}'"}
        return self.row(table, n)

    def bad_where(self, table):
        if table in WHERRY_TABLES:
            return "1 = 1"
        return self.bad

    def grants(self, *create):
        for role in self.db.roles(self.roles):
            if not self.sqlite:
                made(*create, "--grant", f"{role}={role}")


def quoted(name):
    return f'"{name}"'


def inserts(model, rng, table, columns, n):
    names = {name for name, _, _ in columns}
    row = {c: v for c, v in model.base(table, n).items() if c in names}
    spare = [c for c in columns if c[0] not in LAWFUL.get(table, ()) and c[0] not in model.unfit]
    for name, kind, nullable in rng.sample(spare, min(len(spare), rng.randrange(1, 4))):
        row[name] = value(rng, kind, name, nullable)
    return f"INSERT INTO {quoted(table)}({', '.join(map(quoted, row))}) VALUES ({', '.join(row.values())})"


def updates(model, rng, table, columns, n):
    """Of one row that is there and is not a good message."""
    spare = [c for c in columns if c[0] not in (*LAWFUL.get(table, ()), *model.names, *model.unfit)]
    if not spare:
        return None
    sets = {name: value(rng, kind, name, nullable)
            for name, kind, nullable in rng.sample(spare, min(len(spare), rng.randrange(1, 4)))}  # fmt: skip
    where = model.bad_where(table)
    which = where if table in WHERRY_TABLES else model.db.nth(table, where, rng.random())
    return f"UPDATE {quoted(table)} SET {', '.join(f'{quoted(c)} = {v}' for c, v in sets.items())} WHERE {which}"


def write_bad(case, model, rng, counter):
    """All roles, all tables."""
    written = []
    for role in model.db.roles(model.roles):
        for table in sorted(model.db.tables()):
            if table not in model.tables:
                continue
            if (role, table) not in model.rights:
                model.rights[role, table] = model.db.columns(role, table)
            may_insert, may_update = model.rights[role, table]
            statements = []
            for i in range(BAD):
                counter[0] += 1
                if may_update and (not may_insert or i % 2):
                    statements.append(updates(model, rng, table, may_update, counter[0]))
                elif may_insert:
                    statements.append(inserts(model, rng, table, may_insert, counter[0]))
            statements = [s for s in statements if s]
            if not statements:
                continue
            refused = model.db.run(statements, role)
            tap.totals[f"{case}: {table} by {role}: tried"] += len(statements)
            tap.totals[f"{case}: {table} by {role}: refused"] += refused
            written += [f"{role}: {s[:400]}" for s in statements]
    return written


class Outbox(Model):
    """Who may write the position of a subscription may move it, so those of others are written; and exceptions of good
    messages would say that these are dead."""

    layout, main, roles, ways = "log", "outbox", ("producer", "enqueuer", "relay", "operator"), ("log",)
    tables = {"outbox", "outbox_progress", "outbox_exception", "wherry_lease", "wherry_outbox"}
    bad, names, unfit = "topic <> 'good' OR topic IS NULL", (), ("id",)
    dead = "SELECT id FROM outbox_exception WHERE subscription = 'relay' AND state = 4 AND coalesce(last_error, '') = ''"

    def make(self):
        made("create", self.db.url, "--layout", self.layout)
        self.grants("create", self.db.url)
        due = ("coalesce(next_retry_at, 0) <= 1700000000000" if self.sqlite
               else f"coalesce(next_retry_at, {self.now}) <= {self.now}")  # fmt: skip
        self.open_now = ("SELECT x.id, state, attempts FROM outbox_exception AS x JOIN outbox AS t ON t.id = x.id "
                         f"WHERE subscription = 'relay' AND (state = 0 OR state IN (1, 3) AND {due})")  # fmt: skip

    def row(self, table, n):
        if table == "outbox_progress":
            return {"subscription": f"'bad {n}'", "high": "0", "seen": "'1:1:'", "moved_at": "1000" if self.sqlite else self.now}
        if table == "outbox_exception":
            bad = "FROM outbox WHERE topic LIKE 'bad%'"
            nth = f"OFFSET {n} % (SELECT count(*) {bad})"
            one = f"(SELECT id {bad} ORDER BY id {f'{nth} ROWS FETCH NEXT 1 ROWS ONLY' if self.tsql else f'LIMIT 1 {nth}'})"
            return {"subscription": "'relay'", "id": one, "state": str((0, 1, 3, 4)[n % 4])}
        return {"topic": f"'bad {n}'", "payload": "'{}'", "message_id": f"'bad {n}'"}

    def bad_where(self, table):
        if table == "outbox_progress":
            return "subscription <> 'relay'"
        if table == "outbox_exception":
            return "id NOT IN (SELECT id FROM outbox WHERE topic = 'good')"
        return super().bad_where(table)

    def good(self, n):
        return f"INSERT INTO outbox(topic, partition_key, payload) VALUES ('good', 'k{n % 3}', '{{\"good\":{n}}}')"

    def source(self, way):
        return self.db.url, []

    def commands(self, case):
        url = self.db.url
        yield ["status", url], (0, 1)
        yield ["tables", url], (0,)
        yield ["list", url, "--json"], (0,)
        yield ["list", url], (0,)
        yield ["list", url, "--state", "dead", "--json"], (0,)
        yield ["doctor", url], (0, 1)
        yield ["retry", url, "--all"], (0, 1)
        yield ["purge", url, "--older-than", "1h", "--yes"], (0,)


class EventFerry(Outbox):
    layout, roles, ways = "eventferry", ("library",), ("competing",)
    tables, unfit = {"outbox"}, ()
    dead = None

    def make(self):
        made("create", self.db.url, "--layout", "eventferry")
        for role in self.db.roles(self.roles):
            self.db.run([f"GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO {role}"])
        self.open_now = ("SELECT id, status, attempts FROM outbox WHERE status IN (0, 3) "
                         f"AND coalesce(next_retry_at, {self.now}) <= {self.now}")

    def row(self, table, n):
        row = {"topic": f"'bad {n}'", "payload": "'{}'", "aggregate_type": "'a'", "aggregate_id": f"'bad {n % 9}'"}
        return {**row, "message_id": f"'bad {n}'"} if self.tsql else row

    def good(self, n):
        unique = "LOWER(CAST(NEWID() AS NVARCHAR(36)))" if self.tsql else "gen_random_uuid()"
        return ("INSERT INTO outbox(topic, aggregate_type, aggregate_id, message_id, payload) VALUES "
                f"('good', 'g', 'k{n % 3}', {unique}, '{{\"good\":{n}}}')")

    def commands(self, case):
        for words, codes in super().commands(case):
            if words[0] in ("status", "list", "doctor", "retry"):
                yield words, codes


class Queue(Model):
    main, roles = "jobs", ("sender", "receiver", "operator")
    tables = {"jobs", "wherry_lease", "wherry_outbox", "wherry_subscription"}
    ways = "relay", "receive"
    bad, names = "topic <> 'good' OR topic IS NULL", ()
    dead = "SELECT id FROM jobs WHERE state = 4 AND coalesce(last_error, '') = ''"

    def make(self):
        made("create", "--kind", "queue", f"{self.db.url}#jobs")
        self.grants("create", "--kind", "queue", f"{self.db.url}#jobs")
        due = "available_at <= 1700000000000" if self.sqlite else f"available_at <= {self.now}"
        self.open_now = f"SELECT id, state, attempts FROM jobs WHERE state = 0 OR state IN (1, 3) AND {due}"

    def row(self, table, n):
        return {"topic": f"'bad {n}'", "body": "'{}'", "message_id": f"'bad {n}'"}

    def good(self, n):
        return f"INSERT INTO jobs(topic, body) VALUES ('good', '{{\"good\":{n}}}')"

    def source(self, way):
        return f"{self.db.url}#jobs", []

    def take(self):
        got = []
        while True:
            if self.tsql and self.layout == "native":
                try:
                    rows_got = self.db.user("receiver").execute("EXEC wherry_receive N'jobs', 50").fetchall()
                except Exception as error:
                    return got, str(error)
                if not rows_got:
                    return got, ""
                got += [{"body": row.body} for row in rows_got]
                continue
            if self.sqlite or self.layout != "native":
                done = wherry("receive", f"{self.db.url}#jobs", "--json")
                if done.returncode:
                    break
                lines = done.stdout.splitlines()
            else:
                done = self.db.psql(self.db.name, "SELECT row_to_json(r) FROM wherry_receive('jobs', 50) AS r",
                                    "receiver", check=False)
                lines = done.stdout.decode(errors="replace").splitlines()
                if done.stderr:
                    return got, done.stderr.decode(errors="replace")
                if not lines:
                    return got, ""
            got += [json.loads(line) for line in lines]
        return got, "" if done.returncode == 1 and "no message" in done.stderr else done.stderr

    def commands(self, case):
        url = self.db.url
        yield ["tables", url], (0,)
        yield ["status", f"{url}#jobs"], (0,)
        yield ["list", f"{url}#jobs", "--bodies", "--json"], (0, 1)
        yield ["list", f"{url}#jobs", "--bodies"], (0, 1)
        yield ["list", f"{url}#jobs", "--state", "dead", "--bodies"], (0, 1)
        yield ["list", f"{url}#jobs", "--state", "dead", "--bodies", "--json"], (0, 1)
        yield ["doctor", f"{url}#jobs"], (0, 1)
        if self.layout == "native":
            yield ["queue", "subscriptions", url], (0, 1)
        yield ["status", self.source("relay")[0]], (0, 1)
        yield ["retry", f"{url}#jobs", "--all"], (0, 1)
        yield ["discard", f"{url}#jobs", "--all", "--yes"], (0, 1)


class NServiceBus(Queue):
    layout, roles = "nservicebus", ("endpoint",)
    tables = {"jobs", "jobs.Delayed", "jobs_received", "wherry_lease"}
    ways = ("receive",)
    bad, names, dead = "headers NOT LIKE '%good%'", (), None
    open_now = "SELECT 1 WHERE false"

    def make(self):
        made("create", "--kind", "queue", f"{self.db.url}#jobs", "--layout", "nservicebus")
        for role in self.db.roles(self.roles) if self.tsql else ():
            for table in self.tables & self.db.tables():
                self.db.db.execute(f'GRANT SELECT, INSERT, UPDATE, DELETE ON "{table}" TO {role}')
        for role in self.db.roles(self.roles) if not self.tsql else ():
            self.db.run([f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
                         f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}", f"GRANT receiver TO {role}"])

    def bad_where(self, table):
        return self.bad if table == "jobs" else "1 = 1"

    def row(self, table, n):
        if table == "jobs.Delayed":
            return {"headers": "'{}'", "body": "'x'", "due": "now()"} if not self.tsql else \
                {"Headers": "'{}'", "Body": "0x78", "Due": "GETUTCDATE()"}  # fmt: skip
        if table == "jobs" and self.tsql:
            return {"Id": "NEWID()", "Recoverable": "1", "Headers": "'{}'", "Body": "0x78"}
        if table == "jobs":
            return {"id": "gen_random_uuid()", "headers": "'{}'", "body": "'x'"}
        return {}

    def good(self, n):
        if self.tsql:
            body = self.db.literal(f'{{"good":{n}}}')
            return f"INSERT INTO jobs(Id, Recoverable, Headers, Body) VALUES (NEWID(), 1, '{{\"good\":\"g\"}}', {body})"
        return f"INSERT INTO jobs(id, headers, body) VALUES (gen_random_uuid(), '{{\"good\":\"g\"}}', '{{\"good\":{n}}}')"


class Delayed(Model):
    main, roles = "later", ("sender", "receiver", "operator")
    tables = {"later", "later_dead", "wherry_lease", "wherry_outbox"}
    ways = "relay", "poll"
    bad, names = "\"pKey\" NOT LIKE 'good%'", ("pKey",)
    dead = "SELECT id FROM later_dead WHERE coalesce(last_error, '') = ''"

    def make(self):
        made("create", "--kind", "delayed", f"{self.db.url}#later", "--layout", self.layout)
        if self.layout == "native":
            self.grants("create", "--kind", "delayed", f"{self.db.url}#later")
        elif not self.sqlite:
            for role in self.db.roles(self.roles):
                self.db.run(["GRANT SELECT, INSERT, UPDATE, DELETE ON later TO library"] if self.tsql else
                            [f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
                             f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"])  # fmt: skip
        self.open_now = "SELECT id, \"pKey\" FROM later WHERE \"scheduledAt\" BETWEEN 0 AND 1700000000000 AND \"pKind\" = '" + KIND + "'"

    def row(self, table, n):
        done = {"pKey": f"'bad {n}'", "pKind": f"'{KIND}'", "payload": self.db.literal("{}"), "scheduledAt": "1000",
                "scheduledAtInitially": "1000", "createdAt": "1000"}  # fmt: skip
        if table == "later_dead":
            done.update(id=str(5000000 + n), attempts="1", died_at="1000", last_error="'x'")
            del done["scheduledAt"]
        return done

    def good(self, n):
        row = {**self.row("later", 0), "pKey": f"'good {n}'", "payload": self.db.literal(f'{{"good":{n}}}')}
        return f"INSERT INTO later({', '.join(map(quoted, row))}) VALUES ({', '.join(row.values())})"

    def source(self, way):
        return f"{self.db.url}#later/q", []

    def take(self):
        got = []
        for _ in range(40):
            done = wherry("poll", f"{self.db.url}#later/q", "--limit", "50", "--json")
            if done.returncode:
                break
            got += [json.loads(line) for line in done.stdout.splitlines()]
        return got, "" if done.returncode == 1 else done.stderr

    def commands(self, case):
        of = [f"{self.db.url}#later/q"]
        yield ["status", *of], (0,)
        yield ["list", *of], (0, 1)
        yield ["list", *of, "--json"], (0, 1)
        yield ["list", *of, "--state", "dead", "--bodies"], (0, 1)
        yield ["list", *of, "--state", "dead", "--bodies", "--json"], (0, 1)
        yield ["status", self.source("relay")[0]], (0, 1)
        for n in range(3):
            yield ["offer", *of, "x", "--key", f"offered {n}", "--in", "10s"], (0,)
        yield ["retry", *of, "--all"], (0,)
        yield ["discard", *of, "--state", "dead", "--yes"], (0,)


class Funfix(Delayed):
    layout, roles = "funfix", ("library",)
    tables = {"later"}
    dead = None

    def __init__(self, database):
        super().__init__(database)
        # The library's table on SQLite takes no further row behind the highest id, whoever writes.
        self.unfit = ("id",) if self.sqlite else ()


class Inbox(Model):
    main, roles, tables, ways = "seen", ("consumer", "operator"), {"seen"}, ()
    bad, names, good = "consumer <> 'good'", (), None

    def make(self):
        made("create", "--kind", "inbox", f"{self.db.url}#seen")
        self.grants("create", "--kind", "inbox", f"{self.db.url}#seen")

    def row(self, table, n):
        return {"consumer": "'c'", "message_id": f"'bad {n}'"}

    def commands(self, case):
        yield ["status", f"{self.db.url}#seen"], (0,)
        yield ["inbox", "forget", f"{self.db.url}#seen", "--message", "bad 1", "--consumer", "c", "--yes"], (0, 1)
        yield ["purge", f"{self.db.url}#seen", "--older-than", "1h", "--yes"], (0,)


class Cron(Model):
    main, roles, tables, ways = "cron", ("operator",), {"cron"}, ()
    bad, names, good = "name <> 'good'", (), None

    def make(self):
        made("create", "--kind", "cron", self.db.url)
        made("create", "--kind", "delayed", f"{self.db.url}#later")
        self.grants("create", "--kind", "cron", self.db.url)

    def row(self, table, n):
        return {"target": "'later'", "name": f"'bad {n}'", "hash": "'x'"}

    def commands(self, case):
        yield ["cron", "list", self.db.url], (0, 1)
        yield ["cron", "list", self.db.url, "--json"], (0, 1)
        yield ["cron", "install", f"{self.db.url}#later/q", "good", "0 6 * * *", "--ahead", "3d"], (0,)
        yield ["cron", "uninstall", f"{self.db.url}#later/q", "good", "0 6 * * *", "--yes"], (0,)


# ---- a case ----


def numbers(bodies):
    got = []
    for body in bodies:
        try:
            body = json.loads(body) if isinstance(body, str) else body
            got.append(body["good"])
        except (ValueError, TypeError, KeyError):
            pass
    return got


def read_out(path):
    if not os.path.exists(path):
        return []
    with open(path, errors="replace") as file:
        lines = file.read().split("\n")[:-1]  # The last one may be half written.
    return numbers(json.loads(line).get("body") for line in lines)


def relay_all(case, model, way, folder, want, log):
    """What a relay delivered, and how many seconds longer it took than the machine explains."""
    out = os.path.join(folder, f"out {way}")
    source, more = model.source(way)
    start = time.monotonic()
    subprocess.run([tap.WHERRY, "status", source], stdout=log, stderr=log)
    slow = 20 * (time.monotonic() - start)  # how long a relay may take on this machine, as it is now
    start = time.monotonic()
    relay = subprocess.Popen(
        [tap.WHERRY, "relay", source, f"file:{out}", "--set", f"relay.claim_timeout={CLAIM}s", "--set",
         f"relay.lease={CLAIM}s", "--set", "retry.attempts=1", *more], stdout=log, stderr=log)  # fmt: skip
    try:
        tap.wait_until(PATIENCE, lambda: relay.poll() is not None or set(read_out(out)) >= want)
        took = time.monotonic() - start - slow
        left = lambda: model.db.rows(model.open_now)  # noqa: E731
        tap.wait_until(PATIENCE, lambda: relay.poll() is not None or not left())
        tap.check(f"{case}: no row ends the relay", relay.poll() is None)
        tap.check(f"{case}: no row that is due stays open", not left(), left()[:5])
    finally:
        relay.terminate()
        relay.wait()
    return read_out(out), took


def judge(case, way, got, want, took):
    tap.check(f"{case}: every good message is delivered", set(got) >= want, sorted(want - set(got)))
    tap.check(f"{case}: none is delivered twice", len(got) == len(set(got)), got)
    step = 3 if way in ("competing", "log") else 1
    if way != "relay" and way != "poll":
        keys = [[n for n in got if n % step == key] for key in range(step)]
        tap.check(f"{case}: in order", all(k == sorted(k) for k in keys), got)
    limit = PATIENCE * (5 if mssql.URL else 1) if way in ("receive", "poll") else 3 * CLAIM + 4
    tap.check(f"{case}: no later than a claim", took < limit, took)


def play(case, model, folder, seed):
    rng, counter, n = random.Random(f"{case} {seed}"), [0], 0
    log = open(os.path.join(folder, "log"), "w")
    model.make()
    if model.sqlite:
        model.db.prepare()
    for way in model.ways or ("commands",):
        before, want, written = tap.failures, set(range(n, n + 2 * GOOD)), []
        if model.good:
            refused = model.db.run([model.good(i) for i in range(n, n + GOOD)])
            tap.check(f"{case} {way}: a good message is taken", not refused, refused)
            n += GOOD
        written += write_bad(case, model, rng, counter)
        said = f"{case} {way}"
        if model.good:
            refused = model.db.run([model.good(i) for i in range(n, n + GOOD)])
            tap.check(f"{said}: a good message is taken behind bad ones", not refused, refused)
            n += GOOD
            silent = model.dead and {str(r[0]) for r in model.db.rows(model.dead)}
            if way in ("receive", "poll"):
                start = time.monotonic()
                got, why = model.take()
                got, took = numbers(m.get("body") for m in got), time.monotonic() - start
                tap.check(f"{said}: receiving comes to its end", not why, why)
            else:
                got, took = relay_all(said, model, way, folder, want, log)
            judge(said, way, [i for i in got if i in want], want, took)
            if model.dead:
                more = {str(r[0]) for r in model.db.rows(model.dead)} - silent
                tap.check(f"{said}: every dead row says why", not more, more)
        for words, codes in model.commands(case):
            start = time.monotonic()
            done = wherry(*words)
            tap.check(f"{said}: {' '.join(w for w in words if '://' not in w and 'sqlite:' not in w)} works",
                      done.returncode in codes and time.monotonic() - start < (60 if model.tsql else 20), done.returncode, done.stderr[-600:])  # fmt: skip
        if tap.failures > before:
            with open(os.path.join(folder, "statements"), "a") as file:
                file.write("\n".join(written))
            log.flush()
    log.close()
    if not model.sqlite:
        model.db.close()


def cases(server):
    for kind in Outbox, Queue, Delayed, Funfix, Inbox, Cron:
        yield f"SQLite {kind.__name__}", kind, SQLite
    for kind in (Outbox, EventFerry, Queue, NServiceBus, Delayed, Funfix, Inbox, Cron) if mssql.URL else ():
        yield f"SQL Server {kind.__name__}", kind, lambda folder: SQLServer()
    if server:
        for kind in Outbox, EventFerry, Queue, NServiceBus, Delayed, Funfix, Inbox, Cron:
            yield (f"PostgreSQL {kind.__name__}", kind,
                   lambda folder: PostgreSQL(server, f"r_{os.path.basename(folder).split('.')[-1].lower()}"))  # fmt: skip


def main():
    seed = tap.first_seed()
    until = time.monotonic() + float(os.environ.get("WHERRY_ROWS_SECONDS") or 0)
    only = os.environ.get("WHERRY_ROWS_ONLY") or ""
    process, server = rows.start_server()
    if not server:
        tap.skip("rows of roles on PostgreSQL", "no server is installed")
    try:
        while True:
            tap.tell(f"role rows: WHERRY_CRASH_SEED={seed}")
            for case, kind, database in cases(server):
                if only in case:
                    tap.in_folder(f"roles-{case.replace(' ', '-')}", seed,
                                  lambda folder: play(case, kind(database(folder)), folder, seed))  # fmt: skip
            seed += 1
            if time.monotonic() >= until:
                break
    finally:
        process.stdin.close()
        process.wait()
    for what, n in sorted(tap.totals.items()):
        tap.tell(f"{what} {n}")
    print(f"1..{tap.count}")
    return tap.failures > 0


if __name__ == "__main__":
    sys.exit(main())
