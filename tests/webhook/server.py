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
    http2 early                        over HTTP/2 the first request is answered, later ones are reset
    slow                               200, after a tenth of a second
    garbage                            something that is not HTTP
    raw NAME                           what HOSTILE has under that name, then the end or, if it
                                       ends in "...", again and again until the client ends, or
                                       if it is "silence", nothing more

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

# What no honest server sends.  With "..." the last part is sent without end; with ". " it is
# sent byte by byte, five in a second.
OK = b"HTTP/1.1 200 OK\r\n"
HOSTILE = {
    "no-end-of-headers": (OK + b"content-le", b""),
    "endless-headers": (OK, b"x-more: " + b"y" * 1000 + b"\r\n..."),
    "endless-header": (OK + b"x-long: ", b"y" * 65536 + b"..."),
    "endless-status": (b"HTTP/1.1 200 ", b"y" * 65536 + b"..."),
    "endless-1xx": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n..."),
    "short-body": (OK + b"content-length: 100\r\n\r\n", b"short"),
    "long-body": (OK + b"content-length: 2\r\n\r\n", b"much more than two bytes"),
    "negative-length": (OK + b"content-length: -5\r\n\r\n", b"x"),
    "overflowing-length": (OK + b"content-length: 99999999999999999999999\r\n\r\n", b"x"),
    "two-lengths": (OK + b"content-length: 1\r\ncontent-length: 9\r\n\r\n", b"x"),
    "length-of-words": (OK + b"content-length: many\r\n\r\n", b"x"),
    "endless-body": (b"HTTP/1.1 500 No\r\n\r\n", b"\x1b[2J" * 10000 + b"..."),
    "bad-chunk": (OK + b"transfer-encoding: chunked\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\nx"),
    "chunk-of-words": (OK + b"transfer-encoding: chunked\r\n\r\n", b"many\r\nx"),
    "large-status": (b"HTTP/1.1 99999999999999999999 No\r\n\r\n", b""),
    "status-0": (b"HTTP/1.1 000 No\r\n\r\n", b""),
    "status-999": (b"HTTP/1.1 999 No\r\ncontent-length: 0\r\n\r\n", b""),
    "other-version": (b"HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    "switch-protocols": (b"HTTP/1.1 101 Switch\r\nupgrade: evil\r\n\r\n", b"\0" * 100),
    "nul-in-headers": (OK + b"x-a: \0\0\r\ncontent-length: 0\r\n\r\n", b""),
    "fold": (OK + b" x: folded\r\n\tmore\r\ncontent-length: 0\r\n\r\n", b""),
    "drip-body": (OK + b"content-length: 1000\r\n\r\n", b"y" * 1000 + b". "),
    "silent-body": (OK + b"content-length: 1000\r\n\r\ny", b"silence"),
    "no-body": (OK + b"content-length: 1000\r\n\r\n", b"silence"),
    "drip": (b"", b"HTTP/1.1 200 OK\r\nx-slow: " + b"y" * 1000 + b". "),
    "escapes": (
        b"HTTP/1.1 500 \x1b[31mNo\r\n\r\n",
        b"\x1b]0;title\x07\x1b[2J\xff\xfe\xc2\x9b1m\xc2\x85\xed\xa0\x80\0 a\r\nevent=x \"q\"" * 50,
    ),
}
for text in (
    "-1", "0", "99999999999999999999", "1e9", "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 99 Foo 2026 99:99:99", "\x1b[2J", "",
):  # fmt: skip
    for status in (429, 500, 503):
        HOSTILE[f"retry-after-{status}-{len(HOSTILE)}"] = (
            f"HTTP/1.1 {status} No\r\nretry-after: {text}\r\ncontent-length: 0\r\n\r\n".encode(),
            b"",
        )
for text in (
    "file:///etc/passwd", "http://169.254.169.254/latest", "gopher://127.0.0.1/", "//", "\x1b[2J",
    "http://127.0.0.1:1/" + "x" * 100000,
):  # fmt: skip
    HOSTILE[f"redirect-{len(HOSTILE)}"] = (
        f"HTTP/1.1 307 Go\r\nlocation: {text}\r\ncontent-length: 0\r\n\r\n".encode(),
        b"",
    )

# Frames of HTTP/2: settings, then what is hostile.
FRAMES = b"\0\0\0\x04\0\0\0\0\0"
HOSTILE_2 = {
    "reset": FRAMES + b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02",
    "go-away": FRAMES + b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b",
    "odd-frame": FRAMES + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff" * 100,
    "odd-headers": FRAMES + b"\0\0\x05\x01\x05\0\0\0\x01\xff\xff\xff\xff\xff",
    "no-settings": b"HTTP/1.1 400 No\r\n\r\n",
    "silence": b"",
}


# A good answer to the first request of a connection, then nothing more.
ONCE_2 = b"\0\0\0\x04\x01\0\0\0\0" + b"\0\0\x01\x01\x05\0\0\0\x01\x88"


def frames_of(data):
    """Where the frames of HTTP/2 begin that a client sent, behind its preface."""
    at = 24
    while at + 9 <= len(data):
        yield at
        at += 9 + int.from_bytes(data[at : at + 3], "big")


class Server:
    def __init__(self, args):
        self.args = args
        self.log = open(args.log, "a", buffering=1, encoding="utf-8") if args.log else None
        self.connections = 0
        self.in_flight = self.most = 0
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
        if words[0] == "http2":  # Over HTTP/1.1.
            return ["200"]
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
        if kind == "raw":
            await self.answer_raw(*HOSTILE[words[1]], writer)
            return False
        status = int(kind) if kind.isdigit() else 200
        body = "".join(value.replace("_", " ") for name, value in rest if name == "body").encode()
        head = [f"HTTP/1.1 {status} Text", f"content-length: {len(body)}"]
        head += [f"{name}: {value.replace('_', ' ')}" for name, value in rest if name != "body"]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        return True

    async def answer_raw(self, begin, rest, writer):
        writer.write(begin)
        await writer.drain()
        if rest == b"silence":
            await asyncio.sleep(3600)
        if rest.endswith(b". "):
            for byte in rest[:-2]:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.2)
        while rest.endswith(b"..."):
            writer.write(rest[:-3])
            await writer.drain()
        writer.write(rest)
        await writer.drain()

    async def greet(self, words, reader, writer):
        """Before any request, or instead of an answer over HTTP/2."""
        if words[0] == "greet":
            writer.write(b"\x16\x03\x03\xff\xff" + b"\x02\0\0\0" * 20000)
        elif words[1] == "once":
            writer.write(FRAMES)
            data = b""
            while b"\x01" not in [data[at + 3 : at + 4] for at in frames_of(data)]:
                data += await reader.read(65536)
            writer.write(ONCE_2)
            await writer.drain()
            while await reader.read(65536):
                pass
            return
        elif words[1] == "early":
            await self.reset_all_but_first(reader, writer)
        else:
            await reader.read(65536)
            writer.write(HOSTILE_2[words[1]])
        await writer.drain()
        if words[-1] == "silence":
            await asyncio.sleep(3600)
        await asyncio.sleep(0.05)

    async def reset_all_but_first(self, reader, writer):
        """As a receiver that answers before it has read the body, of which libcurl 7.88 loses the answers."""
        writer.write(FRAMES + ONCE_2[:9])
        data, done = b"", 0
        while more := await reader.read(65536):
            data += more
            opened = [data[at + 5 : at + 9] for at in frames_of(data) if data[at + 3] == 1]
            for stream in opened[done:]:
                if stream == b"\0\0\0\x01":
                    writer.write(ONCE_2[9:])
                else:
                    writer.write(b"\0\0\x04\x03\0" + stream + b"\0\0\0\0")
            done = len(opened)
            await writer.drain()

    async def serve(self, reader, writer):
        self.connections += 1
        number = self.connections
        try:
            words = self.args.answer.split()
            tls = writer.get_extra_info("ssl_object")
            if words[0] == "greet" or words[0] == "http2" and tls.selected_alpn_protocol() == "h2":
                await self.greet(words, reader, writer)
                return
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head[:-4].split("\r\n")
                headers = {}
                for text in rest:
                    name, value = text.split(":", 1)
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.in_flight += 1
                self.most = max(self.most, self.in_flight)
                try:
                    words = self.answer_for(headers)
                    if self.args.largest and len(body) > self.args.largest:
                        words = ["413"]
                    self.note(number, line, headers, body, words[0])
                    if not await self.answer(words, writer):
                        break
                finally:
                    self.in_flight -= 1
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()


def context(args):
    if not args.cert:
        return None
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(args.cert, args.key)
    if args.http2:
        tls.set_alpn_protocols(["h2", "http/1.1"])
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
    parser.add_argument("--http2", action="store_true", help="says that it speaks HTTP/2")
    parser.add_argument("--hostile", action="store_true", help="print the names of HOSTILE")
    parser.add_argument("--largest", type=int, help="bytes of a body; more are a 413")
    args = parser.parse_args()
    if args.hostile:
        print("\n".join(HOSTILE))
        return
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
