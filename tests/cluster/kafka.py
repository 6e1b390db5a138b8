"""Relays on three brokers of Kafka: leaders killed, brokers away, topics made again, rights, quotas, killed relays.

A producer commits and rolls back transactions, and writes down what it committed, in order.  A consumer that does not
know Wherry reads the topics to their ends.
"""

import collections
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "crash"), os.path.join(HERE, "..", "kafka")]
import cluster as kafka  # noqa: E402
import postgres  # noqa: E402
import tap  # noqa: E402

try:
    import psycopg
except ImportError:
    psycopg = None

# Seconds from the first delivery of a producer of its own until the relay delivers, after an outage.
WANTED = 5.0
WINDOW = 32000  # relay.window, as Kafka has it
LEFT = 30  # Seconds from the last kill until 100,000 messages, of which a window are suspects, have left.
SLOWEST = 0.2  # Rate of a relay beside librdkafka alone, with sanitizers on a busy machine, at least.
COSTLIEST = 5  # Processor time of the brokers for a relay beside that for librdkafka alone, at most.
LATE = 500  # Messages that may be there twice because they were late, and perhaps written.
INSERT = "INSERT INTO outbox(message_id, topic, partition_key, payload) VALUES (?, ?, ?, ?)"
# The messages of an outbox, each with its state: 0 pending, 1 in flight, 2 delivered, 3 failed, 4 dead.
MESSAGES = """WITH m AS (SELECT o.*, coalesce(x.state, CASE WHEN {} THEN 0 ELSE 2 END) AS state,
  coalesce(x.attempts, 0) AS attempts, x.last_error FROM outbox AS o CROSS JOIN outbox_progress AS p
  LEFT JOIN outbox_exception AS x ON x.id = o.id) """


class Outbox:
    def __init__(self, lab, name, server=None):
        self.lab, self.name, self.server = lab, name, server
        self.uncovered = "o.id > p.high" + (" OR NOT pg_visible_in_snapshot(o.tx, p.seen)" if server else "")
        if server:
            with psycopg.connect(host=server.folder, user="wherry", dbname="postgres", autocommit=True) as db:
                db.execute(f'CREATE DATABASE "{name}"')
            self.url = f"postgres://wherry@/{name}?host={server.folder}"
        else:
            self.url = f"sqlite:{lab.folder}/{name}.db"
        wherry("create", self.url)

    def connect(self):
        if self.server:
            return psycopg.connect(self.url, autocommit=True)
        db = sqlite3.connect(self.url.split(":", 1)[1], timeout=60, isolation_level=None)
        db.execute("PRAGMA synchronous = OFF")
        return db

    def write(self, rows, db=None, commit=True):
        db = db or self.connect()
        db.execute("BEGIN")
        insert = INSERT.replace("?", "%s") if self.server else INSERT
        (db.cursor() if self.server else db).executemany(insert, rows)
        db.execute("COMMIT" if commit else "ROLLBACK")

    def ask(self, sql):
        db = self.connect()
        try:
            return db.execute(MESSAGES.format(self.uncovered) + sql).fetchall()
        finally:
            db.close()

    def number(self, sql):
        return self.ask(sql)[0][0]

    def delivered(self):
        return self.number("SELECT count(*) FROM m WHERE state = 2")

    def waiting(self):
        return self.number("SELECT count(*) FROM m WHERE state IN (0, 1, 3)")

    def said(self, command="status", *more):
        done = subprocess.run([tap.WHERRY, command, self.url, *more], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip
        return done.stdout


def wherry(*words):
    subprocess.run([tap.WHERRY, *words], check=True, stdout=subprocess.DEVNULL, timeout=60)


class Writer(threading.Thread):
    """Transactions of one to five messages until it is stopped; a fifth of them is rolled back."""

    def __init__(self, outbox, topic, seed, rate=200, keys=20):
        super().__init__(daemon=True)
        self.outbox, self.topic, self.random, self.rate, self.keys = outbox, topic, random.Random(seed), rate, keys
        self.halt, self.committed = threading.Event(), []

    def run(self):
        db, n, at = self.outbox.connect(), 0, time.monotonic()
        while not self.halt.is_set():
            rows = []
            for _ in range(self.random.randint(1, 5)):
                n += 1
                rows.append((f"{self.topic}-{n}", self.topic, f"k{self.random.randrange(self.keys)}", json.dumps({"n": n})))
            commit = self.random.random() > 0.2
            self.outbox.write(rows, db, commit)
            if commit:
                self.committed += [(row[0], row[2]) for row in rows]
            at += len(rows) / self.rate
            time.sleep(max(0, at - time.monotonic()))
        db.close()

    def end(self):
        self.halt.set()
        self.join()
        return self.committed


class Relay:
    def __init__(self, outbox, url, *more):
        self.outbox, self.command = outbox, [tap.WHERRY, "relay", outbox.url, url, *more]
        self.path, self.process = f"{outbox.lab.folder}/{outbox.name}.log", None
        self.start()

    def start(self):
        with open(self.path, "a") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=kafka.end_with_us)  # fmt: skip
        self.outbox.lab.relays.append(self)

    def log(self):
        with open(self.path, errors="replace") as text:
            return text.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Lab:
    def __init__(self, folder, brokers, server):
        self.folder, self.brokers, self.server, self.relays = folder, brokers, server, []

    def outboxes(self, name):
        return [Outbox(self, f"{name}-sqlite")] + ([Outbox(self, f"{name}-postgres", self.server)] if self.server else [])

    def url(self, more="", ports=None):
        return f"kafka://{self.brokers.addresses(ports)}{more}"


class Course:
    """A producer and a relay on each kind of database, which go on while something fails."""

    def __init__(self, lab, name, *more, **settings):
        self.lab, self.name, self.ways = lab, name, []
        for outbox in lab.outboxes(name):
            lab.brokers.create(outbox.name, **settings)
            writer = Writer(outbox, outbox.name, name)
            self.ways.append((outbox, writer, Relay(outbox, lab.url(), *more)))
            writer.start()
        for outbox, _, relay in self.ways:
            tap.check(f"{name}: {outbox.name} delivers",
                      tap.wait_until(30, lambda outbox=outbox: outbox.delivered() > 100), relay.log())  # fmt: skip

    def go_on(self, what):
        """A message that is committed when another producer could deliver to the topic is delivered soon."""
        for outbox, writer, relay in self.ways:
            since = self.lab.brokers.takes(outbox.name)
            n = len(writer.committed)
            tap.wait_until(10, lambda writer=writer, n=n: len(writer.committed) > n)
            ident = writer.committed[n][0]
            there = tap.wait_until(90, lambda outbox=outbox, ident=ident: outbox.number(
                f"SELECT count(*) FROM m WHERE message_id = '{ident}' AND state = 2"))  # fmt: skip
            took = time.monotonic() - since
            tap.tell(f"{self.name}: {outbox.name} delivers {took:.1f} s after {what}")
            tap.check(f"{self.name}: {outbox.name} delivers within {WANTED} s after {what}", there and took < WANTED,
                      took, relay.log()[-3000:])  # fmt: skip

    def end(self, doubled=0):
        for outbox, writer, relay in self.ways:
            committed = writer.end()
            drained = tap.wait_until(90, lambda outbox=outbox: outbox.waiting() == 0)
            tap.check(f"{self.name}: {outbox.name} is empty in the end", drained, relay.log()[-3000:])
            tap.check(f"{self.name}: no message of {outbox.name} is dead",
                      outbox.number("SELECT count(*) FROM m WHERE state = 4") == 0)  # fmt: skip
            tap.check(f"{self.name}: the relay of {outbox.name} ends well", relay.end() == 0, relay.log()[-3000:])
            judge(self.lab, self.name, outbox.name, committed, doubled)


def judge(lab, name, topic, committed, doubled=0):
    """What arrived, compared with what was committed: (message id, key) in order."""
    records = lab.brokers.read(topic)
    keys, order, first = dict(committed), collections.defaultdict(dict), {}
    for n, (ident, key) in enumerate(committed):
        order[key][ident] = n
    disorder, wrong, last = [], 0, {}
    for _, _, key, ident, _ in records:
        if ident in first or ident not in keys:
            continue
        first[ident] = True
        wrong += keys[ident] != key
        n = order[keys[ident]][ident]
        if n < last.get(key, -1):
            disorder.append((key, last[key], n))
        last[key] = max(n, last.get(key, -1))
    lost, unborn = keys.keys() - first.keys(), sum(record[3] not in keys for record in records)
    twice = len(records) - unborn - len(first)
    tap.tell(f"{name}: {topic}: {len(keys)} committed, {len(records)} records: {len(lost)} lost, {unborn} unborn, "
             f"{twice} doubled, {len(disorder)} out of order")  # fmt: skip
    tap.check(f"{name}: nothing of {topic} is lost", not lost, sorted(lost)[:5])
    tap.check(f"{name}: nothing of {topic} was never committed, and each has its key", not unborn and not wrong)
    tap.check(f"{name}: each key of {topic} keeps its order", not disorder, disorder[:5])
    tap.check(f"{name}: at most {doubled} of {topic} are there twice", twice <= doubled, twice)


def whole(lab, topic):
    tap.check(f"all replicas of {topic} are in sync again", tap.wait_until(90, lambda: lab.brokers.whole(topic)))


# ---- rounds ----


def leader(lab):
    """A leader is killed, stays away, and comes back."""
    course = Course(lab, "leader")
    topic = course.ways[0][0].name
    for _ in range(2):
        node = lab.brokers.leader(topic)
        lab.brokers.kill(node)
        course.go_on("a leader was killed")
        time.sleep(5)
        for outbox, _, _ in course.ways:
            tap.check(f"leader: one broker is away: status of {outbox.name} says that messages are delivered",
                      "all is well" in outbox.said(), outbox.said())  # fmt: skip
        lab.brokers.start(node)
        whole(lab, topic)
    course.end()


def two(lab):
    """Two brokers are away: nothing can be delivered, and that is said."""
    course = Course(lab, "two")
    topic = course.ways[0][0].name
    nodes = [node for node in kafka.NODES if node != lab.brokers.leader(topic)]
    lab.brokers.kill(*nodes)
    time.sleep(12)
    for outbox, _, relay in course.ways:
        text = outbox.said()
        tap.tell(f"two: status: {text.splitlines()[0][:250]}")
        tap.check(f"two: status of {outbox.name} does not say that all is well", "all is well" not in text, text)
        tap.check("two: the log says why", re.search("event=(destination-down|unacknowledged|brokers-down)",
                                                     relay.log()), relay.log()[-2000:])  # fmt: skip
    time.sleep(20)
    lab.brokers.start(*nodes)
    course.go_on("two brokers came back")
    whole(lab, topic)
    for _, _, relay in course.ways:
        for line in relay.log().splitlines():
            if "Purged" in line:
                tap.check("two: no cause is the relay's own doing", False, line)
    course.end(doubled=LATE)


def unclean(lab):
    """All brokers are killed at once, and started."""
    course = Course(lab, "unclean")
    topic = course.ways[0][0].name
    for _ in range(2):
        lab.brokers.kill(*kafka.NODES)
        time.sleep(3)
        lab.brokers.start(*kafka.NODES)
        course.go_on("all brokers were killed")
        whole(lab, topic)
    course.end(doubled=LATE)


def relays(lab):
    """Relays are killed with a window in flight: suspects are never more than it, and leave soon."""
    for outbox in lab.outboxes("relays"):
        n = 100000
        rows = [(f"r{i}", outbox.name, f"k{i % 200}", json.dumps({"n": i, "pad": "x" * 64})) for i in range(n)]
        lab.brokers.create(outbox.name)
        outbox.write(rows)
        relay = Relay(outbox, lab.url(), "--lease", "2s")
        for kills in range(4):
            tap.wait_until(30, lambda relay=relay, kills=kills: relay.log().count("event=leading") > kills)
            before = outbox.number("SELECT max(high) FROM outbox_progress")
            tap.wait_until(10, lambda outbox=outbox, before=before: outbox.number(
                "SELECT max(high) FROM outbox_progress") > before)  # fmt: skip
            relay.kill()
            relay.start()
        began = time.monotonic()
        drained = tap.wait_until(120, lambda outbox=outbox: outbox.waiting() == 0)
        took = time.monotonic() - began
        suspects = [int(found) for found in re.findall(r"event=leading.* suspects=(\d+)", relay.log())]
        tap.tell(f"relays: {outbox.name}: {took:.1f} s after the last kill all have left; suspects {suspects}")
        tap.check(f"relays: all of {outbox.name} leave", drained, relay.log()[-3000:])
        tap.check("relays: suspects are at most a window", max(suspects) <= WINDOW, suspects)
        tap.check(f"relays: {outbox.name}: they do not leave one at a time", took < LEFT, took)
        tap.check("relays: it ends well", relay.end() == 0)
        judge(lab, "relays", outbox.name, [(row[0], row[2]) for row in rows], 5 * n)


def topics(lab):
    """A topic is deleted and made again with fewer partitions; others are not there, or not yet."""
    course = Course(lab, "topics")
    topic = course.ways[0][0].name
    outbox, writer, relay = course.ways[0]
    lab.brokers.delete(topic)
    time.sleep(6)
    text = outbox.said()
    tap.tell(f"topics: status: {text.splitlines()[0][:250]}")
    tap.check("topics: status does not say that all is well while a topic is away", "all is well" not in text, text)
    outbox.write([("missing-1", "missing", "a", "{}")])
    time.sleep(20)
    n = len(writer.committed)
    lab.brokers.create(topic, 3)
    course.go_on("a topic was made again")
    committed = writer.end()
    lab.brokers.create("missing", 3)
    since = lab.brokers.takes("missing")
    there = tap.wait_until(90, lambda: outbox.number("SELECT count(*) FROM m WHERE topic = 'missing' AND state = 2"))
    tap.tell(f"topics: a message for a missing topic is delivered {time.monotonic() - since:.1f} s after it was made")
    tap.check("topics: it is delivered soon after the topic was made", there and time.monotonic() - since < WANTED,
              time.monotonic() - since, relay.log()[-3000:])  # fmt: skip
    tap.check("topics: its attempts were not counted",
              outbox.number("SELECT max(attempts) FROM m WHERE topic = 'missing'") <= 1)  # fmt: skip
    tap.check("topics: all are delivered", tap.wait_until(60, lambda: outbox.waiting() == 0), outbox.said("list"))
    tap.check("topics: the relay ends well", relay.end() == 0)
    later = {ident for ident, _ in committed[n:]}
    records = [record for record in lab.brokers.read(topic) if record[3] in later]
    tap.check("topics: each later message is in the new topic, once", len(records) == len(later),
              len(records), len(later))  # fmt: skip
    course.ways = course.ways[1:]
    course.end()


def large(lab):
    """Messages that are too large for the topic or the client die alone."""
    outbox, topic = Outbox(lab, "large"), "large"
    lab.brokers.create(topic, 1, max_message_bytes=10240)
    rows = [(f"s{i}", topic, f"k{i % 3}", json.dumps({"n": i, "x": os.urandom(15000).hex() if i == 10 else ""}))
            for i in range(30)]  # fmt: skip
    rows.append(("huge", topic, "k9", json.dumps({"x": os.urandom(1500000).hex()})))
    rows.append(("after", topic, "k9", "{}"))
    outbox.write(rows)
    relay = Relay(outbox, lab.url())
    tap.wait_until(60, lambda: outbox.waiting() <= 7)  # those behind them are parked
    time.sleep(1)
    dead = {row[0] for row in outbox.ask("SELECT message_id FROM m WHERE state = 4")}
    tap.check("large: what is too large is dead, and nothing else", dead == {"s10", "huge"}, dead, relay.log()[-3000:])
    got = [record[3] for record in lab.brokers.read(topic)]
    tap.check("large: others arrive once", len(got) == len(set(got)) and {f"s{i}" for i in range(30) if i % 3 != 1} <= set(got),
              got)  # fmt: skip
    tap.check("large: the relay ends well", relay.end() == 0)


def rights(lab):
    """Passwords, mechanisms and rights."""
    secure, outbox = lab.brokers.secure, Outbox(lab, "rights")
    for topic in ("may", "may-not"):
        lab.brokers.create(topic, 3)
    lab.brokers.grant("may")

    def url(mechanism, password):
        return lab.url(f"?security.protocol=sasl_plaintext&sasl.mechanism={mechanism}&sasl.username=shop"
                       f"&sasl.password={password.replace(' ', '%20')}", secure)  # fmt: skip

    outbox.write([("a1", "may", "a", "{}")])
    relay = Relay(outbox, url("PLAIN", "wrong"))
    tap.check("rights: a wrong password is logged", tap.wait_until(20, lambda: "event=destination-down" in relay.log()))
    line = next((line for line in relay.log().splitlines() if "event=destination-down" in line), "")
    tap.tell(f"rights: {line[:300]}")
    tap.check("rights: with its cause", re.search("(?i)authentication|credential", line), line)
    relay.end()
    tap.check("rights: no attempt was counted", outbox.number("SELECT max(attempts) FROM m") == 0)

    relay = Relay(outbox, url("PLAIN", kafka.PASSWORD))
    tap.check("rights: PLAIN delivers", tap.wait_until(20, lambda: outbox.delivered() == 1), relay.log()[-3000:])
    outbox.write([(f"b{i}", "may-not", f"k{i}", "{}") for i in range(5)])
    for i in range(8):
        outbox.write([(f"c{i}", "may", f"c{i}", "{}")])
        time.sleep(1)
    tap.check("rights: what may be written is delivered", tap.wait_until(20, lambda: outbox.delivered() == 9),
              relay.log()[-3000:])  # fmt: skip
    tap.check("rights: what may not waits, and no attempt was counted",
              outbox.ask("SELECT count(*), max(attempts) FROM m WHERE state IN (0, 3)") == [(5, 0)],
              outbox.said("list"))  # fmt: skip
    tap.check("rights: the log names the topic", "event=topic-held topic=may-not" in relay.log(), relay.log()[-3000:])
    lab.brokers.grant("may-not")
    since = time.monotonic()
    there = tap.wait_until(60, lambda: outbox.waiting() == 0)
    took = time.monotonic() - since
    tap.tell(f"rights: {took:.1f} s after the right was granted all are delivered")
    tap.check(f"rights: they are delivered within {WANTED} s after it was granted", there and took < WANTED, took)
    relay.end()

    outbox.write([("d1", "may", "d", "{}")])
    relay = Relay(outbox, url("SCRAM-SHA-512", kafka.PASSWORD))
    there = tap.wait_until(10, lambda: outbox.waiting() == 0 or "event=destination-down" in relay.log())
    works = tap.wait_until(2, lambda: outbox.waiting() == 0)
    tap.tell(f"rights: SCRAM {'works' if works else 'does not work'} with this librdkafka")
    tap.check("rights: SCRAM delivers, or the log names the version of librdkafka that it needs",
              works or "2.6.1" in relay.log(), relay.log()[-3000:])  # fmt: skip
    relay.end()


def quota(lab):
    """Brokers delay the relay: no failure, and nothing is sent again."""
    outbox, n = Outbox(lab, "quota"), 3000
    lab.brokers.create("quota", 3)
    lab.brokers.limit("wherry", 100000)
    try:
        rows = [(f"q{i}", "quota", f"k{i % 20}", json.dumps({"x": os.urandom(500).hex()})) for i in range(n)]
        relay, began = Relay(outbox, lab.url()), time.monotonic()
        for i in range(0, n, 20):
            outbox.write(rows[i : i + 20])
            time.sleep(0.02)
        drained = tap.wait_until(120, lambda: outbox.waiting() == 0)
        tap.tell(f"quota: {n} messages took {time.monotonic() - began:.1f} s at 100 kB/s")
        tap.check("quota: all are delivered", drained, relay.log()[-3000:])
        tap.check("quota: no attempt failed", outbox.number("SELECT max(attempts) FROM m") <= 1)
        tap.check("quota: it is no outage", "destination-down" not in relay.log(), relay.log()[-3000:])
        tap.check("quota: it is logged", "event=throttled" in relay.log(), relay.log()[-3000:])
        relay.end()
        judge(lab, "quota", "quota", [(row[0], row[2]) for row in rows])
    finally:
        lab.brokers.limit("wherry", 0)


def promises(lab):
    """Settings that break a promise are refused; topics that can lose messages are named."""
    outbox, n = Outbox(lab, "promises"), 20
    for acks in ("0", "1"):
        done = subprocess.run([tap.WHERRY, "relay", outbox.url, lab.url(f"?acks={acks}&enable.idempotence=false"),
                               "--until-empty"], capture_output=True, text=True, timeout=60)  # fmt: skip
        tap.check(f"promises: acks={acks} is refused, by its name", done.returncode == 2 and "acks" in done.stderr,
                  done.returncode, done.stderr)  # fmt: skip
    lab.brokers.create("safe", 3)
    lab.brokers.create("one", 3, min_insync_replicas=1)
    lab.brokers.create("both", 3, min_insync_replicas=1, unclean_leader_election_enable="true")
    lab.brokers.create("single", 3, replicas=1, min_insync_replicas=1)
    topics = ("safe", "single", "one", "both")
    outbox.write([(f"m{i}", topics[i % 4], f"k{i}", "{}") for i in range(n)])
    relay = Relay(outbox, lab.url(), "--lease", "2s")
    tap.check("promises: all are delivered", tap.wait_until(30, lambda: outbox.delivered() == n), relay.log()[-3000:])
    tap.check("promises: topics that can lose messages are named", tap.wait_until(
        30, lambda: relay.log().count("event=unsafe-topic") == 2), relay.log()[-3000:])  # fmt: skip
    found = dict(re.findall(r"event=unsafe-topic topic=(\S+) replicas=3 .*--add-config ([^\s\"]+)", relay.log()))
    tap.check("promises: with the settings that repair them, and no others are", found == {
        "one": "min.insync.replicas=2", "both": "min.insync.replicas=2,unclean.leader.election.enable=false"}, found)
    tap.check("promises: doctor finds them", tap.wait_until(20, lambda: re.search(
        "unsafe-topic .*, and of 1 more", outbox.said("doctor"))), outbox.said("doctor"))  # fmt: skip
    tap.check("promises: status says that all is well, and why not quite", "all is well" in outbox.said()
              and "may lose delivered messages" in outbox.said(), outbox.said())  # fmt: skip
    command = re.search(r"`kafka-configs.sh ([^`]*)`", outbox.said("doctor")).group(1)
    name = re.search("--entity-name (\\S+)", command).group(1)
    lab.brokers.tool("kafka.admin.ConfigCommand", *command.split())
    relay.kill()
    outbox.write([(f"after-{topic}", topic, "k", "{}") for topic in topics])
    relay.path = f"{lab.folder}/promises-2.log"
    relay.start()
    tap.wait_until(30, lambda: relay.log().count("event=unsafe-topic") == 1 and outbox.delivered() == n + 4)
    found = re.findall(r"event=unsafe-topic topic=(\S+)", relay.log())
    tap.check(f"promises: doctor's command repairs {name}", found == [{"one": "both", "both": "one"}[name]], found)
    relay.end()

    lab.brokers.create("unread", 3, min_insync_replicas=1)
    lab.brokers.grant("unread")
    outbox.write([("u1", "unread", "u", "{}")])
    to = lab.url(f"?security.protocol=sasl_plaintext&sasl.mechanism=PLAIN&sasl.username=shop&sasl.password="
                 f"{kafka.PASSWORD.replace(' ', '%20')}", lab.brokers.secure)  # fmt: skip
    relay.path = f"{lab.folder}/promises-3.log"
    relay.command = [tap.WHERRY, "relay", outbox.url, to, "--verbose"]
    relay.start()
    quiet = tap.wait_until(30, lambda: "event=topic-unread topic=unread" in relay.log())
    tap.check("promises: without the right to describe a topic there is a line for debugging, and no other",
              quiet and "event=unsafe-topic" not in relay.log(), relay.log()[-3000:])  # fmt: skip
    tap.check("promises: its messages are delivered", tap.wait_until(20, lambda: outbox.waiting() == 0))
    relay.end()


def rate(lab):
    """Relays beside librdkafka alone, with the same records, in turns."""
    rows = [(f"{i:08x}-0000-4000-8000-000000000000", f"k{i % 200}",
             json.dumps({"n": i, "pad": "".join(chr(97 + (i * j) % 26) for j in range(64))})) for i in range(50000)]
    ways = ["alone", "sqlite"] + (["postgres"] if lab.server else [])
    took, cost = collections.defaultdict(list), collections.defaultdict(list)
    for turn in range(3):
        for way in ways:
            topic = f"rate-{way}-{turn}"
            lab.brokers.create(topic)
            if way != "alone":
                outbox = Outbox(lab, topic, lab.server if way == "postgres" else None)
                outbox.write([(ident, topic, key, body) for ident, key, body in rows])
            before, began = lab.brokers.processor(), time.monotonic()
            if way == "alone":
                lab.brokers.alone(topic, rows)
            else:
                wherry("relay", outbox.url, lab.url(), "--until-empty", "--quiet")
            took[way].append(time.monotonic() - began)
            cost[way].append(lab.brokers.processor() - before)
            lab.brokers.delete(topic)
    for way in ways[1:]:
        rates = sorted(a / b for a, b in zip(took["alone"], took[way]))
        costs = sorted(b / a for a, b in zip(cost["alone"], cost[way]))
        tap.tell(f"rate: {way}: {len(rows) / sorted(took[way])[1]:.0f} messages/s, librdkafka alone "
                 f"{len(rows) / sorted(took['alone'])[1]:.0f}, ratio {rates[1]:.2f} ({rates[0]:.2f} to {rates[2]:.2f}); "
                 f"brokers' processor time {costs[1]:.2f} times ({costs[0]:.2f} to {costs[2]:.2f})")  # fmt: skip
        tap.check(f"rate: {way} has {SLOWEST} of the rate of librdkafka alone", rates[1] >= SLOWEST, rates)
        tap.check(f"rate: {way} costs the brokers at most {COSTLIEST} times as much", costs[1] <= COSTLIEST, costs)


def causes(lab):
    """What keeps a relay from its brokers is told apart."""
    outbox, ca, other = Outbox(lab, "causes"), f"{lab.folder}/ca.pem", f"{lab.folder}/other-ca.pem"
    lab.brokers.create("causes", 1, max_message_bytes=8000000)
    outbox.write([("c1", "causes", "c", "{}")])
    for node, authority, cause in ((1, other, "authority that is not known"), (2, ca, "has expired"),
                                   (3, ca, "another host name")):  # fmt: skip
        relay = Relay(outbox, f"kafka://localhost:{lab.brokers.tls[node]}?security.protocol=ssl&ssl.ca.location={authority}")
        tap.wait_until(20, lambda relay=relay: "event=destination-down" in relay.log())
        lines = [line for line in relay.log().splitlines() if "event=destination-down" in line]
        tap.check(f"causes: a certificate: {cause}", lines and cause in lines[-1], relay.log()[-2000:])
        relay.end()
        os.unlink(relay.path)
    tap.check("causes: no attempt was counted", outbox.number("SELECT max(attempts) FROM m") == 0)
    outbox.write([(f"b{i}", "causes", f"b{i}", json.dumps({"x": os.urandom(25000).hex()})) for i in range(40)])
    relay = Relay(outbox, lab.url("?message.max.bytes=8000000"))
    tap.check("causes: large messages are delivered", tap.wait_until(60, lambda: outbox.waiting() == 0),
              relay.log()[-2000:])  # fmt: skip
    tap.check("causes: brokers that work are not said to be down",
              not re.search("event=(brokers-down|destination-down)", relay.log()), relay.log()[-2000:])  # fmt: skip
    relay.end()


def times(lab):
    """A topic that takes no times of the past holds its messages or says why."""
    outbox = Outbox(lab, "times")
    lab.brokers.create("times", 3, message_timestamp_before_max_ms=3600000)
    outbox.write([(f"t{i}", "times", f"k{i}", "{}") for i in range(20)])
    outbox.connect().execute("UPDATE outbox SET created_at = created_at - 7200000 WHERE id % 4 = 0")
    relay = Relay(outbox, lab.url())
    tap.check("times: the others are delivered", tap.wait_until(30, lambda: outbox.delivered() == 15), relay.log()[-3000:])
    tap.wait_until(10, lambda: outbox.number("SELECT count(*) FROM m WHERE state = 4") == 5)
    errors = [row[0] for row in outbox.ask("SELECT last_error FROM m WHERE state IN (3, 4)")]
    tap.tell(f"times: {errors[:1]}")
    tap.check("times: the reason names the topic's limits", errors and all("message.timestamp" in (e or "") for e in errors),
              errors[:1])  # fmt: skip
    relay.end()


ROUNDS = (leader, two, unclean, relays, topics, large, rights, quota, times, promises, causes, rate)


def run(folder, jars):
    with open(f"{folder}/log", "w") as log:
        server = brokers = None
        try:
            try:
                server = postgres.Server(log, ["max_connections=50"]) if psycopg else None
            except postgres.NoServer:
                pass
            if not server:
                tap.skip("outboxes on PostgreSQL", "PostgreSQL or python3-psycopg is missing")
            brokers = kafka.Cluster(folder, jars)
            brokers.start(*kafka.NODES)
            lab = Lab(folder, brokers, server)
            names = os.environ.get("WHERRY_KAFKA_ROUNDS", "").split()
            for play in ROUNDS:
                if not names or play.__name__ in names:
                    began = time.monotonic()
                    play(lab)
                    tap.tell(f"{play.__name__}: {time.monotonic() - began:.0f} s")
                    for relay in lab.relays:
                        relay.process.kill()
        finally:
            if brokers:
                brokers.close()
            if server:
                server.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tap.in_folder("kafka", 0, lambda folder: run(folder, sys.argv[1]))
    print(f"1..{tap.count}")
    sys.exit(tap.failures > 0)
