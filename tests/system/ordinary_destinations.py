"""Where ordinary.py has messages delivered, and what must arrive there."""

import json
import os
import subprocess
import sys
import urllib.parse

import tap
from ordinary_places import HELPER, call, open_sqlite


class Destination:
    def serves(self, place):
        return place.layout != "nservicebus"

    def takes(self, place, row):
        return True

    def deliver(self, place, url, folder):
        """The messages that arrived, as texts by their fields; and the log."""
        log = self.relay(place, url, self.target(place, url, folder), self.more(place))
        return self.arrived(place, url, folder), log

    def more(self, place):
        return []

    def relay(self, place, url, to, more):
        source, *rest = place.relay(url)
        done = call([tap.WHERRY, "relay", source, to, *rest, *more, "--until-empty", "--timeout", "60s",
                     "--set", "retry.attempts=1"])  # fmt: skip
        return done.stderr.decode(errors="replace")

    def expect(self, place, row):
        f = row.fields
        out = {"body": row.body, **{name: value for name, value in f.items() if name != "text"}}
        if place.layout == "debezium":
            out["aggregate_type"], out["topic"] = f["topic"], "outbox.event." + f["topic"]
            out["key"] = f["aggregate_id"] or None
        if place.model == "outbox" and place.layout != "debezium":
            out["key"] = f.get("key") or f.get("aggregate_id") or None
        if place.model == "queue":
            out["topic"] = f.get("topic") or place.table
        if place.model == "delayed":
            out["topic"] = "q"
        return out


def header_of(place, headers):
    return headers.get("type" if place.layout == "debezium" else "h")


class File(Destination):
    name = "file"

    def target(self, place, url, folder):
        return f"file:{folder}/out.ndjson"

    def arrived(self, place, url, folder):
        try:
            with open(f"{folder}/out.ndjson", encoding="utf-8", newline="\n") as lines:
                return [self.parse(place, line) for line in lines.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def parse(self, place, line):
        got = json.loads(line)
        begin, end = line.index(',"body":') + len(',"body":'), line.rindex(',"created_at":')
        return {"message_id": got["message_id"], "topic": got["topic"], "key": got["key"],
                "aggregate_type": got.get("aggregate_type", ""), "aggregate_id": got.get("aggregate_id", ""),
                "trace_id": got.get("trace_id", ""), "header": header_of(place, got["headers"]),
                "body": line[begin:end]}  # fmt: skip


class Exec(Destination):
    name = "exec"

    def target(self, place, url, folder):
        return f"exec:{{ env -0; printf BODY=; cat; }} >{folder}/$WHERRY_ID"

    def more(self, place):
        return ["--set", "exec.jobs=4"]

    def arrived(self, place, url, folder):
        out = []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                out.append(self.parse(place, file.read().decode()))
        return out

    def parse(self, place, text):
        *entries, body = text.split("\0")
        env = dict(entry.split("=", 1) for entry in entries)
        fields = {"message_id", "topic", "key", "aggregate_type", "aggregate_id", "trace_id"}
        return {**{f: env["WHERRY_" + f.upper()] for f in fields},
                "header": header_of(place, json.loads(env["WHERRY_HEADERS"])), "body": body.removeprefix("BODY=")}  # fmt: skip

    def expect(self, place, row):
        return {f: v or "" for f, v in super().expect(place, row).items()}


class Webhook(Destination):
    name = "webhook"

    def takes(self, place, row):
        """A topic that would name another folder of the receiver makes a message dead."""
        return place.layout == "debezium" or row.fields.get("topic") not in (".", "..") and (row.fields.get("topic") != "" or place.model == "queue")

    def deliver(self, place, url, folder):
        script = os.path.join(tap.SOURCE, "tests", "webhook", "server.py")
        receiver = subprocess.Popen([sys.executable, script, "--log", f"{folder}/log"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)  # fmt: skip
        port = receiver.stdout.readline().strip()
        log = self.relay(place, url, f"http://127.0.0.1:{port}/{{topic}}", [])
        receiver.stdin.close()
        receiver.wait()
        with open(f"{folder}/log", encoding="utf-8") as lines:
            return [self.parse(place, json.loads(line)) for line in lines], log

    def parse(self, place, entry):
        get = entry["headers"].get
        ident = get("idempotency-key", "")
        return {"topic in the path": urllib.parse.unquote(entry["request"].split(" ")[1][1:]),
                "message_id": None if ident.startswith("sha256-") else urllib.parse.unquote(ident),
                **{f: urllib.parse.unquote(get("wherry-" + f.replace("_", "-"), ""))
                   for f in ("topic", "key", "aggregate_type", "aggregate_id")},
                "header": get("type" if place.layout == "debezium" else "h", ""), "body": entry["body"]}  # fmt: skip

    def expect(self, place, row):
        """The message's own header is a line: no control characters, and no blanks at its ends."""
        wanted = super().expect(place, row)
        out = {f: v or "" for f, v in wanted.items()}
        if "header" in out:
            out["header"] = line_of(out["header"])
        out["body"], out["topic in the path"] = row.body, wanted.get("topic")
        ident = wanted.get("message_id")
        if ident is not None:
            quoted = urllib.parse.quote(ident)
            out["message_id"] = None if not ident or len(quoted) > 255 or ident.startswith("sha256-") else ident
        return out


def line_of(text):
    def is_control(c):
        return ord(c) < 32 or 0x7F <= ord(c) < 0xA0

    out = "".join(" " * len(c.encode()) if is_control(c) else c for c in text)
    return out.encode().decode("latin-1").strip()


class Queue(Destination):
    """Of the same database."""

    name = "queue"

    def takes(self, place, row):
        """The inbox needs an id."""
        return row.fields.get("message_id") != ""

    def target(self, place, url, folder):
        to = f"to_{place.table}"
        call([tap.WHERRY, "create", "--kind", "queue", f"{url}#{to}"], sure=True)
        call([tap.WHERRY, "create", "--kind", "inbox", f"{url}#inbox_{place.table}"], sure=True)
        return f"{url}{'&' if '?' in url else '?'}inbox=inbox_{place.table}#{to}"

    def arrived(self, place, url, folder):
        to, columns = f"to_{place.table}", ("message_id", "topic", "headers", "body")
        if url.startswith("sqlite:"):
            with open_sqlite(url.removeprefix("sqlite:")) as db:
                rows = db.execute(f"SELECT {', '.join(columns)} FROM {to}").fetchall()
        else:
            done = place.world.psql(f"SELECT json_build_array(message_id, topic, headers::text, body::text) FROM {to}",
                                    "queue")  # fmt: skip
            rows = map(json.loads, done.stdout.decode().splitlines())
        return [self.parse(place, *row) for row in rows]

    def parse(self, place, message_id, topic, headers, body):
        headers = json.loads(headers)
        return {"message_id": message_id, "topic": topic, "key": headers.get("key"),
                "trace_id": headers.get("trace-id", ""), "header": header_of(place, headers), "body": body}  # fmt: skip


class Receivers(Destination):
    """Receivers of the library take messages from a queue, and consumers from a delayed queue."""

    name = "receivers"

    def serves(self, place):
        return place.model in ("queue", "delayed")

    def deliver(self, place, url, folder):
        done = call([HELPER, place.model, url, place.table, "take"])
        texts = done.stdout.decode().split("\0")[:-1]
        names = ("message_id", "topic", "correlation_id", "reply_to", "headers", "body", "key")
        got = []
        for i in range(0, len(texts), len(names)):
            one = dict(zip(names, texts[i : i + len(names)]))
            one["header"] = header_of(place, json.loads(one["headers"] or "{}"))
            got.append(one)
        return got, done.stderr.decode(errors="replace")

    def expect(self, place, row):
        out = super().expect(place, row)
        if place.model == "queue":
            out["topic"] = row.fields.get("topic", "")
        else:
            del out["topic"]
        return out


class Consumers(Destination):
    """Consumers of a subscription, in C."""

    name = "consumers"
    names = ("message_id", "topic", "aggregate_type", "aggregate_id", "headers", "body", "key", "trace_id")

    def serves(self, place):
        return place.layout in ("log", "adopted")

    def deliver(self, place, url, folder):
        call([tap.WHERRY, "create", f"{url}#{place.table}/consumers"], sure=True)
        done = self.consume(place, url)
        return self.messages(place, done.stdout), done.stderr.decode(errors="replace")

    def consume(self, place, url):
        return call([HELPER, "subscription", url, place.table, "take"])

    def messages(self, place, out):
        texts = out.split(b"\0")[:-1]
        for i in range(0, len(texts), len(self.names)):
            one = dict(zip(self.names, (text.decode() for text in texts[i : i + len(self.names)])))
            yield {**one, "header": header_of(place, json.loads(one["headers"]))}

    def expect(self, place, row):
        return {**super().expect(place, row), "key": row.fields["key"]}


class ConsumersInSQL(Consumers):
    name = "consumers_in_sql"

    def serves(self, place):
        return super().serves(place) and place.kind == "postgres"

    def consume(self, place, url):
        return place.world.psql(
            "SELECT json_build_object('message_id', message_id, 'topic', topic, 'aggregate_type', aggregate_type, "
            "'aggregate_id', aggregate_id, 'key', coalesce(key, ''), 'trace_id', trace_id, 'headers', headers, 'body', payload) "
            f"FROM wherry_consume('consumers', 100000, '{place.table}')", self.name)  # fmt: skip

    def messages(self, place, out):
        for line in out.decode().splitlines():
            one = json.loads(line)
            yield {**one, "header": header_of(place, one["headers"])}


# A process for each message: it gets those of plain SQL only.
COSTLY = [Exec()]
CHEAP = [File(), Webhook(), Queue(), Receivers(), Consumers(), ConsumersInSQL()]
