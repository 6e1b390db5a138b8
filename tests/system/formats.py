#!/usr/bin/env python3
"""Is a message in its format?  For formats.sh.

    formats.py FORMAT PREFIX    reads one line of JSON: topic, headers, body

Written from the specifications, not from Wherry's code.
"""
import json
import re
import sys
from urllib.parse import unquote

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ATTRIBUTES = {"specversion": "1.0", "id": "m-1", "source": "/shop", "type": "orders", "subject": "9 \u00e4",
              "partitionkey": "7", "traceparent": TRACE, "tracestate": "a=b"}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


def same(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


def attributes(got):
    time = got.pop("time", "")
    if not re.fullmatch(TIME, time):
        sys.exit(f"time: {time!r}")
    same("attributes", got, ATTRIBUTES)


def main(kind, prefix):
    m = json.loads(sys.stdin.readline())
    headers = {name.lower(): value for name, value in m["headers"].items()}
    prefix = prefix.lower()
    own = {n: headers.get(n) for n in ("tenant", "traceparent", "tracestate", "baggage")}
    same("own headers", own, {"tenant": "acme", "traceparent": TRACE, "tracestate": "a=b", "baggage": "c=d"})
    ours = {n.removeprefix(prefix): v for n, v in headers.items() if n.startswith(prefix)}
    if kind == "cloudevents":
        if prefix == "ce-" and m.get("percent"):
            ours = {n: unquote(v) for n, v in ours.items()}
        same("datacontenttype", ours.pop("datacontenttype", "application/json"), "application/json")
        attributes(ours)
        same("content-type", headers["content-type"], "application/json")
        same("body", m["body"], {"n": 1})
    else:
        same("no attributes", ours, {})
    if kind == "cloudevents-structured":
        same("content-type", headers["content-type"].split(";")[0], "application/cloudevents+json")
        event = m["body"]
        same("data", event.pop("data"), {"n": 1})
        same("datacontenttype", event.pop("datacontenttype"), "application/json")
        attributes(event)
    if kind.startswith("debezium"):
        same("topic", m["topic"], "outbox.event.order")
        same("id", headers["id"], "m-1")
    if kind == "debezium":
        same("eventType", headers["eventtype"], "orders")
        same("body", m["body"], '{"n":1}')
    if kind == "debezium-expanded":
        same("body", m["body"], {"payload": {"n": 1}, "eventType": "orders"})
    if kind == "raw":
        same("topic", m["topic"], "orders")
        same("body", m["body"], {"n": 1})


main(*sys.argv[1:])
