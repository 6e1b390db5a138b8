"""Random rows in a queue, written with plain SQL beside good ones: no row stops its receivers.

On each layout and database good messages are sent, and between them rows with random values in
random columns, as a sender that may only INSERT and as the owner, who has dropped the constraints.
On the database on SQL Server that WHERRY_TEST_MSSQL names, which is emptied, the sender is the owner, too.
Workers are at work meanwhile, under leases and in transactions.  Afterwards every good message was
applied once, and every other row is gone or dead with a reason.

WHERRY_CRASH_SEED: which rows; WHERRY_CRASH_ROUNDS: how many bad rows in all; WHERRY_ROWS_ONLY: cases
whose name contains this.
"""

import os
import random
import subprocess
import sys

import kill_mssql_queues
import kill_queues
import mssql
import postgres
import rows
import tap
import victims

GOOD = 60  # in a case
PATIENCE = 60  # seconds
LEASED = "lease", "atomic"


def past(rng, database):
    if database == "sqlite":
        return rng.choice(["0", "1", "1700000000000", "1.5", "-1"])
    if database == "mssql":
        return rng.choice(["'0001-01-01'", "'1753-01-01'", "SYSUTCDATETIME()", "'1970-01-01'"])
    return rng.choice(["'-infinity'", "'0001-01-01'", "'4713-01-01 BC'", "now()", "'1970-01-01'"])


def native_row(rng, database):
    row = {"body": rng.choice(["'1'", "'{}'", "'\"\"'"])}
    for column in rng.sample(["message_id", "topic", "correlation_id", "reply_to"], 2):
        row[column] = rows.text(rng, database)
    row.setdefault("message_id", f"'bad {rng.random()}'")
    if rng.random() < 0.5:
        row["headers"] = rows.headers(rng, database)
    if rng.random() < 0.3:
        row["attempts"] = rows.number(rng, database)
    for column in ("created_at", "expires_at"):
        if rng.random() < 0.2:
            row[column] = rows.time_of(rng, database)
    if rng.random() < 0.3:
        row["state"] = "3"
        row["available_at"] = past(rng, database)
    if rng.random() < 0.1:
        row["lease_token"] = rows.text(rng, database)
    return "jobs", row


def nservicebus_row(rng, database):
    row = {"id": "gen_random_uuid()"}
    text = rng.choice([rows.text(rng, database), f"({rows.headers(rng, database)})::text",
                       "'{\"NServiceBus.SqlServer.ForwardDestination\":\"nowhere\"}'",
                       "'{\"NServiceBus.SqlServer.ForwardDestination\":\"a\\\"b.c\"}'",
                       "'{\"NServiceBus.TimeSent\":\"2026-02-31 25:00:00:000001 Z\"}'"])  # fmt: skip
    row["headers"] = text
    if rng.random() < 0.7:
        row["body"] = rng.choice(["''", "'\\x00ff'", "'1'"])
    if rng.random() < 0.3:
        row["due"] = past(rng, database)
        return '"jobs.Delayed"', row
    if rng.random() < 0.3:
        row["expires"] = rows.time_of(rng, database)
    if rng.random() < 0.1:
        row["seq"] = rng.choice(["0", "-1", "-9223372036854775808", "9223372036854775807"])
    return "jobs", row


def mssql_nservicebus_row(rng):
    """The columns, but for Recoverable, of rows that no endpoint sends."""
    row = {"Id": "NEWID()", "Recoverable": rng.choice(["1", "0"])}
    row["Headers"] = rng.choice([rows.mssql_text(rng), rows.headers(rng, "mssql"),
                       "N'{\"NServiceBus.SqlServer.ForwardDestination\":\"nowhere\"}'",
                       "N'{\"NServiceBus.SqlServer.ForwardDestination\":\"a]b@[c\"}'",
                       "N'{\"NServiceBus.TimeSent\":\"2026-02-31 25:00:00:000001 Z\"}'"])  # fmt: skip
    if row["Headers"] == "NULL":
        row["Headers"] = "N''"
    if rng.random() < 0.7:
        row["Body"] = rng.choice(["0x", "0x00FF", "0x31"])
    if rng.random() < 0.3:
        del row["Id"], row["Recoverable"]
        row["Due"] = past(rng, "mssql")
        return '"jobs.Delayed"', row
    if rng.random() < 0.3:
        row["Expires"] = rows.time_of(rng, "mssql")
    return "jobs", row


def statement(rng, layout, database):
    if layout == "nservicebus" and database == "mssql":
        table, row = mssql_nservicebus_row(rng)
        return f"INSERT INTO {table}({', '.join(row)}) VALUES ({', '.join(row.values())})"
    table, row = (native_row if layout == "native" else nservicebus_row)(rng, database)
    return f"INSERT INTO {table}({', '.join(row)}) VALUES ({', '.join(row.values())})"


def write(database, statements, owner):
    """The number of those that were refused."""
    if isinstance(database, kill_queues.SQLite):
        return write_sqlite(database, statements, owner)
    if isinstance(database, kill_mssql_queues.Place):
        return write_mssql(database, statements)
    user = "wherry" if owner else "sender"
    done = subprocess.run(
        ["psql", "-X", "-q", "-h", database.server.folder, "-U", user, database.name],
        input=";\n".join(statements) + ";\n", text=True, stderr=subprocess.PIPE,
    )  # fmt: skip
    return done.stderr.count("ERROR:")


def write_mssql(database, statements):
    refused = 0
    for sql in statements:
        try:
            database.db.connection.execute(sql)
        except Exception:
            refused += 1
    return refused


def write_sqlite(database, statements, owner):
    db = kill_queues.sqlite3.connect(database.path, timeout=60, isolation_level=None)
    refused = 0
    if owner:
        db.execute("PRAGMA ignore_check_constraints = ON")
    for sql in statements:
        try:
            db.execute(sql)
        except kill_queues.sqlite3.Error:
            refused += 1
    db.close()
    return refused


def prepare(database, layout, owner):
    for sql in kill_queues.TABLES:
        database.in_bank(sql)
    if isinstance(database, kill_queues.SQLite):
        return
    if isinstance(database, kill_mssql_queues.Place):
        checks = "SELECT name FROM sys.check_constraints WHERE parent_object_id = OBJECT_ID('jobs')"
        for (name,) in database.db.execute(checks) if owner else ():
            database.db.execute(f'ALTER TABLE jobs DROP CONSTRAINT "{name}"')
        return
    if owner and layout == "native":
        database.psql(database.name, "ALTER TABLE jobs DROP CONSTRAINT jobs_sane")
    database.psql("postgres", "DO $$ BEGIN CREATE ROLE sender LOGIN; EXCEPTION WHEN "
                              "duplicate_object THEN NULL; END $$")  # fmt: skip
    tables = "jobs" if layout == "native" else 'jobs, "jobs.Delayed"'
    database.psql(database.name, f"GRANT INSERT ON {tables} TO sender; GRANT USAGE ON ALL "
                                 "SEQUENCES IN SCHEMA public TO sender")  # fmt: skip


def play(title, mode, database, layout, owner, folder, rng, n_bad, tell_round):
    log = open(os.path.join(folder, "log"), "a")
    kind = "sqlite" if isinstance(database, kill_queues.SQLite) else \
        "mssql" if isinstance(database, kill_mssql_queues.Place) else "postgres"  # fmt: skip
    make = [tap.WHERRY, "create", "--kind", "queue", f"{database.url}#jobs", "--layout", layout]
    subprocess.run(make, stdout=log, stderr=log, check=True)
    prepare(database, layout, owner)
    good = [(f"m{i}", f"{i % kill_queues.ACCOUNTS} 1 1") for i in range(GOOD)]
    bad = [statement(rng, layout, kind) for _ in range(n_bad)]
    refused = write(database, bad[: n_bad // 2], owner)
    database.send(good[: GOOD // 2])
    command = [kill_queues.WORKER, mode, database.url, database.bank]
    workers = [victims.Victim("worker", lambda: command, log) for _ in range(2)]
    try:
        refused += write(database, bad[n_bad // 2 :], owner)
        database.send(good[GOOD // 2 :])
        done = tap.wait_until(PATIENCE, lambda: kill_queues.drained(database))
    finally:
        for worker in workers:
            worker.kill()
    kill_queues.judge(title, mode, database, {name for name, _ in good}, 0, workers, done)
    beside = "jobs" if layout == "native" else "jobs_received"
    where = f"SELECT count(*) FROM {beside} WHERE state = 4 AND coalesce(last_error, '') = ''"
    silent = database.run(database.path, where) if kind == "sqlite" else database.in_bank(where)
    tap.check(f"{title}: every dead row says why", silent[0][0] == "0", silent)
    tap.totals["bad rows tried"] += n_bad
    tap.totals["refused"] += refused
    tell_round(n_bad)
    log.close()


def play_mssql(seed, folder, rng, n_bad, only, tell_round):
    if not mssql.URL:
        return
    db = mssql.Database()
    for mode in LEASED:
        for owner in False, True:
            for layout in "native", "nservicebus":
                title = f"SQL Server, {layout}, {mode}, {'owner' if owner else 'sender'}, seed {seed}"
                if only in title:
                    play(title, mode, kill_mssql_queues.Place(db, layout), layout, owner, folder, rng,
                         n_bad, tell_round)  # fmt: skip
    db.clear()
    db.close()


def run(folder, seed, rounds, tell_round):
    rng = random.Random(seed)
    with open(os.path.join(folder, "log"), "a") as log:
        try:
            server = postgres.Server(log, ["max_connections=40"])
        except postgres.NoServer:
            server = None
            tap.skip("rows of a queue on PostgreSQL", "no PostgreSQL server is installed")
        only = os.environ.get("WHERRY_ROWS_ONLY") or ""
        cases = [(mode, layout, owner) for mode in LEASED for owner in (False, True)
                 for layout in ("sqlite", "native", "nservicebus")
                 if (server or layout == "sqlite") and only in f"{layout} {mode} {owner}"]  # fmt: skip
        try:
            for mode, layout, owner in cases:
                who = "owner" if owner else "sender"
                name = f"{layout}_{mode}_{who}"
                database = kill_queues.SQLite(folder, name, False) if layout == "sqlite" else \
                    kill_queues.PostgreSQL(server, name, layout, False)
                kind = "native" if layout == "sqlite" else layout
                play(f"{layout}, {mode}, {who}, seed {seed}", mode, database, kind, owner,
                     folder, rng, max(10, rounds // len(cases)), tell_round)  # fmt: skip
            play_mssql(seed, folder, rng, max(10, rounds // 12), only, tell_round)
        finally:
            if server:
                server.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("queue-rows", 240, 1200, run))
