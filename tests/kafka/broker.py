#!/usr/bin/env python3
"""A Kafka broker in memory, for what librdkafka's mock cluster has not: TLS, SASL, topics
that are not there until somebody makes them, settings of topics.  One broker, one partition leader, nothing on
disk.

    broker.py [--tls CERT KEY] [--sasl USER PASSWORD TOKEN]
              [--topic NAME PARTITIONS]... [--setting TOPIC NAME VALUE]... [--replicas N]

prints its address; it ends with its input, of which each line is a command, answered "ok":

    refuse API CODE TIMES     the next requests of this kind have this answer
    throttle MS               a client that writes is told to wait so long, and must
    hold API | go [N]         such requests are not answered until then, or only N of them
    received API              answered by how many such requests there were, held ones, too
    refused API               answered by how many of them were refused
    down | up                 nobody reaches it meanwhile
    lose TOPIC PARTITION FIRST LAST
                              batches at these offsets are gone, as after a compaction
    cut TOPIC PARTITION END   the partition ends there, as after an unclean election
    trim TOPIC PARTITION LOW  it begins there, as after its retention
    drop TOPIC

--replicas says how many replicas each partition has; only one is there.

With --sasl, PLAIN, SCRAM-SHA-256 and -512 take the user and password, OAUTHBEARER the token.
"""
import argparse
import asyncio
import base64
import bisect
import collections
import hashlib
import hmac
import os
import socket
import ssl
import struct
import sys
import time

PRODUCE, FETCH, OFFSETS, METADATA, SASL, VERSIONS, CREATE = 0, 1, 2, 3, 17, 18, 19
PRODUCER, DESCRIBE, AUTHENTICATE = 22, 32, 36
RANGES = {PRODUCE: (3, 7), FETCH: (4, 4), OFFSETS: (1, 1), METADATA: (1, 4), SASL: (0, 1),
          VERSIONS: (0, 2), CREATE: (1, 1), PRODUCER: (0, 1), DESCRIBE: (1, 1), AUTHENTICATE: (0, 0)}
UNKNOWN_TOPIC, UNSUPPORTED, EXISTS = 3, 35, 36
OUT_OF_ORDER, OLD_EPOCH, AUTH_FAILED = 45, 47, 58
APPENDED = 7, 20  # REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND: written, but not by enough
REMEMBERED = 5    # batches of a producer
EVERY = 10000     # more requests than are ever held
BATCH = struct.Struct(">qiibIhiqqqhii")  # the head of a record batch


class Reader:
    """What a request says, from the front on."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, code):
        form = struct.Struct(">" + code)
        out = form.unpack_from(self.data, self.at)
        self.at += form.size
        return out if len(out) > 1 else out[0]

    def bytes(self, code="i"):
        n = self.take(code)
        self.at += max(n, 0)
        return None if n < 0 else self.data[self.at - n:self.at]

    def text(self):
        raw = self.bytes("h")
        return None if raw is None else raw.decode()

    def list(self, item):
        n = self.take("i")
        return None if n < 0 else [item() for _ in range(n)]


def pack(code, *values):
    return struct.pack(">" + code, *values)


def text(value):
    return pack("h", -1) if value is None else pack("h", len(value.encode())) + value.encode()


def array(items):
    return pack("i", len(items)) + b"".join(items)


class Partition:
    def __init__(self):
        self.batches, self.end = [], 0  # (first, last, bytes)
        self.low = 0
        self.producers = {}             # id: epoch, next sequence, {sequences: offset}

    def append(self, data):
        head = list(BATCH.unpack_from(data))
        first, head[0] = self.end, self.end
        self.end += head[6] + 1
        self.batches.append((first, self.end - 1, BATCH.pack(*head) + data[BATCH.size:]))
        return first

    def keep(self, wanted):
        self.batches = [batch for batch in self.batches if wanted(*batch[:2])]

    def cut(self, end):
        self.keep(lambda _, last: last < end)
        self.end, self.producers = end, {}

    def trim(self, low):
        self.keep(lambda _, last: last >= low)
        self.low = low

    def at(self, ms):
        """The first offset that is as young, and its time."""
        for first, _, data in self.batches:
            if BATCH.unpack_from(data)[8] >= ms:
                return BATCH.unpack_from(data)[8], first
        return -1, -1

    def produce(self, data):
        """An error and the offset.  Of a producer that is not known here, anything is taken."""
        _, _, _, _, _, _, delta, _, _, pid, epoch, sequence, _ = BATCH.unpack_from(data)
        known, range_ = self.producers.get(pid), (sequence, sequence + delta)
        written = known[2] if known and epoch == known[0] else {}
        if pid >= 0 and known:
            if epoch < known[0]:
                return OLD_EPOCH, -1
            if range_ in written:
                return 0, written[range_]
            if sequence != (known[1] if epoch == known[0] else 0):
                return OUT_OF_ORDER, -1
        offset = self.append(data)
        if pid >= 0:
            last = list(written.items())[1 - REMEMBERED:]
            self.producers[pid] = (epoch, range_[1] + 1, {**dict(last), range_: offset})
        return 0, offset

class Broker:
    def __init__(self, options):
        self.options, self.topics = options, {}
        self.pids, self.refusals, self.held, self.throttle_ms = 0, {}, {}, 0
        self.received, self.refused = collections.Counter(), collections.Counter()
        self.writers, self.server, self.port = set(), None, 0
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if options.tls else None
        if options.tls:
            self.tls.load_cert_chain(*options.tls)
        for name, n in options.topic:
            self.topics[name] = [Partition() for _ in range(int(n))]

    def part(self, topic, index):
        parts = self.topics.get(topic, [])
        return parts[index] if 0 <= index < len(parts) else None

    # ---- what requests ask ----

    def metadata(self, r, version):
        names = r.list(r.text)
        out = [] if version < 3 else [pack("i", 0)]
        out += [array([pack("i", 1) + text("localhost") + pack("i", self.port) + text(None)])]
        out += [text("cluster")] if version > 1 else []
        topics, replicas = [], [pack("i", 1 + i) for i in range(self.options.replicas)]
        for name in sorted(self.topics) if names is None else names:
            parts = self.topics.get(name)
            topics.append(pack("h", 0 if parts else UNKNOWN_TOPIC) + text(name) + b"\0" + array(
                [pack("hii", 0, i, 1) + array(replicas) * 2 for i in range(len(parts or []))]))
        return b"".join(out) + pack("i", 1) + array(topics)

    def produce(self, r, version):
        r.text(), r.take("h"), r.take("i")
        tail = b"" if version < 5 else pack("q", 0)

        def each(topic):
            index, data = r.take("i"), r.bytes()
            part, refused = self.part(topic, index), self.refusal(PRODUCE)
            code, offset = refused or (0 if part else UNKNOWN_TOPIC), -1
            if part and (not refused or refused in APPENDED):
                wrong, offset = part.produce(data)
                code = wrong or refused
            return pack("ihqq", index, code, -1 if code else offset, -1) + tail

        def every():
            topic = r.text()
            return text(topic) + array(r.list(lambda: each(topic)))

        return array(r.list(every)) + pack("i", self.throttle_ms)

    async def fetch(self, r, _version):
        _, wait_ms, _, _, _ = r.take("iiiib")
        wanted = []

        def each(topic):
            wanted.append((topic, *r.take("iqi")))

        def every():
            topic = r.text()
            r.list(lambda: each(topic))

        r.list(every)
        if not any(self.part(t, i) and o < self.part(t, i).end for t, i, o, _ in wanted):
            await asyncio.sleep(wait_ms / 1000)
        return pack("i", 0) + array([text(one[0]) + array(
            [self.found(*one)]) for one in wanted])

    def found(self, topic, index, offset, most):
        part = self.part(topic, index)
        refused = self.refusal(FETCH)
        if refused or not part:
            return pack("ihqqii", index, refused or UNKNOWN_TOPIC, -1, -1, -1, 0)
        at, data = bisect.bisect_left(part.batches, offset, key=lambda batch: batch[1]), []
        while at < len(part.batches) and part.batches[at][0] < part.end and most > 0:
            data.append(part.batches[at][2])
            most, at = most - len(data[-1]), at + 1
        return (pack("ihqq", index, 0, part.end, part.end) + array([]) +
                pack("i", sum(map(len, data))) + b"".join(data))

    def offsets(self, r, _version):
        r.take("i")

        def each(topic):
            index, at = r.take("iq")
            part = self.part(topic, index)
            if not part:
                return pack("ihqq", index, UNKNOWN_TOPIC, -1, -1)
            found = {-1: (-1, part.end), -2: (-1, part.low)}
            return pack("ihqq", index, 0, *(found[at] if at in found else part.at(at)))

        def every():
            topic = r.text()
            return text(topic) + array(r.list(lambda: each(topic)))

        return array(r.list(every))

    def producer(self, r, _version):
        r.text()
        self.pids += 1
        return pack("ihqh", 0, 0, self.pids, 0)

    def create(self, r, _version):
        def one():
            name, n, _ = r.text(), *r.take("ih")
            r.list(lambda: (r.take("i"), r.list(lambda: r.take("i"))))
            r.list(lambda: (r.text(), r.text()))
            code = EXISTS if name in self.topics else 0
            if not code:
                self.topics[name] = [Partition() for _ in range(n)]
            return text(name) + pack("h", code) + text(None)

        return array(r.list(one))

    def describe(self, r, _version):
        def one():
            kind, name, _ = r.take("b"), r.text(), r.list(r.text)
            code = self.refusal(DESCRIBE)
            settings = [text(key) + text(value) + pack("bbb", 0, 1, 0) + array([])
                        for topic, key, value in self.options.setting if topic == name]
            return pack("h", code) + text(None) + pack("b", kind) + text(name) + array([] if code else settings)

        return pack("i", 0) + array(r.list(one))

    def refusal(self, api):
        """The error that the next one is to be answered with; 0: none."""
        code = self.refusals[api].pop() if self.refusals.get(api) else 0
        self.refused[api] += code != 0
        return code

    def refuse(self, api, r):
        """The answer with an error, of those whose answer is one."""
        code = self.refusal(api)
        if api == PRODUCER:
            return pack("ihqh", 0, code, -1, -1)
        raise ValueError(f"nothing can refuse {api} {r}")

    async def answer(self, api, version, r):
        if api in self.held:
            await self.held[api].acquire()
        if self.refusals.get(api) and api not in (PRODUCE, FETCH, DESCRIBE):
            return self.refuse(api, r)
        if api == FETCH:
            return await self.fetch(r, version)
        return {PRODUCE: self.produce, OFFSETS: self.offsets, METADATA: self.metadata,
                PRODUCER: self.producer, CREATE: self.create, DESCRIBE: self.describe}[api](r, version)

    # ---- connections ----

    async def receive(self, reader, requests):
        """Requests may be many before the first is answered; None: no more."""
        try:
            while True:
                data = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
                self.received[Reader(data).take("h")] += 1
                requests.put_nowait(data)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            requests.put_nowait(None)

    async def serve(self, reader, writer):
        auth = Authentication(self.options) if self.options.sasl else None
        requests = asyncio.Queue()
        if not self.server.is_serving():
            writer.transport.abort()
        receiving = asyncio.create_task(self.receive(reader, requests))
        self.writers.add(writer)
        try:
            while data := await requests.get():
                r = Reader(data)
                api, version, number = r.take("hhi")
                r.text()
                body = await self.body(api, version, r, auth)
                writer.write(pack("ii", len(body) + 4, number) + body)
                await writer.drain()
                if api == PRODUCE:
                    await asyncio.sleep(self.throttle_ms / 1000)
        except (ConnectionError, ssl.SSLError):
            pass
        receiving.cancel()
        self.writers.discard(writer)
        writer.close()

    def bind(self):
        """While it is bound and nobody listens, connections are refused."""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", self.port))
        self.port = self.socket.getsockname()[1]

    async def up(self):
        self.server = await asyncio.start_server(self.serve, sock=self.socket, ssl=self.tls)

    def down(self):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()
        self.bind()

    async def body(self, api, version, r, auth):
        if api == VERSIONS:
            code = UNSUPPORTED if version > RANGES[VERSIONS][1] else 0
            out = pack("h", code) + array([pack("hhh", k, *v) for k, v in RANGES.items()])
            return out + (pack("i", 0) if 0 < version <= RANGES[VERSIONS][1] else b"")
        if auth and api in (SASL, AUTHENTICATE):
            return auth.handshake(r) if api == SASL else auth.step(r)
        if auth and not auth.done:
            raise ConnectionError("not authenticated")
        return await self.answer(api, version, r)

    async def command(self, line):
        word = line.split()
        if word[0] == "refuse":
            self.refusals.setdefault(int(word[1]), []).extend([int(word[2])] * int(word[3]))
        elif word[0] == "accept":
            self.refusals.pop(int(word[1]), None)
        elif word[0] == "throttle":
            self.throttle_ms = int(word[1])
        elif word[0] == "hold":
            self.held[int(word[1])] = asyncio.Semaphore(0)
        elif word[0] == "go":
            for gate in self.held.values():
                for _ in range(int(word[1]) if word[1:] else EVERY):
                    gate.release()
            self.held = self.held if word[1:] else {}
        elif word[0] == "lose":
            self.part(word[1], int(word[2])).keep(
                lambda first, last: last < int(word[3]) or first > int(word[4]))
        elif word[0] in ("cut", "trim"):
            getattr(self.part(word[1], int(word[2])), word[0])(int(word[3]))
        elif word[0] == "drop":
            del self.topics[word[1]]
        elif word[0] == "down":
            self.down()
        elif word[0] == "up":
            await self.up()
        answers = {"received": lambda: self.received[int(word[1])],
                   "refused": lambda: self.refused[int(word[1])]}
        print(answers.get(word[0], lambda: "ok")(), flush=True)


class Authentication:
    """Of one connection."""

    def __init__(self, options):
        self.user, self.password, self.token = options.sasl
        self.done, self.mechanism, self.steps = False, None, 0

    def handshake(self, r):
        self.mechanism = r.text()
        all_ = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
        return pack("h", 0 if self.mechanism in all_ else 33) + array([text(m) for m in all_])

    def step(self, r):
        self.steps += 1
        try:
            out = {"PLAIN": self.plain, "OAUTHBEARER": self.bearer}.get(
                self.mechanism, self.scram)(r.bytes())
        except PermissionError as why:
            return pack("h", AUTH_FAILED) + text(str(why)) + pack("i", 0)
        return pack("h", 0) + text(None) + pack("i", len(out)) + out

    def plain(self, said):
        if said.split(b"\0")[1:] != [self.user.encode(), self.password.encode()]:
            raise PermissionError("Authentication failed: Invalid username or password")
        self.done = True
        return b""

    def bearer(self, said):
        if said == b"\x01":
            raise PermissionError("Authentication failed: invalid token")
        if f"auth=Bearer {self.token}".encode() not in said.split(b"\x01"):
            return b'{"status":"invalid_token"}'
        self.done = True
        return b""

    def scram(self, said):
        name = "sha" + self.mechanism[-3:]
        parts = dict(p.split("=", 1) for p in said.decode().split(",") if "=" in p)
        if self.steps == 1:
            self.first = said.decode().split(",", 2)[2]
            self.salt, self.known = os.urandom(16), parts["n"] == self.user
            self.nonce = parts["r"] + base64.b64encode(os.urandom(12)).decode()
            self.challenge = f"r={self.nonce},s={base64.b64encode(self.salt).decode()},i=4096"
            return self.challenge.encode()

        def mac(key, message):
            return hmac.new(key, message, name).digest()

        salted = hashlib.pbkdf2_hmac(name, self.password.encode(), self.salt, 4096)
        whole = f"{self.first},{self.challenge},{said.decode().rsplit(',p=', 1)[0]}".encode()
        stored = hashlib.new(name, mac(salted, b"Client Key")).digest()
        key = bytes(a ^ b for a, b in zip(base64.b64decode(parts["p"]), mac(stored, whole)))
        own = parts["r"].endswith(self.nonce)  # librdkafka 2.0 repeats its part, brokers take it
        if not self.known or not own or hashlib.new(name, key).digest() != stored:
            raise PermissionError(f"Authentication failed during authentication due to invalid "
                                  f"credentials with SASL mechanism {self.mechanism}")
        self.done = True
        return b"v=" + base64.b64encode(mac(mac(salted, b"Server Key"), whole))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--sasl", nargs=3)
    parser.add_argument("--topic", nargs=2, action="append", default=[])
    parser.add_argument("--setting", nargs=3, action="append", default=[])
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    broker = Broker(options)
    broker.bind()
    await broker.up()
    print(f"localhost:{broker.port}", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        await broker.command(line.decode())
    os._exit(0)


asyncio.run(main())
