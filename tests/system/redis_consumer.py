"""Read streams of Redis with python3-redis to their ends, as a consumer of a group that acknowledges.
Prints each entry as a line of JSON: stream, the fields, and the body, parsed if it is JSON.

    redis_consumer.py redis://HOST:PORT | cluster:HOST:PORT | sentinel:HOST:PORT/MASTER  STREAM...
"""
import json
import sys

import redis
import redis.cluster
import redis.sentinel


def connect(url):
    kind, _, place = url.partition(":")
    if kind == "cluster":
        host, port = place.split(":")
        return redis.cluster.RedisCluster(host=host, port=int(port), decode_responses=True)
    if kind == "sentinel":
        place, master = place.split("/")
        host, port = place.split(":")
        return redis.sentinel.Sentinel([(host, int(port))]).master_for(
            master, decode_responses=True)
    return redis.Redis.from_url(url, decode_responses=True)


def entries(server, stream):
    group = "reader"
    try:
        server.xgroup_create(stream, group, id="0", mkstream=True)
    except redis.ResponseError as e:
        if "BUSYGROUP" not in str(e):
            raise
    while True:
        got = server.xreadgroup(group, "one", {stream: ">"}, count=1000)
        if not got or not got[0][1]:
            return
        for _, fields in got[0][1]:
            yield fields
        server.xack(stream, group, *[entry for entry, _ in got[0][1]])


def main(url, *streams):
    server = connect(url)
    for stream in streams:
        for fields in entries(server, stream):
            try:
                fields["body"] = json.loads(fields["body"])
            except ValueError:
                pass
            print(json.dumps({"stream": stream, **fields}))


main(*sys.argv[1:])
