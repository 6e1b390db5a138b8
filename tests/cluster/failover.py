"""Relays, workers and schedules on a cluster of three whose leader changes.

Producers write to the cluster by a URL of three hosts and through HAProxy.  Each transaction writes a message to each
outbox and queue of its way, and a line to a ledger.  The ledger that the database has at the end says what it kept.
"""

import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

import psycopg

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "crash"))
import tap  # noqa: E402

MODES = os.environ.get("WHERRY_CLUSTER_MODES", "sync async").split()
ROUNDS = int(os.environ.get("WHERRY_CLUSTER_ROUNDS", "1"))
FAULTS = os.environ.get("WHERRY_CLUSTER_FAULTS", "switchover kill freeze lose").split()
KEYS = 5
# Seconds from the first commit on the new leader until its message is delivered.
WANTED = 3.0
WAYS = ("nodes", "haproxy")
# The way of each table that a producer writes to, and what else its relay is set to.
OUTBOXES = {"plain": ("nodes", ""), "wal": ("nodes", "source: wal"), "proxied": ("haproxy", ""),
            "proxied_wal": ("haproxy", "source: wal")}  # fmt: skip
SINKS = (*OUTBOXES, "events", "mail", "jobs")


def way_of(sink):
    if sink in OUTBOXES:
        return OUTBOXES[sink][0]
    return "nodes" if sink == "events" else "haproxy"


class Cluster:
    def __init__(self, mode, log):
        script = os.path.join(HERE, "..", "postgres", "patroni.sh")
        self.process = subprocess.Popen(["bash", script, mode], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log, text=True)  # fmt: skip
        self.about, self.failed = {}, 0
        while "control" not in self.about:
            word, _, rest = self.process.stdout.readline().strip().partition(" ")
            if not word:
                self.failed = self.process.wait()
                return
            self.about[word] = rest.strip()
        self.folder, self.mode = self.about["folder"], mode
        self.urls = {way: self.about[way] for way in WAYS}
        self.ports = [int(port) for port in self.about["patroni"].split()]
        self.named = {f"node{i}": i for i in (1, 2, 3)}

    def ask(self, path, body=None, port=None):
        for port in [port] if port else self.ports:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                                 data=json.dumps(body).encode() if body else None)  # fmt: skip
                with urllib.request.urlopen(request, timeout=2 if not body else 60) as answer:
                    return answer.read().decode()
            except OSError:
                pass
        return None

    def members(self):
        answer = self.ask("/cluster")
        return json.loads(answer)["members"] if answer else []

    def leads(self, number):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[number - 1]}/primary", timeout=2):
                return True
        except OSError:
            return False

    def leader(self):
        return next((i for i in (1, 2, 3) if self.leads(i)), None)

    def whole(self):
        members = self.members()
        return (len(members) == 3 and all(m.get("state") in ("running", "streaming") for m in members)
                and sum(m["role"] == "leader" for m in members) == 1
                and (self.mode != "sync" or any(m["role"] == "sync_standby" for m in members))
                and len({m.get("timeline") for m in members}) == 1)  # fmt: skip

    def pids(self, number):
        """Patroni, the server and all its processes."""
        with open(f"{self.folder}/node{number}.pid") as text:
            found = [int(text.read())]
        try:
            with open(f"{self.folder}/node{number}/postmaster.pid") as text:
                server = int(text.readline())
        except OSError:
            return found
        children = subprocess.run(["pgrep", "-P", str(server)], stdout=subprocess.PIPE, text=True)
        return [*found, server, *map(int, children.stdout.split())]

    def signal(self, number, which, named=None):
        for pid in self.pids(number):
            try:
                with open(f"/proc/{pid}/cmdline") as text:
                    if not named or named in text.read():
                        os.kill(pid, which)
            except OSError:
                pass

    def start(self, number):
        self.process.stdin.write(f"start {number}\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Connection:
    """A connection that a thread gives up if the server is silent for two seconds."""

    def __init__(self, url, **settings):
        self.url, self.settings, self.db, self.busy_since = url, settings, None, None
        self.lock = threading.Lock()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            time.sleep(0.2)
            with self.lock:
                if self.db and self.busy_since and time.monotonic() - self.busy_since > 2:
                    try:
                        copy = socket.socket(fileno=os.dup(self.db.fileno()))
                        copy.shutdown(socket.SHUT_RDWR)
                        copy.close()
                    except (OSError, psycopg.Error):
                        pass

    def connect(self):
        """psycopg would give the first host all the time that there is."""
        base, hosts, rest = re.match(r"(postgres://[^@]*@)([^/]*)(/.*)", self.url).groups()
        for host in hosts.split(",")[:-1]:
            try:
                return psycopg.connect(base + host + rest, connect_timeout=2, prepare_threshold=None, **self.settings)
            except psycopg.Error:
                pass
        return psycopg.connect(base + hosts.split(",")[-1] + rest, connect_timeout=2, prepare_threshold=None,
                               **self.settings)  # fmt: skip

    def run(self, work):
        """False: it failed, and is tried on another connection the next time."""
        try:
            if not self.db:
                db = self.connect()
                with self.lock:
                    self.db = db
            self.busy_since = time.monotonic()
            work(self.db)
            return True
        except psycopg.Error:
            with self.lock:
                if self.db:
                    self.db.close()
                self.db = None
            return False
        finally:
            self.busy_since = None


class Producer(threading.Thread):
    """Commits until it is stopped."""

    def __init__(self, cluster, way):
        super().__init__(daemon=True)
        self.way, self.n, self.halt = way, 0, threading.Event()
        self.connection = Connection(cluster.urls[way])
        self.commits = []  # (when it was acknowledged, number)
        self.failed = []  # when

    def run(self):
        while not self.halt.is_set():
            self.n += 1
            if self.connection.run(self.commit):
                self.commits.append((time.monotonic(), self.n))
                time.sleep(0.03)
            else:
                self.failed.append(time.monotonic())
                time.sleep(0.05)

    def commit(self, db):
        ident, key = str(uuid.uuid4()), f"{self.way}{self.n % KEYS}"
        body = json.dumps({"i": ident, "n": self.n})
        with db.transaction(), db.cursor() as c:
            c.execute("INSERT INTO ledger VALUES (%s, %s, %s, %s)", (ident, self.way, key, self.n))
            for table, (way, _) in OUTBOXES.items():
                if way == self.way:
                    c.execute(f"INSERT INTO {table}(topic, partition_key, payload) VALUES ('t', %s, %s)", (key, body))
            if self.way == "nodes":
                c.execute("INSERT INTO events VALUES (%s, 'order', %s, 'Made', %s)", (ident, key, body))
            else:
                c.execute("SELECT wherry_send('jobs', %s)", (body,))
                c.execute("SELECT wherry_offer('mail', %s, %s)", (ident, body))

    def back_after(self, when):
        """The first commit after commits failed after that time: when it was, and its number."""
        failed = next((at for at in self.failed if at > when), None)
        if failed is None:
            return None
        return next((commit for commit in self.commits if commit[0] > failed), None)


class Worker(threading.Thread):
    """Receives from the queue, and writes down what it did."""

    def __init__(self, cluster, path):
        super().__init__(daemon=True)
        self.connection, self.out, self.halt = Connection(cluster.urls["haproxy"], autocommit=True), open(path, "a"), False

    def run(self):
        while not self.halt:
            if not self.connection.run(self.work):
                time.sleep(0.05)

    def work(self, db):
        found = db.execute("SELECT id, token, body FROM wherry_receive('jobs', 20, interval '5 s')").fetchall()
        for ident, token, body in found:
            self.out.write(json.dumps({"body": json.loads(body)}) + "\n")
            self.out.flush()
            db.execute("SELECT wherry_ack('jobs', %s, %s)", (ident, token))
        if not found:
            time.sleep(0.05)


class Arrivals(threading.Thread):
    """Reads what arrives in the files of the sinks, with the time."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.offset, self.halt = folder, collections.Counter(), False
        self.got = {sink: [] for sink in SINKS}  # (when, message)
        self.lock = threading.Lock()

    def run(self):
        while not self.halt:
            self.read()
            time.sleep(0.02)

    def read(self):
        now = time.monotonic()
        for sink in SINKS:
            try:
                with open(f"{self.folder}/{sink}.out", "rb") as lines:
                    lines.seek(self.offset[sink])
                    text = lines.read()
            except OSError:
                continue
            text = text[: text.rfind(b"\n") + 1]
            self.offset[sink] += len(text)
            with self.lock:
                for line in text.splitlines():
                    body = json.loads(line)["body"]
                    self.got[sink].append((now, body if isinstance(body, dict) else json.loads(body)))

    def when(self, sink, number):
        with self.lock:
            return next((at for at, body in self.got[sink] if body["n"] == number), None)


class Daemon:
    def __init__(self, folder, way, url):
        self.file, self.log = f"{folder}/{way}.yaml", open(f"{folder}/{way}.log", "w")
        relays = [f"  - {{name: {name}, from: '{url}#{name}', to: 'file:{folder}/{name}.out'{', ' if more else ''}{more}}}"
                  for name, (its, more) in OUTBOXES.items() if its == way]  # fmt: skip
        if way == "nodes":
            relays.append(f"  - {{name: events, from: '{url}#events', to: 'file:{folder}/events.out', "
                          "stream: {slot: wherry_events}}")  # fmt: skip
        else:
            relays.append(f"  - {{name: mail, from: '{url}#delayed/mail', to: 'file:{folder}/mail.out'}}")
        with open(self.file, "w") as text:
            text.write("http: {listen: '127.0.0.1:0'}\nrelays:\n" + "\n".join(relays)
                       + f"\ncron:\n  - {{name: tick, database: '{url}', at: '@every 1s', catch_up: all, "
                       "outbox: {topic: tick, table: ticks}}\n")  # fmt: skip
        self.process = subprocess.Popen([tap.WHERRY, "run", self.file], stderr=self.log, stdout=self.log)

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


# ---- faults: each returns what to do when a new leader is there ----


def switchover(cluster):
    leader = cluster.leader()
    for _ in range(10):  # Patroni refuses while it chooses a synchronous standby.
        roles = {m["name"]: m["role"] for m in cluster.members()}
        candidate = max((name for name in roles if name != f"node{leader}"),
                        key=lambda name: roles[name] == "sync_standby")  # fmt: skip
        if cluster.ask("/switchover", {"leader": f"node{leader}", "candidate": candidate}, cluster.ports[leader - 1]):
            return leader, lambda: None
        tap.tell(f"Patroni did not switch from node{leader} to {candidate} of {roles}")
        time.sleep(3)
    return leader, lambda: None


def kill(cluster):
    leader = cluster.leader()
    cluster.signal(leader, signal.SIGKILL)
    return leader, lambda: cluster.start(leader)


def freeze(cluster):
    """All processes of the leader stand still, and go on when another one leads."""
    leader = cluster.leader()
    cluster.signal(leader, signal.SIGSTOP)

    def thaw():
        time.sleep(5)
        cluster.signal(leader, signal.SIGCONT)

    return leader, thaw


def lose(cluster):
    """The last commits reach no standby."""
    leader = cluster.leader()
    others = [i for i in (1, 2, 3) if i != leader]
    for i in others:
        cluster.signal(i, signal.SIGSTOP, "walreceiver")
    time.sleep(1.5)
    cluster.signal(leader, signal.SIGKILL)
    for i in others:
        cluster.signal(i, signal.SIGTERM, "walreceiver")
        cluster.signal(i, signal.SIGCONT, "walreceiver")
    return leader, lambda: cluster.start(leader)


def withhold(cluster, producers, arrivals):
    """While no standby writes what the leader sends, no commit returns, and no message of one is delivered."""
    others = [i for i in (1, 2, 3) if i != cluster.leader()]
    for i in others:
        cluster.signal(i, signal.SIGSTOP, "walreceiver")
    time.sleep(6)
    early = {}
    for sink in SINKS:
        committed = producers[way_of(sink)].commits[-1][1]
        early[sink] = sum(body["n"] > committed for _, body in arrivals.got[sink])
    for i in others:
        cluster.signal(i, signal.SIGCONT, "walreceiver")
    tap.check("sync: while no standby writes, nothing of that is delivered", not any(early.values()), early)


# ---- what is said meanwhile ----


def said(cluster, what):
    for command, lines in (("status", 2), ("doctor", 40)):
        for table in ("plain", "events"):
            more = ["--set", "stream.slot=wherry_events"] if table == "events" else []
            try:
                done = subprocess.run([tap.WHERRY, command, cluster.urls["nodes"] + "#" + table, *more],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip
                text = done.stdout.splitlines()
            except subprocess.TimeoutExpired:
                text = ["no answer in 60 s"]
            if command == "doctor":
                text = [line for line in text if line.startswith(("bad", "warn"))]
            for line in text[:lines]:
                tap.tell(f"{what}: {command} {table}: {line[:200]}")


def tell_log(folder, way, offset):
    with open(f"{folder}/{way}.log") as log:
        log.seek(offset)
        for line in log.read().splitlines():
            if "event=tick " not in line:
                tap.tell(f"{way}: {line[:260]}")
        return log.tell()


# ---- a mode ----


def prepare(cluster):
    url = cluster.urls["nodes"]
    make = [["create", f"{url}#{table}"] for table in (*OUTBOXES, "ticks")]
    make += [["create", f"{url}#events", "--layout", "debezium", "--stream", "--set", "stream.slot=wherry_events"],
             ["create", f"{url}#jobs", "--kind", "queue"], ["create", url, "--kind", "delayed"],
             ["create", url, "--kind", "cron"]]  # fmt: skip
    for command in make:
        subprocess.run([tap.WHERRY, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with psycopg.connect(url) as db:
        db.execute("CREATE TABLE ledger(id uuid PRIMARY KEY, way text, k text, n int)")


def play(mode, fault, cluster, producers, arrivals, folder, offsets):
    if not tap.wait_until(120, cluster.whole):
        return tap.check(f"{mode}, {fault.__name__}: the cluster is whole before it", False, cluster.members())
    time.sleep(3)
    began = time.monotonic()
    leader, afterwards = fault(cluster)
    there = tap.wait_until(90, lambda: cluster.leader() not in (None, leader))
    tap.check(f"{mode}, {fault.__name__}: another node leads", there)
    since = time.monotonic() - began
    backs = {}
    for way, producer in producers.items():
        tap.wait_until(60, lambda: producer.back_after(began))
        backs[way] = producer.back_after(began)
    said(cluster, f"{fault.__name__}, a new leader")
    for sink in SINKS:
        back = backs[way_of(sink)]
        if not back:
            tap.check(f"{mode}, {fault.__name__}: {sink}: commits failed and came back", False)
            continue
        tap.wait_until(60, lambda: arrivals.when(sink, back[1]))
        arrived = arrivals.when(sink, back[1])
        delay = round(arrived - back[0], 2) if arrived else None
        tap.tell(f"{mode}, {fault.__name__}: {sink} delivers {delay} s after the first commit, which was "
                 f"{round(back[0] - began, 1)} s after the fault (Patroni: {round(since, 1)} s)")  # fmt: skip
        tap.check(f"{mode}, {fault.__name__}: {sink} delivers within {WANTED} s", delay is not None and delay < WANTED,
                  delay)  # fmt: skip
    afterwards()
    for way in WAYS:
        offsets[way] = tell_log(folder, way, offsets[way])


def overtaken(sink, arrivals, producer):
    """Of a table without keys: messages that came behind a later one, and of these those that no failure explains.

    One worker or relay takes them in their order.  What it had when its connection failed it gets again when its
    lease has ended, behind later ones.
    """
    when, last, behind, unexplained = dict((n, at) for at, n in producer.commits), 0, [], []
    for at, body in arrivals.got[sink]:
        n = body["n"]
        if n < last:
            committed = when.get(n)  # None: the answer to its commit was lost.
            behind.append(n)
            if committed and not any(committed <= failed <= at for failed in producer.failed):
                unexplained.append((n, last))
        last = max(n, last)
    return behind, unexplained


def judge(mode, cluster, arrivals, producers):
    with psycopg.connect(cluster.urls["nodes"]) as db:
        ledger = {str(i): (way, k, n) for i, way, k, n in db.execute("SELECT id, way, k, n FROM ledger")}
        ticks = [row[0] for row in db.execute("SELECT message_id FROM ticks ORDER BY 1")]
    for sink in SINKS:
        kept = {i for i in ledger if ledger[i][0] == way_of(sink)}
        tap.wait_until(60, lambda: kept <= {body["i"] for _, body in arrivals.got[sink]})
        came = [body["i"] for _, body in arrivals.got[sink]]
        first = dict.fromkeys(came)
        lost, unborn = kept - first.keys(), first.keys() - kept
        last, disorder = {}, []
        for i in first:
            if i in ledger:
                _, key, n = ledger[i]
                if n < last.get(key, 0):
                    disorder.append((key, last[key], n))
                last[key] = n
        tap.tell(f"{mode}: {sink}: {len(kept)} kept, {len(lost)} lost, {len(unborn)} unborn, "
                 f"{len(came) - len(first)} doubled"
                 + ("" if sink in ("jobs", "mail") else f", {len(disorder)} out of order"))  # fmt: skip
        tap.check(f"{mode}: {sink}: nothing that the database kept is lost", not lost, sorted(lost)[:5])
        if sink in ("jobs", "mail"):
            behind, unexplained = overtaken(sink, arrivals, producers[way_of(sink)])
            tap.tell(f"{mode}: {sink}: {len(behind)} came behind a later one")
            tap.check(f"{mode}: {sink}: in order, but for what was in flight when connections failed",
                      not unexplained, unexplained[:5])  # fmt: skip
        else:
            tap.check(f"{mode}: {sink}: each key keeps its order", not disorder, disorder[:5])
        if mode == "sync":
            tap.check(f"{mode}: {sink}: nothing was delivered that no standby had", not unborn, len(unborn))
    tap.check(f"{mode}: each tick of cron is there once", len(set(ticks)) == len(ticks) > 20, len(ticks))


def run(mode, folder):
    with open(f"{folder}/log", "w") as log:
        cluster = Cluster(mode, log)
        if cluster.failed == 77:
            return tap.skip(f"{mode}: failover", "Patroni, etcd, HAProxy or PostgreSQL is missing")
        if cluster.failed:
            return tap.check(f"{mode}: the cluster starts", False)
        daemons = []
        try:
            prepare(cluster)
            arrivals = Arrivals(folder)
            arrivals.start()
            daemons = [Daemon(folder, way, cluster.urls[way]) for way in WAYS]
            worker = Worker(cluster, f"{folder}/jobs.out")
            worker.start()
            producers = {way: Producer(cluster, way) for way in WAYS}
            time.sleep(3)
            for producer in producers.values():
                producer.start()
            offsets = dict.fromkeys(WAYS, 0)
            for _ in range(ROUNDS):
                for fault in (switchover, kill, freeze, lose):
                    if fault.__name__ in FAULTS and (mode == "async" or fault is not lose):
                        play(mode, fault, cluster, producers, arrivals, folder, offsets)
            tap.wait_until(120, cluster.whole)
            if mode == "sync":
                withhold(cluster, producers, arrivals)
            for producer in producers.values():
                producer.halt.set()
                producer.join()
            judge(mode, cluster, arrivals, producers)
            said(cluster, "at the end")
            worker.halt = arrivals.halt = True
            for daemon in daemons:
                tap.check(f"{mode}: a daemon ends well", daemon.stop() == 0)
        finally:
            for daemon in daemons:
                daemon.process.kill()
            cluster.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for each in MODES:
        tap.in_folder(f"failover-{each}", 0, lambda folder, mode=each: run(mode, folder))
    print(f"1..{tap.count}")
    sys.exit(tap.failures > 0)
