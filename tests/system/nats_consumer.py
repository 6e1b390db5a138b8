"""Read a stream of JetStream with nats-py to its end, as a durable consumer that acknowledges.
Prints each message as a line of JSON: id, key and n.

    nats_consumer.py URL STREAM
"""
import asyncio
import json
import sys

import nats


async def main(url, stream):
    connection = await nats.connect(url)
    js = connection.jetstream()
    left = (await js.stream_info(stream)).state.messages
    consumer = await js.pull_subscribe(">", durable="reader", stream=stream)
    while left:
        for message in await consumer.fetch(min(left, 500), timeout=10):
            body = json.loads(message.data)
            print(json.dumps({"id": message.headers["Nats-Msg-Id"],
                              "key": message.headers["key"], "n": body["n"]}))
            await message.ack()
            left -= 1
    await connection.close()


asyncio.run(main(*sys.argv[1:]))
