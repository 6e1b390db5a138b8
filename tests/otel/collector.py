#!/usr/bin/env python3
"""A collector of OpenTelemetry that takes OTLP over HTTP in JSON.

    collector.py FOLDER [--port N]

It writes its port to FOLDER/port, and each request that is well-formed to FOLDER/traces or
FOLDER/metrics, a line each; faults to FOLDER/faults.  The word in FOLDER/answer, if there is
one, is its answer instead: a status, or hang.  If opentelemetry-proto is installed, requests
must also be messages of OTLP.
"""
import argparse
import base64
import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    messages = {"traces": trace_service_pb2.ExportTraceServiceRequest,
                "metrics": metrics_service_pb2.ExportMetricsServiceRequest}
except ImportError:
    messages = None

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--port", type=int, default=0)
options = parser.parse_args()
lock = threading.Lock()


def note(name, text):
    with lock, open(os.path.join(options.folder, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def values(attributes):
    """The attributes as a dict.  Each value has one type, and integers are strings."""
    out = {}
    for item in attributes:
        (kind, value), = item["value"].items()
        assert set(item) == {"key", "value"} and item["key"] not in out, item
        if kind == "intValue":
            assert isinstance(value, str)
            value = int(value)
        else:
            assert kind == {str: "stringValue", bool: "boolValue"}[type(value)], item
        out[item["key"]] = value
    return out


def check_span(span):
    assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16)
    assert re.fullmatch("[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16)
    assert re.fullmatch("([0-9a-f]{16})?", span.get("parentSpanId", ""))
    begin, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
    assert isinstance(begin, str) and int(begin) <= int(end) <= time.time_ns()
    assert span["kind"] == 4 and span["name"]
    values(span["attributes"])


def check_metric(metric):
    (kind, data), = [(key, metric[key]) for key in ("sum", "histogram") if key in metric]
    assert data["aggregationTemporality"] == 2 and (kind == "histogram" or data["isMonotonic"])
    seen = []
    for point in data["dataPoints"]:
        assert int(point["startTimeUnixNano"]) <= int(point["timeUnixNano"]) <= time.time_ns()
        seen.append(json.dumps(values(point["attributes"])))
        if kind == "histogram":
            counts, bounds = point["bucketCounts"], point["explicitBounds"]
            assert len(counts) == len(bounds) + 1 and bounds == sorted(bounds)
            assert sum(map(int, counts)) == int(point["count"]) and point["sum"] >= 0
        else:
            assert isinstance(point["asInt"], str) and int(point["asInt"]) > 0
    assert len(seen) == len(set(seen)), "two points of one series"


def check(kind, request):
    (resources, scopes, items), = [{"traces": ("resourceSpans", "scopeSpans", "spans"),
                                    "metrics": ("resourceMetrics", "scopeMetrics", "metrics")}[kind]]
    for resource in request[resources]:
        assert values(resource["resource"]["attributes"])["service.name"]
        for scope in resource[scopes]:
            assert scope["scope"]["name"] == "wherry"
            for item in scope[items]:
                (check_span if kind == "traces" else check_metric)(item)
    if not messages:
        return
    copy = json.loads(json.dumps(request))
    for resource in copy.get("resourceSpans", []):  # protobuf's own JSON has ids in base64
        for span in resource["scopeSpans"][0]["spans"]:
            for name in {"traceId", "spanId", "parentSpanId"} & set(span):
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    json_format.ParseDict(copy, messages[kind]())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            with open(os.path.join(options.folder, "answer"), encoding="utf-8") as file:
                word = file.read().strip()
        except FileNotFoundError:
            word = ""
        status = 200
        if word == "hang":
            note("hung", self.path)
            time.sleep(3600)
        elif word:
            status = int(word)
            note("refused", self.path)
        else:
            try:
                kind = {"/v1/traces": "traces", "/v1/metrics": "metrics"}[self.path]
                assert self.headers["content-type"] == "application/json"
                request = json.loads(body)
                check(kind, request)
                request["headers"] = dict(self.headers.items())
                note(kind, json.dumps(request))
            except Exception as fault:  # whatever is wrong, the test must see it
                note("faults", f"{fault!r} in {body[:2000]!r}")
                status = 400
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
server.daemon_threads = True
note("with", "opentelemetry-proto" if messages else "its own checks alone")
with open(os.path.join(options.folder, "port.new"), "w", encoding="utf-8") as port_file:
    port_file.write(str(server.server_address[1]))
os.rename(os.path.join(options.folder, "port.new"), os.path.join(options.folder, "port"))
server.serve_forever()
