"""Three brokers of Kafka in KRaft mode on free ports of the loopback address, and a consumer that reads everything.

Each has a listener without credentials, whose clients may do everything, one for the user "shop", with PLAIN and
SCRAM-SHA-512, who may do what grant() grants, and one with TLS: node 1 with a good certificate, node 2 with one that has
expired, node 3 with one for another host.
"""

import ctypes
import os
import signal
import socket
import subprocess
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

NODES = (1, 2, 3)
PASSWORD = "open sesame"
CERTIFICATES = {1: ("localhost", 2), 2: ("localhost", -1), 3: ("broker.example.org", 2)}  # host name, days


def free_ports(n):
    """Below the range from which connections take their own ports, so that they stay free while a broker is down."""
    ports = []
    for port in range(20000 + os.getpid() % 10000, 32700):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == n:
            return ports
    raise RuntimeError("no ports are free")


def end_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Cluster:
    def __init__(self, folder, jars):
        self.folder, self.classes, self.running = folder, os.path.join(jars, "*"), {}
        ports = free_ports(12)
        self.plain, self.control, self.secure, self.tls = (dict(zip(NODES, ports[i : i + 3])) for i in (0, 3, 6, 9))
        for name in ("ca", "other-ca"):
            openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout",
                    f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")  # fmt: skip
        for node in NODES:
            self.certify(node)
            with open(f"{folder}/{node}.properties", "w") as text:
                text.write(self.settings(node))
            self.tool("kafka.tools.StorageTool", "format", "-t", "WherryWherryWherryWh-A", "-c",
                      f"{folder}/{node}.properties", "--add-scram",
                      f"SCRAM-SHA-512=[name=shop,password={PASSWORD}]")  # fmt: skip

    def settings(self, node):
        voters = ",".join(f"{n}@127.0.0.1:{self.control[n]}" for n in NODES)
        module = "org.apache.kafka.common.security"
        return f"""
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAIN://127.0.0.1:{self.plain[node]},CONTROL://127.0.0.1:{self.control[node]},SASL://127.0.0.1:{self.secure[node]},TLS://localhost:{self.tls[node]}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROL:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL
ssl.keystore.type=PEM
ssl.keystore.location={self.folder}/{node}.keys
controller.listener.names=CONTROL
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_shop="{PASSWORD}";
listener.name.sasl.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={self.folder}/{node}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.num.partitions=1
auto.create.topics.enable=false
"""

    def certify(self, node):
        name, days = CERTIFICATES[node]
        at = f"{self.folder}/{node}"
        with open(f"{at}.san", "w") as text:
            text.write(f"subjectAltName=DNS:{name}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{at}.key", "-out",
                f"{at}.csr")  # fmt: skip
        openssl("x509", "-req", "-in", f"{at}.csr", "-CA", f"{self.folder}/ca.pem", "-CAkey", f"{self.folder}/ca.key",
                "-CAcreateserial", "-days", str(days), "-extfile", f"{at}.san", "-out", f"{at}.pem")  # fmt: skip
        with open(f"{at}.keys", "w") as keys:
            for part in ("key", "pem"):
                with open(f"{at}.{part}") as text:
                    keys.write(text.read())

    def java(self, *words):
        return ["java", "-Xms64m", "-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self.classes, *words]

    def tool(self, *words):
        done = subprocess.run(self.java(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{words[0]}: {done.stdout[-2000:]}")

    # ---- brokers ----

    def start(self, *nodes):
        for node in nodes:
            with open(f"{self.folder}/{node}.log", "a") as log:
                self.running[node] = subprocess.Popen(
                    self.java("kafka.Kafka", f"{self.folder}/{node}.properties"), stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, preexec_fn=end_with_us)  # fmt: skip

    def kill(self, *nodes):
        for node in nodes:
            self.running[node].kill()
        for node in nodes:
            self.running.pop(node).wait()

    def processor(self):
        """Seconds of processor time that the brokers have used."""
        ticks = 0
        for process in self.running.values():
            with open(f"/proc/{process.pid}/stat") as text:
                ticks += sum(map(int, text.read().rsplit(")", 1)[1].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.kill(*self.running)

    # ---- where, and what ----

    def addresses(self, ports=None):
        return ",".join(f"127.0.0.1:{port}" for port in (ports or self.plain).values())

    def admin(self):
        return AdminClient({"bootstrap.servers": self.addresses(), "log_level": 0, "socket.timeout.ms": 5000})

    def partitions(self, topic):
        """Of a topic, by number; none if nobody answers."""
        try:
            found = self.admin().list_topics(topic, timeout=5).topics[topic]
        except KafkaException:
            return {}
        return {} if found.error else found.partitions

    def leader(self, topic):
        return self.partitions(topic)[0].leader

    def whole(self, topic, n=12, replicas=3):
        found = self.partitions(topic)
        return len(found) == n and all(p.leader > 0 and len(p.isrs) == replicas for p in found.values())

    def create(self, topic, n=12, replicas=3, **settings):
        config = {name.replace("_", "."): str(value) for name, value in settings.items()}
        by = time.monotonic() + 60
        while True:
            admin = self.admin()  # It must live until its answer is there.
            try:
                admin.create_topics([NewTopic(topic, n, replicas, config=config)])[topic].result()
                break
            except KafkaException:
                if self.partitions(topic):
                    break
                if time.monotonic() > by:
                    raise
                time.sleep(0.3)
        while not self.whole(topic, n, replicas) and time.monotonic() < by:
            time.sleep(0.1)

    def delete(self, topic):
        admin = self.admin()
        admin.delete_topics([topic])[topic].result()
        while self.partitions(topic):
            time.sleep(0.1)

    def grant(self, topic, operation="Write"):
        self.tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", self.addresses(), "--add",
                  "--allow-principal", "User:shop", "--operation", operation, "--topic", topic)  # fmt: skip

    def limit(self, client, rate):
        """Bytes a second that a client may produce; 0: no limit."""
        change = ["--add-config", f"producer_byte_rate={rate}"] if rate else ["--delete-config", "producer_byte_rate"]
        self.tool("kafka.admin.ConfigCommand", "--bootstrap-server", self.addresses(), "--alter", *change,
                  "--entity-type", "clients", "--entity-name", client)  # fmt: skip

    def alone(self, topic, rows):
        """librdkafka alone delivers (message id, key, body), with the headers that a relay sends: how long it takes."""
        producer = Producer({"bootstrap.servers": self.addresses(), "log_level": 0, "enable.idempotence": True,
                             "partitioner": "murmur2_random", "delivery.report.only.error": True})  # fmt: skip
        began = time.monotonic()
        for ident, key, body in rows:
            headers = [("message-id", ident), ("content-type", "application/json")]
            while True:
                try:
                    producer.produce(topic, body, key, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.01)
        if producer.flush(120):
            raise RuntimeError(f"{topic}: a plain producer could not deliver all")
        return time.monotonic() - began

    def takes(self, topic):
        """A producer of its own delivers to each partition of the topic: when it had."""
        while not (parts := self.partitions(topic)):
            time.sleep(0.1)
        done = []
        producer = Producer({"bootstrap.servers": self.addresses(), "log_level": 0, "message.timeout.ms": 120000,
                             "reconnect.backoff.max.ms": 1000})  # fmt: skip
        for part in parts:
            producer.produce(topic, b"", partition=part, on_delivery=lambda error, _: done.append(error))
        producer.flush(120)
        if any(done):
            raise RuntimeError(f"{topic} takes nothing: {done}")
        return time.monotonic()

    def read(self, topic):
        """All records that arrived: (partition, offset, key, message id, value), in each partition in order."""
        consumer = Consumer({"bootstrap.servers": self.addresses(), "group.id": "judge", "log_level": 0,
                             "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True,
                             "isolation.level": "read_committed"})  # fmt: skip
        parts = list(self.partitions(topic))
        consumer.assign([TopicPartition(topic, part, 0) for part in parts])
        records, ended, by = [], set(), time.monotonic() + 60
        while len(ended) < len(parts) and time.monotonic() < by:
            for m in consumer.consume(1000, 1):
                if not m.error():
                    headers = dict(m.headers() or [])
                    if "message-id" in headers:
                        records.append((m.partition(), m.offset(), m.key() and m.key().decode(),
                                        headers["message-id"].decode(), m.value()))  # fmt: skip
                elif m.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(m.partition())
        consumer.close()
        if len(ended) < len(parts):
            raise RuntimeError(f"{topic} was not read to its end")
        return sorted(records, key=lambda record: record[:2])
