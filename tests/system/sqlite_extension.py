"""The functions of the SQLite extension, called from Python: WHERRY EXTENSION SOURCES.

Prints TAP.  It works in the current folder.
"""

import glob
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

WHERRY, EXTENSION, SOURCES = sys.argv[1:4]
ENV = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
count = 0
failed = 0


def check(sentence, truth, seen=""):
    global count, failed
    count += 1
    if not truth:
        failed += 1
        print(f"# {seen}")
    print(f"{'ok' if truth else 'not ok'} {count} - {sentence}", flush=True)


def wherry(*words):
    return subprocess.run([WHERRY, *words], check=True, capture_output=True, text=True, env=ENV).stdout


def connect(path="shop.db"):
    db = sqlite3.connect(path, isolation_level=None, timeout=20)
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def one(db, sql, *values):
    return db.execute(sql, values).fetchone()[0]


def rows(db, sql, *values):
    return db.execute(sql, values).fetchall()


def fails(db, sql, *values):
    """What the statement says when it fails."""
    try:
        db.execute(sql, values).fetchall()
    except sqlite3.Error as error:
        return str(error)
    return ""


def refused(db, sentence, words, sql, *values):
    said = fails(db, sql, *values)
    check(sentence, words in said, said)


def delivered():
    """The messages that a relay delivers."""
    return [json.loads(line) for line in wherry("relay", "sqlite:shop.db", "stdout:", "--until-empty").splitlines()]


def names_and_files():
    """The names of PostgreSQL's functions that SQLite has no use for."""
    # Notifications; parts of the functions; rows that a server cannot send.
    own = {"listen", "unlisten", "unreadable", "missing", "own_row", "given_id", "delayed_kind"}
    names = set()
    for path in glob.glob(f"{SOURCES}/src/*/sql/**/*postgres*.sql", recursive=True):
        with open(path, encoding="utf-8") as file:
            for name in re.findall(r"FUNCTION @\.wherry_(\w+?)(@many@)?\(", file.read()):
                names.update([name[0], *([name[0] + "_many"] if name[1] else [])])
    return names - own


def producers(db):
    refused(db, "outside a transaction enqueue is refused", "run BEGIN IMMEDIATE first",
            "SELECT wherry_enqueue('orders', '{}')")
    db.execute("BEGIN IMMEDIATE")
    first = one(db, "SELECT wherry_enqueue('orders', ?, ?)", '{"order":7}', 7)
    check("enqueue returns the id", first == 1, first)
    one(db, "SELECT wherry_enqueue('orders', ?, NULL, 'own-id', '{\"a\":\"1\"}', 'order', '7', 'trace')", b"\x00\xff")
    ids = json.loads(one(db, "SELECT wherry_enqueue_many(?, ?, ?)", json.dumps(["a", "b"]),
                         json.dumps(["Zoë \"Zed\" O'Hara \\ 漢字", "3000000"]), json.dumps(["k", None])))
    check("many messages have their ids in order", ids == [3, 4], ids)
    db.execute("COMMIT")
    db.execute("BEGIN")
    one(db, "SELECT wherry_enqueue('orders', 'rolled back')")
    db.execute("ROLLBACK")
    got = delivered()
    check("a relay delivers what was committed, and nothing else",
          [(m["topic"], m["key"]) for m in got] == [("orders", "7"), ("orders", "7"), ("a", "k"), ("b", None)], got)
    check("with id, headers and trace", (got[1]["message_id"], got[1]["headers"]) == ("own-id", {"a": "1"}), got[1])
    check("and the same text", got[2]["body"] == "Zoë \"Zed\" O'Hara \\ 漢字", got[2])
    db.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT)")
    db.execute("CREATE TRIGGER placed AFTER INSERT ON orders BEGIN "
               "SELECT wherry_enqueue('placed', json_object('id', new.id), new.id); END")
    db.execute("INSERT INTO orders VALUES (1, 'Ann'), (2, 'Bob')")
    check("a trigger enqueues", [m["body"] for m in delivered()] == [{"id": 1}, {"id": 2}])
    fails(db, "INSERT INTO orders VALUES (3, 'Cem'), (1, 'Ann')")
    check("and nothing, if its statement fails", delivered() == [])
    db.execute("DROP TRIGGER placed")


def numbers(db):
    """Node and others bind every number as a floating-point one."""
    db.execute("BEGIN")
    for key in (7, 7.0, 3000000.0, -3.0, 9007199254740991.0, 7.5, 1e16):
        one(db, "SELECT wherry_enqueue(?, ?, ?, NULL, NULL, ?, ?, ?)", 5.0, key, key, 8.0, 9.0, 10.0)
    db.execute("COMMIT")
    got = delivered()
    check("a whole number is a key without a fraction", [m["key"] for m in got] ==
          ["7", "7", "3000000", "-3", "9007199254740991", "7.5", "1.0e+16"], [m["key"] for m in got])
    check("so it is in the body", [str(m["body"]) for m in got[:3]] == ["7", "7", "3000000"], got[:3])
    check("and elsewhere", [got[0][f] for f in ("topic", "aggregate_type", "aggregate_id", "trace_id")] ==
          ["5", "8", "9", "10"], got[0])
    wherry("create", "--kind", "queue", "sqlite:shop.db#numbers")
    db.execute("BEGIN")
    first = one(db, "SELECT wherry_send('numbers', 'x', NULL, 0.0, 3600.0, 1.0, 2.0, 3.0, 4.0)")
    one(db, "SELECT wherry_send('numbers', 'late', NULL, 100.5)")
    db.execute("COMMIT")
    got = rows(db, "SELECT id, correlation_id, reply_to, message_id, topic, token "
               "FROM wherry_receive('numbers', ?, ?, ?)", 10.0, 60.0, 5.0)
    check("a number of messages and a lease may be such numbers", [r[:5] for r in got] == [(first, "1", "2", "3", "4")], got)
    token = got[0][5]
    check("an id, too", one(db, "SELECT wherry_extend('numbers', ?, ?, 60.0)", float(first), token) == 1)
    check("and in a list", one(db, "SELECT wherry_ack_many('numbers', json_array(?), ?)", float(first), token) == 1)
    refused(db, "an id with a fraction is none", "the id is not a whole number: '1.5'", "SELECT wherry_ack('numbers', 1.5, ?)", token)
    db.execute("BEGIN")
    one(db, "SELECT wherry_offer('mail', ?, 'a')", 41.0)
    check("the key of a delayed message is the same", one(db, "SELECT wherry_offer('mail', ?, 'b')", 41) == "updated")
    check("and an id of an inbox", [one(db, "SELECT wherry_accept(?)", key) for key in (6.0, 6, "6")] == [1, 0, 0])
    db.execute("ROLLBACK")


def queues(db):
    db.execute("BEGIN")
    one(db, "SELECT wherry_send('jobs', '{\"n\":1}', '{\"h\":\"x\"}', NULL, '1 hour', 'c1', 'answers', 'm1')")
    one(db, "SELECT wherry_send('jobs', ?)", b"\x00\x01")
    later = one(db, "SELECT wherry_send('jobs', 'later', NULL, '5 minutes')")
    ids = json.loads(one(db, "SELECT wherry_send_many('jobs', ?, NULL, ?)", json.dumps(["a", "b", "c"]),
                         json.dumps([None, 0, "1h"])))
    db.execute("COMMIT")
    check("many are sent, some of them for later", ids == [4, 5, 6], ids)
    check("the length counts what can be received", one(db, "SELECT wherry_queue_length('jobs')") == 4)
    got = rows(db, "SELECT id, message_id, correlation_id, reply_to, headers, body, bytes, attempts, token, created_at "
               "FROM wherry_receive('jobs', 10, '5 minutes', 3)")
    check("receive returns them in order", [r[0] for r in got] == [1, 2, 4, 5], got)
    check("with their fields", got[0][1:8] == ("m1", "c1", "answers", '{"h":"x"}', '{"n":1}', b'{"n":1}', 1), got[0])
    check("bytes that are not text are bytes alone", got[1][5:7] == (None, b"\x00\x01"), got[1])
    check("the time is in milliseconds", abs(got[0][9] / 1000 - time.time()) < 600, got[0][9])
    token = got[0][8]
    check("ack deletes", one(db, "SELECT wherry_ack('jobs', 1, ?)", token) == 1)
    check("and says when the lease was lost", one(db, "SELECT wherry_ack('jobs', 1, ?)", token) == 0)
    check("extend makes a lease longer", one(db, "SELECT wherry_extend('jobs', 2, ?, '1 hour')", token) == 1)
    check("nack gives back", one(db, "SELECT wherry_nack('jobs', 2, ?, 0, 'bad luck')", token) == 1)
    check("many are given back", one(db, "SELECT wherry_nack_many('jobs', '[4,5]', ?)", token) == 2)
    got = rows(db, "SELECT id, token FROM wherry_receive('jobs', 10)")
    token = got[0][1]
    check("they come again", [r[0] for r in got] == [2, 4, 5], got)
    check("leases of many become longer", one(db, "SELECT wherry_extend_many('jobs', '[2,4,5]', ?, 60)", token) == 3)
    check("a message can be made dead", one(db, "SELECT wherry_dead_letter('jobs', 2, ?, 'poison')", token) == 1)
    check("and many", one(db, "SELECT wherry_dead_letter_many('jobs', '[4]', ?, 'poison')", token) == 1)
    check("many are acknowledged", one(db, "SELECT wherry_ack_many('jobs', '[4,5]', ?)", token) == 1)
    check("one that waits is cancelled", one(db, "SELECT wherry_cancel('jobs', ?)", later) == 1)
    check("but once", one(db, "SELECT wherry_cancel('jobs', ?)", later) == 0)
    refused(db, "a receive that deletes needs a transaction", "run BEGIN IMMEDIATE first",
            "SELECT * FROM wherry_receive('jobs', 1, NULL)")
    db.execute("BEGIN")
    one(db, "SELECT wherry_send('jobs', 'once')")
    db.execute("COMMIT")
    for end in ("ROLLBACK", "COMMIT"):
        db.execute("BEGIN")
        got = rows(db, "SELECT body, token FROM wherry_receive('jobs', 1, NULL)")
        check(f"a transaction takes it ({end.lower()})", got == [("once", None)], got)
        db.execute(end)
    check("a topic is subscribed to", one(db, "SELECT wherry_subscribe('news', 'jobs')") == 1)
    db.execute("BEGIN")
    check("publish says to how many", one(db, "SELECT wherry_publish('news', 'hello')") == 1)
    check("or to none", one(db, "SELECT wherry_publish('nothing', 'hello')") == 0)
    db.execute("COMMIT")
    got = rows(db, "SELECT topic, body FROM wherry_receive('jobs')")
    check("and the queue has it", got == [("news", "hello")], got)
    check("a subscription ends", [one(db, "SELECT wherry_unsubscribe('news', 'jobs')") for _ in "12"] == [1, 0])
    check("no message, no rows", rows(db, "SELECT * FROM wherry_receive('jobs')") == [])


def delayed(db):
    db.execute("BEGIN")
    outcomes = [one(db, "SELECT wherry_offer('mail', 'k1', ?, ?, ?)", *values)
                for values in (("a", 3600, None), ("b", None, 1e9), ("b", None, "2001-09-09 01:46:40"))]
    check("offers create, update and change nothing", outcomes == ["created", "updated", "ignored"], outcomes)
    outcomes = json.loads(one(db, "SELECT wherry_offer_many('mail', ?, ?, NULL, ?, 1)", json.dumps(["k1", "k2", "k3"]),
                              json.dumps(["x", "y", "z"]), json.dumps([None, "2001-01-01T00:00:00Z", 4000000000])))
    db.execute("COMMIT")
    check("so do many", outcomes == ["ignored", "created", "created"], outcomes)
    got = rows(db, 'SELECT "key", body, "at", attempts, redelivery, token FROM wherry_poll(\'mail\', 10, \'1 minute\')')
    check("poll returns what is due, the oldest first", [r[:2] for r in got] == [("k2", "y"), ("k1", "b")], got)
    check("with its time", got[0][2:5] == (978307200000, 1, 0), got[0])
    check("a lease is extended", one(db, "SELECT wherry_delayed_extend('mail', ?, '1h')", got[0][5]) == "acknowledged")
    check("done says acknowledged", one(db, "SELECT wherry_done('mail', ?)", got[0][5]) == "acknowledged")
    check("and then that the lease is lost", one(db, "SELECT wherry_done('mail', ?)", got[0][5]) == "lease lost")
    check("nack gives back", one(db, "SELECT wherry_delayed_nack('mail', ?, 0, 'no')", got[1][5]) == "acknowledged")
    token = one(db, "SELECT token FROM wherry_poll('mail')")
    said = one(db, "SELECT wherry_delayed_dead_letter_many('mail', json_array(?), 'poison')", token)
    check("many become dead", said == '["acknowledged"]', said)
    check("a key is dropped", [one(db, "SELECT wherry_delayed_drop('mail', 'k3')") for _ in "12"] == [1, 0])
    check("an empty list is one", one(db, "SELECT wherry_done_many('mail', '[]')") == "[]")


def inboxes(db):
    refused(db, "accept needs a transaction", "run BEGIN IMMEDIATE first", "SELECT wherry_accept('m1')")
    db.execute("BEGIN")
    check("a message is new once", [one(db, "SELECT wherry_accept('m1')") for _ in "12"] == [1, 0])
    check("for each consumer", one(db, "SELECT wherry_accept('m1', 'other')") == 1)
    said = one(db, "SELECT wherry_accept_many(?)", json.dumps(["m1", "m2", "m2"]))
    check("so it is with many", said == "[false,true,false]", said)
    db.execute("COMMIT")
    check("old ids are purged", one(db, "SELECT wherry_inbox_purge('1 day')") == 0)
    check("or all", one(db, "SELECT wherry_inbox_purge(0)") == 3)


def consumer(db):
    wherry("create", "sqlite:shop.db#outbox/audit", "--topics", "audit.*")
    db.execute("BEGIN")
    for n in range(3):
        one(db, "SELECT wherry_enqueue('audit.x', ?)", str(n))
    db.execute("COMMIT")
    for end in ("ROLLBACK", "COMMIT"):
        db.execute("BEGIN IMMEDIATE")
        got = rows(db, "SELECT payload FROM wherry_consume('audit', 2)")
        check(f"a consumer reads its subscription ({end.lower()})", got == [("0",), ("1",)], got)
        db.execute(end)
    db.execute("BEGIN IMMEDIATE")
    got = rows(db, "SELECT topic, payload FROM wherry_consume('audit')")
    check("and goes on from there", got == [("audit.x", "2")], got)
    db.execute("COMMIT")


def mistakes(db):
    refused(db, "a queue that is not there is named", "there is no queue 'nowhere'", "SELECT * FROM wherry_receive('nowhere')")
    refused(db, "a duration that is none, too", "lease 'soon' is not a duration", "SELECT * FROM wherry_receive('jobs', 1, 'soon')")
    refused(db, "and a number that is none", "number of messages is not a whole number", "SELECT * FROM wherry_receive('jobs', 'x')")
    refused(db, "receive needs a queue", "wherry_receive() needs 1 argument", "SELECT * FROM wherry_receive()")
    refused(db, "a list that is none is shown", "is not a JSON array such as [1, 2]", "SELECT wherry_ack_many('jobs', '7', 'x')")
    refused(db, "a token that is NULL is refused", "the token is NULL", "SELECT wherry_ack('jobs', 1, NULL)")
    db.execute("BEGIN")
    refused(db, "a body that is NULL, too", "the body is NULL", "SELECT wherry_send('jobs', NULL)")
    refused(db, "headers that are none", "headers", "SELECT wherry_enqueue('a', 'b', NULL, NULL, '[1]')")
    refused(db, "lists of different lengths", "argument 3 has 1 elements, and argument 1 has 2",
            "SELECT wherry_enqueue_many('[\"a\",\"b\"]', '[\"a\",\"b\"]', '[\"k\"]')")
    check("the transaction goes on after them", one(db, "SELECT wherry_send('jobs', 'still')") > 0)
    db.execute("ROLLBACK")
    db.execute("BEGIN IMMEDIATE")
    other = connect()
    other.execute("PRAGMA busy_timeout = 0")
    said = fails(other, "SELECT * FROM wherry_receive('jobs')")
    check("a locked database is said to be locked", "locked" in said, said)
    db.execute("ROLLBACK")
    other.close()


def locks(db):
    """Another connection holds the lock for writing: functions wait for it, before they have read anything."""
    wherry("create", "sqlite:shop.db#outbox/locks")
    changing = ["wherry_subscribe('news', 'jobs')", "wherry_unsubscribe('news', 'jobs')", "wherry_ack('jobs', 1, 'x')",
                "wherry_nack('jobs', 1, 'x')", "wherry_extend('jobs', 1, 'x')", "wherry_dead_letter('jobs', 1, 'x', 'y')",
                "wherry_ack_many('jobs', '[1]', 'x')", "wherry_cancel('jobs', 1)", "wherry_offer('mail', 'k', 'b')",
                "wherry_done('mail', '{held}')", "wherry_delayed_nack('mail', '{held}')", "wherry_delayed_drop('mail', 'k')",
                "wherry_inbox_purge(0)", "* FROM wherry_receive('jobs')", "* FROM wherry_poll('mail')"]
    sending = ["wherry_enqueue('a', 'b')", "wherry_enqueue_many('[\"a\"]', '[\"b\"]')", "wherry_send('jobs', 'b')",
               "wherry_send_many('jobs', '[\"b\"]')", "wherry_publish('news', 'b')", "wherry_accept('m')",
               "wherry_accept_many('[\"m\"]')", "* FROM wherry_receive('jobs', 1, NULL)", "* FROM wherry_consume('locks')"]
    hasty = []
    db.execute("BEGIN")
    one(db, "SELECT wherry_offer('mail', 'held', 'b')")
    db.execute("COMMIT")
    held = one(db, "SELECT token FROM wherry_poll('mail')")
    db.execute("BEGIN IMMEDIATE")
    for begin, calls in (("", [call for call in changing if "offer" not in call]), ("BEGIN", changing + sending)):
        for call in calls:
            other = connect()
            other.execute("PRAGMA busy_timeout = 20")
            other.execute(begin)
            began = time.monotonic()
            said = fails(other, "SELECT " + call.replace("{held}", held))
            if "is writing" not in said or time.monotonic() - began < 0.018:
                hasty.append(f"{begin} {call}: {said}")
            other.close()
    check("each function waits for the lock, also inside BEGIN", not hasty, hasty)
    other = connect()
    check("the length waits for nobody", one(other, "SELECT wherry_queue_length('jobs')") == 0)
    words = "run BEGIN IMMEDIATE before"
    refused(other, "a statement that reads cannot wait, and is told how", words,
            "SELECT wherry_ack('jobs', id, 'x') FROM orders")
    other.execute("CREATE VIEW IF NOT EXISTS temp.work AS SELECT * FROM main.wherry_receive('jobs')")
    refused(other, "nor can the function of a view", words, "SELECT * FROM work")
    db.execute("COMMIT")
    other.execute("BEGIN")
    rows(other, "SELECT * FROM orders")
    db.execute("INSERT INTO orders VALUES (100, 'Dan')")
    refused(other, "nor can a transaction that has read", "ROLLBACK, and begin it with BEGIN IMMEDIATE",
            "SELECT wherry_enqueue('a', 'b')")
    other.execute("ROLLBACK")
    other.load_extension(EXTENSION)
    check("the extension may be loaded twice", rows(other, "SELECT * FROM wherry_receive('jobs')") == [])
    words = "with a separate SELECT"
    refused(other, "a statement that writes is told that it cannot receive", words,
            "INSERT INTO orders SELECT body, '' FROM wherry_receive('jobs', 1, NULL)")
    refused(other, "nor into a table of its own", words, "CREATE TEMP TABLE taken AS SELECT * FROM wherry_receive('jobs')")
    other.execute("CREATE TEMP TRIGGER placed AFTER INSERT ON orders BEGIN SELECT wherry_send_many('jobs', '[\"a\",\"b\"]'); END")
    refused(other, "nor can a trigger send many", words, "INSERT INTO orders VALUES (102, 'Fay')")
    check("nothing is left of that", one(db, "SELECT count(*) FROM orders WHERE id = 102") == 0)
    other.close()


def endings(db):
    for n in range(70):
        wherry("create", "--kind", "queue", f"sqlite:many.db#q{n}")
    many = connect("many.db")
    for _ in range(2):
        for n in range(70):
            many.execute("BEGIN")
            one(many, f"SELECT wherry_send('q{n}', 'x')")
            many.execute("COMMIT")
    check("a connection works on any number of queues", one(many, "SELECT wherry_queue_length('q69')") == 2)
    many.close()
    db.close()
    opened = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    check("a connection that is closed keeps no file open", not [p for p in opened if ".db" in p], opened)


def worker():
    """Take messages, and write what they ask for, until a message says that it is the last."""
    db = connect("kills.db")
    while True:
        db.execute("BEGIN IMMEDIATE")
        got = rows(db, "SELECT body FROM wherry_receive('jobs', 1, NULL)")
        if got:
            db.execute("INSERT INTO done(body) VALUES (?)", got[0])
        db.execute("COMMIT")
        if not got:
            time.sleep(0.001)


def kills():
    wherry("create", "--kind", "queue", "sqlite:kills.db#jobs")
    db = connect("kills.db")
    db.execute("CREATE TABLE done(body TEXT)")
    db.execute("BEGIN")
    one(db, "SELECT wherry_send_many('jobs', ?)", json.dumps([str(n) for n in range(400)]))
    db.execute("COMMIT")
    workers = []
    deaths = 0
    deadline = time.monotonic() + 120
    while one(db, "SELECT wherry_queue_length('jobs')") > 0 and time.monotonic() < deadline:
        while len(workers) < 2:
            workers.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:4], "work"]))
        before = one(db, "SELECT count(*) FROM done")
        while one(db, "SELECT count(*) FROM done") < min(400, before + 60) and time.monotonic() < deadline:
            time.sleep(0.002)
        workers.pop(0).kill()
        deaths += 1
    for process in workers:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = [r[0] for r in rows(db, "SELECT body FROM done")]
    check("killed workers lose none and do none twice",
          sorted(done, key=int) == [str(n) for n in range(400)] and deaths > 3, f"{len(done)} done, {deaths} deaths")
    db.close()


def lease_worker():
    """Lease messages without BEGIN, do what they ask for, and acknowledge each, until there are none."""
    db = connect("leases.db")
    print("ready", flush=True)
    sys.stdin.readline()
    while got := rows(db, "SELECT id, body, token FROM wherry_receive('jobs', 3, '5 minutes')"):
        for number, body, token in got:
            db.execute("INSERT INTO done(body) VALUES (?)", (body,))
            if one(db, "SELECT wherry_ack('jobs', ?, ?)", number, token) != 1:
                sys.exit("a lease was lost")


def leases():
    """Workers that lease, each statement its own transaction."""
    wherry("create", "--kind", "queue", "sqlite:leases.db#jobs")
    db = connect("leases.db")
    db.execute("CREATE TABLE done(body TEXT)")
    for n_workers in (2, 4):
        db.execute("BEGIN IMMEDIATE")
        one(db, "SELECT wherry_send_many('jobs', ?)", json.dumps([str(n) for n in range(500)]))
        db.execute("COMMIT")
        workers = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:4], "lease"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(n_workers)]
        for process in workers:
            process.stdout.readline()
        for process in workers:
            process.stdin.write("go\n")
            process.stdin.flush()
        said = "".join(process.communicate()[1] for process in workers)
        check(f"{n_workers} workers that lease without BEGIN wait for each other",
              not said and all(process.returncode == 0 for process in workers), said[-200:].replace("\n", " "))
        done = [r[0] for r in rows(db, "DELETE FROM done RETURNING body")]
        check("and do each message once", sorted(done, key=int) == [str(n) for n in range(500)], len(done))
        rows(db, "SELECT wherry_ack('jobs', id, token) FROM (SELECT * FROM wherry_receive('jobs', 1000))")
    db.close()


def main():
    if sys.argv[4:] == ["work"]:
        worker()
    if sys.argv[4:] == ["lease"]:
        lease_worker()
        sys.exit(0)
    for kind, name in (("outbox", "outbox"), ("queue", "jobs"), ("delayed", "delayed"), ("inbox", "inbox")):
        wherry("create", "--kind", kind, f"sqlite:shop.db#{name}")
    db = connect()
    have = {name for (name,) in rows(db, "SELECT DISTINCT substr(name, 8) FROM pragma_function_list "
                                     "WHERE name LIKE 'wherry\\_%' ESCAPE '\\'")} | {"receive", "poll", "consume"}
    wanted = names_and_files()
    check("SQLite has the functions that PostgreSQL has", len(wanted) > 25 and wanted <= have, sorted(wanted - have))
    for part in (producers, numbers, queues, delayed, inboxes, consumer, mistakes, locks, endings):
        part(db)
    kills()
    leases()
    print(f"1..{count}")
    sys.exit(failed > 0)


main()
