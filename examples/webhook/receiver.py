"""Receive signed webhooks, each once, in Python with psycopg.

usage: HOOK_SECRET=whsec_… receiver.py postgres://USER@HOST/DATABASE [PORT]
"""

import base64
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

TOLERANCE = 5 * 60  # seconds that a timestamp may differ from this clock
BODY_MAX = 1 << 20  # bytes
DATABASE = sys.argv[1]
KEY = base64.b64decode(os.environ.get("HOOK_SECRET", "").removeprefix("whsec_"))
if not KEY:
    sys.exit("HOOK_SECRET must be whsec_ and base64")


def is_genuine(headers, body):
    """True if a holder of the secret signed this request in the last minutes."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    try:
        if abs(int(time.time()) - int(timestamp)) > TOLERANCE:
            return False
    except ValueError:
        return False
    signed = f"{message_id}.{timestamp}.".encode("latin-1") + body
    mac = hmac.digest(KEY, signed, "sha256")
    expected = b"v1," + base64.b64encode(mac)
    # While a secret is replaced, the sender signs with the old and the new one.
    return any(
        hmac.compare_digest(expected, signature.encode("latin-1"))
        for signature in headers.get("webhook-signature", "").split(" ")
    )


def ship(message_id, order, customer):
    """Do the work and record the id in one transaction. False for a duplicate."""
    with psycopg.connect(DATABASE) as db:  # commits, or rolls back on an exception
        (new,) = db.execute("SELECT wherry_accept(%s)", (message_id,)).fetchone()
        if not new:
            return False
        db.execute(
            "INSERT INTO shipments(order_id, customer) VALUES (%s, %s)",
            (order, customer),
        )
        return True


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keep connections open
    wbufsize = -1  # send headers and text of an answer together
    timeout = 60  # seconds

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if length > BODY_MAX:
            self.discard(length)
            return self.answer(413, "the body is too large")
        body = self.rfile.read(max(length, 0))
        if not is_genuine(self.headers, body):
            return self.answer(401, "the signature or its time is wrong")
        try:
            event = json.loads(body)
            order, customer = int(event["order"]), event["customer"]
            if not isinstance(customer, str):
                raise TypeError("customer is not a string")
        except (ValueError, KeyError, TypeError):
            return self.answer(422, "the body is not an order")
        try:
            new = ship(self.headers["webhook-id"], order, customer)
        except psycopg.Error as error:
            self.log_error("order %s: %s", order, error)
            return self.answer(500, "the database failed, try again")
        self.answer(200, "shipped" if new else "received before")

    def discard(self, length):
        """Read a body to its end, because the sender reads the answer only then."""
        while length > 0 and (part := self.rfile.read(min(length, 65536))):
            length -= len(part)

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


port = int(sys.argv[2]) if len(sys.argv) > 2 else 8080
server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
