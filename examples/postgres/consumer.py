"""Consume a Kafka topic, each message once, in Python with confluent_kafka and psycopg.

The id of a message and what it changes are one transaction. Its offset is committed to Kafka
afterwards: if this program ends in between, the message comes again, and the inbox knows it.

usage: consumer.py postgres://USER@HOST/DATABASE BROKER TOPIC [--until-empty]
"""

import json
import sys

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException

NAME = "shipping"  # of the group in Kafka and of the consumer in the inbox


def id_of(message):
    """The id that Wherry wrote; of another producer's message, its place in Kafka."""
    headers = dict(message.headers() or [])
    if "message-id" in headers:
        return headers["message-id"].decode()
    return f"{message.topic()}/{message.partition()}/{message.offset()}"


def handle(db, message):
    """Ship the order. False if the message was handled before."""
    with db.transaction():  # commits; an exception rolls back, and the message is new again
        (new,) = db.execute(
            "SELECT wherry_accept(%s, consumer => %s)", (id_of(message), NAME)
        ).fetchone()
        if new:
            db.execute(
                "INSERT INTO shipments(order_id) VALUES (%s)",
                (json.loads(message.value())["order"],),
            )
    return new


def main():
    url, broker, topic = sys.argv[1:4]
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": NAME,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # an offset is committed after its transaction
            "enable.partition.eof": True,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([topic])
    at_end = set()
    with psycopg.connect(url, autocommit=True) as db:
        while True:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                new = handle(db, message)
                consumer.commit(message, asynchronous=False)
                at_end.discard(message.partition())
                print("shipped" if new else "seen before", flush=True)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
                if "--until-empty" in sys.argv and len(at_end) == len(consumer.assignment()):
                    break
            else:
                raise KafkaException(message.error())
    consumer.close()


main()
