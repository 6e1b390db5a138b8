#!/usr/bin/env python3
"""A receiver of webhooks for tests: HTTP or HTTPS, in a process of its own.

It prints its port, then serves until its standard input ends; a line there replaces --answer,
and is answered with "ok".  Each request is a line of JSON in the
log, written before it is answered.  How it answers is in the header x-answer of a message, or
else in --answer:

    200 [NAME=VALUE ...] [body=TEXT]   a status, more headers, a body
    hang                               no answer
    close                              the connection is closed instead
    half                               closed in the middle of the headers
    cut                                200, and closed in the middle of the body
    endless                            200, and a body without end
    slow                               200, after a tenth of a second
    garbage                            something that is not HTTP

With times=N only the first N requests of an Idempotency-Key are answered so, then with 200.
Signatures are verified here, as the specification says and with nothing of Wherry's.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import os
import ssl
import sys


class Server:
    def __init__(self, args):
        self.args = args
        self.log = open(args.log, "a", buffering=1, encoding="utf-8") if args.log else None
        self.connections = 0
        self.flying = self.most = 0
        self.seen = {}

    def signed(self, headers, body):
        """Does one of the signatures fit one of the secrets?"""
        text = headers.get("webhook-id", "") + "." + headers.get("webhook-timestamp", "") + "."
        for secret in self.args.secret:
            key = base64.b64decode(secret.removeprefix("whsec_"))
            mac = hmac.new(key, text.encode("latin-1") + body, hashlib.sha256).digest()
            want = "v1," + base64.b64encode(mac).decode()
            if want in headers.get("webhook-signature", "").split(" "):
                return True
        return False

    def note(self, number, line, headers, body, answer):
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        entry = {
            "connection": number,
            "most": self.most,
            "answer": answer,
            "request": line,
            "headers": headers,
            "length": len(body),
            "body": text if text is None or len(text) <= 10000 else None,
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        if self.args.secret:
            entry["signed"] = self.signed(headers, body)
        if self.log:
            self.log.write(json.dumps(entry) + "\n")

    def answer_for(self, headers):
        words = (headers.get("x-answer") or self.args.answer).split()
        limit = [int(w[6:]) for w in words if w.startswith("times=")]
        words = [w for w in words if not w.startswith("times=")]
        if limit:
            key = headers.get("idempotency-key", "")
            self.seen[key] = self.seen.get(key, 0) + 1
            if self.seen[key] > limit[0]:
                return ["200"]
        return words

    async def answer(self, words, writer):
        """Returns whether the connection goes on."""
        kind, rest = words[0], [w.split("=", 1) for w in words[1:]]
        if kind == "hang":
            await asyncio.sleep(3600)
        if kind == "close":
            return False
        if kind == "slow":
            await asyncio.sleep(0.1)
        if kind == "garbage":
            writer.write(b"\x16\x03\x01 what?\r\n\r\n")
            await writer.drain()
            return False
        if kind == "half":
            writer.write(b"HTTP/1.1 200")
            await writer.drain()
            return False
        if kind in ("cut", "endless"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
            writer.write(b"the beginning")
            while kind == "endless":
                writer.write(b"x" * 65536)
                await writer.drain()
            await writer.drain()
            return False
        status = int(kind) if kind.isdigit() else 200
        body = "".join(value.replace("_", " ") for name, value in rest if name == "body").encode()
        head = [f"HTTP/1.1 {status} Text", f"content-length: {len(body)}"]
        head += [f"{name}: {value.replace('_', ' ')}" for name, value in rest if name != "body"]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        return True

    async def serve(self, reader, writer):
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head[:-4].split("\r\n")
                headers = {}
                for text in rest:
                    name, value = text.split(":", 1)
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.flying += 1
                self.most = max(self.most, self.flying)
                try:
                    words = self.answer_for(headers)
                    if self.args.largest and len(body) > self.args.largest:
                        words = ["413"]
                    self.note(number, line, headers, body, words[0])
                    if not await self.answer(words, writer):
                        break
                finally:
                    self.flying -= 1
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()


def context(args):
    if not args.cert:
        return None
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(args.cert, args.key)
    if args.client_ca:
        # With 1.3 a client learns of it after its first request, or of nothing but an end.
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(args.client_ca)
    return tls


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    parser.add_argument("--answer", default="200")
    parser.add_argument("--secret", action="append", default=[])
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--client-ca")
    parser.add_argument("--largest", type=int, help="bytes of a body; more are a 413")
    args = parser.parse_args()
    state = Server(args)
    server = await asyncio.start_server(
        state.serve, "127.0.0.1", args.port, ssl=context(args), limit=1 << 20, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # It ends with whoever started it: then its standard input does.
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        args.answer = line.strip()
        print("ok", flush=True)
    sys.stdout.flush()
    os._exit(0)  # whatever hangs


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
