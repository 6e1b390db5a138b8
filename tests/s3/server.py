#!/usr/bin/env python3
"""A server of S3's PUT and GET that verifies signatures itself (AWS Signature Version 4).

    server.py FOLDER BUCKET ID SECRET [--port N] [--token TOKEN]

It writes its port to FOLDER/port, objects to FOLDER/objects, and a line of JSON for each
request to FOLDER/log.  The word in FOLDER/answer, if there is one, is its answer to each PUT:
403, 503, hang, or region.
"""
import argparse
import hashlib
import hmac
import json
import os
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("bucket")
parser.add_argument("id")
parser.add_argument("secret")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--token")
options = parser.parse_args()
lock = threading.Lock()


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_of(method, path, query, headers, signed, sum_of_body, when, scope):
    canonical = "\n".join([
        method, urllib.parse.quote(path, safe="/-_.~"), query,
        *[f"{name}:{' '.join(headers[name].split())}" for name in signed],
        "", ";".join(signed), sum_of_body])
    text = "\n".join(["AWS4-HMAC-SHA256", when, "/".join(scope),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + options.secret).encode()
    for part in scope:
        key = sign(key, part)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, kind="", headers=()):
        body = b"" if status == 200 else (
            f"<?xml version='1.0'?><Error><Code>{kind}</Code>"
            f"<Message>this is {kind}</Message></Error>").encode()
        with lock, open(os.path.join(options.folder, "log"), "a", encoding="utf-8") as log:
            log.write(json.dumps({"method": self.command, "path": self.path, "status": status,
                                  "code": kind, "type": self.headers.get("content-type")}) + "\n")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fault(self, body):
        """The error code of a request that is not signed as it must be; None: it is."""
        given = self.headers.get("authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "MissingSecurityHeader"
        parts = dict(part.strip().split("=", 1) for part in given.split(" ", 1)[1].split(","))
        who, *scope = parts["Credential"].split("/")
        signed = parts["SignedHeaders"].split(";")
        headers = {name.lower(): value for name, value in self.headers.items()}
        when = headers.get("x-amz-date", "")
        if who != options.id:
            return "InvalidAccessKeyId"
        if options.token and headers.get("x-amz-security-token") != options.token:
            return "InvalidToken"
        must = {"host"} | {name for name in headers if name.startswith("x-amz-")}
        if not must <= set(signed) or scope[0] != when[:8] or scope[2:] != ["s3", "aws4_request"]:
            return "SignatureDoesNotMatch"
        sum_of_body = headers.get("x-amz-content-sha256", "")
        if hashlib.sha256(body).hexdigest() != sum_of_body:
            return "XAmzContentSHA256Mismatch"
        url = urllib.parse.urlsplit(self.path)
        want = signature_of(self.command, urllib.parse.unquote(url.path), url.query, headers,
                            signed, sum_of_body, when, scope)
        return None if hmac.compare_digest(want, parts["Signature"]) else "SignatureDoesNotMatch"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            with open(os.path.join(options.folder, "answer"), encoding="utf-8") as file:
                word = file.read().strip()
        except FileNotFoundError:
            word = ""
        fault = self.fault(body)
        _, bucket, name = urllib.parse.unquote(self.path).split("/", 2)
        if word == "hang":
            time.sleep(3600)
        elif word == "region":
            self.answer(301, "PermanentRedirect", [("x-amz-bucket-region", "eu-central-1")])
        elif word:
            self.answer(int(word), "AccessDenied" if word == "403" else "SlowDown")
        elif fault:
            self.answer(400 if fault == "XAmzContentSHA256Mismatch" else 403, fault)
        elif bucket != options.bucket:
            self.answer(404, "NoSuchBucket")
        else:
            path = os.path.join(options.folder, "objects", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(body)
            self.answer(200)


os.makedirs(os.path.join(options.folder, "objects"), exist_ok=True)
server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
server.daemon_threads = True
with open(os.path.join(options.folder, "port.new"), "w", encoding="utf-8") as port_file:
    port_file.write(str(server.server_address[1]))
os.rename(os.path.join(options.folder, "port.new"), os.path.join(options.folder, "port"))
server.serve_forever()
