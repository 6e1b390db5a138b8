"""`wherry reconcile` on three brokers of Kafka."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "crash"), os.path.join(HERE, "..", "kafka")]
import cluster as kafka  # noqa: E402
import tap  # noqa: E402
from confluent_kafka import Producer  # noqa: E402

KEYS = 20


class Shop:
    def __init__(self, folder, name, brokers):
        self.path, self.url = f"{folder}/{name}.db", f"sqlite:{folder}/{name}.db"
        self.to = f"kafka://{brokers}?batch.num.messages=100"
        subprocess.run([tap.WHERRY, "create", self.url], check=True, stderr=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)  # fmt: skip

    def fill(self, topic, n, keys=KEYS):
        """Messages that were made an hour ago, and are delivered."""
        db = sqlite3.connect(self.path)
        with db:
            db.executemany("INSERT INTO outbox(topic, partition_key, payload, created_at) VALUES (?, ?, ?, ?)",
                           [(topic, f"k{i % keys}", json.dumps({"n": i}), int((time.time() - 3600) * 1000))
                            for i in range(n)])  # fmt: skip
        db.close()
        return self.deliver()

    def deliver(self):
        return subprocess.run([tap.WHERRY, "relay", self.url, self.to, "--until-empty", "--timeout", "120s",
                               "--set", "outbox.retention=30d"], stderr=subprocess.PIPE, text=True)  # fmt: skip

    def run(self, *more, to=None):
        return subprocess.run([tap.WHERRY, "reconcile", self.url, to or self.to, "--since", "1d", "--json", *more],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)  # fmt: skip

    def compare(self, *more, to=None):
        done = self.run(*more, to=to)
        try:
            return json.loads(done.stdout)
        except ValueError:
            print(f"# {done.returncode} {done.stderr}")
            return {}


def counts(found, *names):
    return [found.get(name) for name in names]


def delete_records(brokers, topic, part, offset):
    path = f"{brokers.folder}/delete.json"
    with open(path, "w") as file:
        json.dump({"partitions": [{"topic": topic, "partition": part, "offset": offset}], "version": 1}, file)
    brokers.tool("org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", brokers.addresses(),
                 "--offset-json-file", path)  # fmt: skip


def made_again(brokers, shop):
    shop.fill("orders", 3000)
    found = shop.compare()
    tap.check("what is there is not missing", counts(found, "compared", "there", "missing", "notes") == [3000, 3000, 0, []],
            str(found)[-300:])  # fmt: skip
    brokers.delete("orders")
    brokers.create("orders", 6)
    found = shop.compare("--yes")
    tap.check("a topic that was made again lacks all", counts(found, "missing", "again") == [3000, 3000], str(found)[-300:])
    shop.deliver()
    records = brokers.read("orders")
    order = {}
    for record in records:
        order.setdefault(record[2], []).append(json.loads(record[4])["n"])
    tap.check("they come back once, in the order of their keys",
            len(records) == 3000 and all(ns == sorted(ns) for ns in order.values()) and len(order) == KEYS)  # fmt: skip
    tap.check("then nothing is missing", shop.run().returncode == 0)


def deleted(brokers, shop):
    records = brokers.read("orders")
    part = records[0][0]
    gone = sum(record[0] == part and record[1] < 50 for record in records)
    delete_records(brokers, "orders", part, 50)
    found = shop.compare()
    tap.check("deleted records have expired", counts(found, "missing", "expired", "there") == [0, gone, 3000 - gone],
            str(found)[-300:])  # fmt: skip
    found = shop.compare("--with-expired", "--yes")
    tap.check("and can be sent again", counts(found, "missing", "again") == [gone, gone], str(found)[-300:])
    shop.deliver()
    tap.check("then they are there", counts(shop.compare(), "there", "expired") == [3000, 0])


def compacted(brokers, shop):
    brokers.create("states", 3, cleanup_policy="compact", segment_ms=200, min_cleanable_dirty_ratio="0.01",
                   max_compaction_lag_ms=200)  # fmt: skip
    shop.fill("states", 600)
    closing = Producer({"bootstrap.servers": brokers.addresses(), "log_level": 0})
    for part in range(3):  # A record of now begins a segment, so that the one before it can be compacted.
        closing.produce("states", b"x", key=b"closing", partition=part)
    closing.flush(30)
    tap.wait_until(90, lambda: len(brokers.read("states")) <= 300)
    left = len(brokers.read("states"))
    found = shop.compare()
    tap.check(f"compaction leaves {left} of 600, and none is missing",
            left <= 300 and counts(found, "missing", "compacted", "there") == [0, 600 - left, 3000 + left], str(found)[-300:])  # fmt: skip


def rights(brokers, shop):
    secure = (f"kafka://{brokers.addresses(brokers.secure)}?sasl.mechanism=PLAIN&security.protocol=sasl_plaintext"
              "&sasl.username=shop&sasl.password=env:KAFKA_PASSWORD")  # fmt: skip
    os.environ["KAFKA_PASSWORD"] = kafka.PASSWORD
    for topic in "orders", "states":
        brokers.grant(topic, "Describe")
    done = shop.run(to=secure)
    tap.check("without the right to read it says which is missing",
            done.returncode == 1 and "no right to read topic" in done.stderr and "--operation Read" in done.stderr,
            done.stderr[-300:])  # fmt: skip
    for topic in "orders", "states":
        brokers.grant(topic, "Read")
    found = shop.compare(to=secure)
    tap.check("with it all is read, and it says that it cannot know what is compacted",
            found.get("there", 0) >= 3000 and any("DescribeConfigs" in note for note in found["notes"]),
            str(found)[-300:])  # fmt: skip
    for topic in "orders", "states":
        brokers.grant(topic, "DescribeConfigs")
    found = shop.compare(to=secure)
    tap.check("with another right it knows", found["missing"] == 0 and not any("DescribeConfigs" in note for note in found["notes"]),
              str(found)[-300:])  # fmt: skip


def transaction(brokers, shop):
    brokers.create("open", 1)
    producer = Producer({"bootstrap.servers": brokers.addresses(), "transactional.id": "other", "log_level": 0,
                         "transaction.timeout.ms": 600000})  # fmt: skip
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"x", headers={"message-id": b"stranger"})
    producer.flush(30)
    shop.fill("open", 100)
    found = shop.compare()
    tap.check("another producer's open transaction hides nothing", counts(found, "missing") == [0], str(found)[-300:])
    producer.abort_transaction(30)


def main(jars):
    with tempfile.TemporaryDirectory(prefix="wherry-kafka.") as folder:
        brokers = kafka.Cluster(folder, jars)
        try:
            brokers.start(*kafka.NODES)
            brokers.create("orders", 6)
            shop = Shop(folder, "shop", brokers.addresses())
            for part in made_again, deleted, compacted, rights, transaction:
                part(brokers, shop)
        finally:
            brokers.close()
    print(f"1..{tap.count}")
    sys.exit(tap.failures > 0)


main(sys.argv[1])
