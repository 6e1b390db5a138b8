#!/usr/bin/env python3
"""A PostgreSQL server that answers one query wrongly.

It stands between a client and a real server, on a socket in FOLDER, and passes on what they
say.  The client's application_name, "KIND.N", says which answer is changed, the N-th of that
connection, and how:

    norows    rows are left out                 twice    each row comes twice
    nocols    rows have no columns              fewer    the last column is missing
    more      there is a column too many        types    all columns are said to be text
    letters   all values are letters            huge     all values are the highest number
    least     all values are the lowest         nulls    all values are NULL
    empty     all values have no bytes          cut      the connection ends in the middle
    error     an error without any field        odd      an error with fields nobody knows
    tag       a completion without a command    strange  a message of an unknown kind
    params    statements have no parameters     silent   nothing but "ready" is said

With "mute.N" nothing is said from the N-th answer on, and the connection stays open.

How many answers a connection had is a line in FOLDER/counts.

usage: answers.py FOLDER SOCKET-OF-THE-SERVER
"""

import asyncio
import struct
import sys

KINDS = ("norows twice nocols fewer more types letters huge least nulls empty cut error odd "
         "tag strange params silent").split()
VALUES = {
    "letters": lambda v: b"abcdefgh",
    "huge": lambda v: b"\x7f" + b"\xff" * (len(v) - 1) if v else v,
    "least": lambda v: b"\x80" + b"\0" * (len(v) - 1) if v else v,
    "nulls": lambda v: None,
    "empty": lambda v: b"",
}


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def error(fields):
    return message(b"E", b"".join(k + v + b"\0" for k, v in fields) + b"\0")


def values_of(body):
    values, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        n = struct.unpack_from("!i", body, at)[0]
        values.append(None if n < 0 else body[at + 4:at + 4 + n])
        at += 4 + max(n, 0)
    return values


def row(values):
    parts = [struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v
             for v in values]
    return message(b"D", struct.pack("!h", len(values)) + b"".join(parts))


def columns_of(body):
    columns, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        end = body.index(b"\0", at) + 1
        columns.append((body[at:end], body[end:end + 18]))
        at = end + 18
    return columns


def description(columns):
    return message(b"T", struct.pack("!h", len(columns)) +
                   b"".join(name + rest for name, rest in columns))


def described(how, body):
    columns = columns_of(body)
    if how == "nocols":
        columns = []
    elif how == "fewer":
        columns = columns[:-1]
    elif how == "more":
        columns = columns + columns[-1:]
    elif how == "types":
        columns = [(n, r[:6] + struct.pack("!i", 25) + r[10:]) for n, r in columns]
    return description(columns)


def told(how, body):
    values = values_of(body)
    if how == "norows":
        return b""
    if how in VALUES:
        values = [None if v is None else VALUES[how](v) for v in values]
    elif how == "nocols":
        values = []
    elif how == "fewer":
        values = values[:-1]
    elif how == "more":
        values = values + values[-1:]
    return row(values) * (2 if how == "twice" else 1)


def changed(how, answer):
    """The messages of one answer, up to "ready"; what the client gets instead."""
    out = []
    for kind, body in answer[:-1]:
        if kind == b"T":
            out.append(described(how, body))
        elif kind == b"D":
            out.append(told(how, body))
        elif kind == b"C" and how == "tag":
            out.append(message(b"C", b"\0"))
        elif kind == b"t" and how == "params":
            out.append(message(b"t", b"\0\0"))
        else:
            out.append(message(kind, body))
    if how == "error":
        out = [error([])]
    elif how == "odd":
        out = [error([(b"?", b"what"), (b"C", b""), (b"M", b"")])]
    elif how == "strange":
        out.append(message(b"?", b"who knows"))
    elif how == "silent":
        out = []
    text = b"".join(out) + message(*answer[-1])
    return text[:len(text) // 2] if how == "cut" else text


async def read_message(reader):
    kind = await reader.readexactly(1)
    n = struct.unpack("!i", await reader.readexactly(4))[0]
    return kind, await reader.readexactly(n - 4)


class Talk:
    def __init__(self, how, nth):
        self.how, self.nth = how, nth
        self.n = -1  # the first "ready" ends the greeting

    async def answers(self, server, client):
        answer = []
        while True:
            answer.append(await read_message(server))
            if answer[-1][0] != b"Z":
                continue
            self.n += 1
            text = b"".join(message(*m) for m in answer)
            if self.n == self.nth and self.how in KINDS:
                text = changed(self.how, answer)
            answer = []
            if self.how == "mute" and self.n >= self.nth:
                continue
            client.write(text)
            await client.drain()
            if self.n == self.nth and self.how == "cut":
                return

    async def asks(self, client, server):
        while data := await client.read(65536):
            server.write(data)
            await server.drain()


async def serve(folder, behind, client, to_client):
    to_server = None
    try:
        while True:
            n = struct.unpack("!i", await client.readexactly(4))[0]
            start = await client.readexactly(n - 4)
            if struct.unpack_from("!i", start)[0] == 196608:
                break
            if struct.unpack_from("!i", start)[0] == 80877102:  # a cancellation
                return
            to_client.write(b"N")  # neither TLS nor GSSAPI
        fields = start[4:].split(b"\0")
        names = dict(zip(fields[::2], fields[1::2]))
        how, _, nth = names.get(b"application_name", b"").decode().partition(".")
        server, to_server = await asyncio.open_unix_connection(behind)
        to_server.write(struct.pack("!i", n) + start)
        talk = Talk(how, int(nth or 0))
        tasks = [asyncio.create_task(talk.answers(server, to_client)),
                 asyncio.create_task(talk.asks(client, to_server))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with open(folder + "/counts", "a", encoding="ascii") as log:
            log.write(f"{how} {talk.n}\n")
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    finally:
        for writer in (to_client, to_server):
            if writer:
                writer.close()


async def main(folder, behind):
    await asyncio.start_unix_server(lambda r, w: serve(folder, behind, r, w),
                                    folder + "/.s.PGSQL.5432")
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
