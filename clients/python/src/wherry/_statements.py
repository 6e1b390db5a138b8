"""The statements, for both databases. A `?` is a parameter, in the same order in both.

PostgreSQL gets times and headers as text and casts them, so that every driver passes them alike.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

Statement = Tuple[str, List[Any]]

_POSTGRES: Dict[str, str] = {
    "exists": "SELECT count(*) FROM wherry_receive(?::text, 0)",
    "receive": "SELECT id, message_id, topic, correlation_id, reply_to, headers::text, body, bytes, attempts, token,"
    " (extract(epoch FROM created_at) * 1000)::bigint"
    " FROM wherry_receive(?::text, ?::integer, ?::text::interval, ?::integer, ?::bigint)",
    "ack": "SELECT wherry_ack(?::text, ?::bigint, ?::text)",
    "nack": "SELECT wherry_nack(?::text, ?::bigint, ?::text, ?::text::interval, ?::text, ?::boolean)",
    "dead_letter": "SELECT wherry_dead_letter(?::text, ?::bigint, ?::text, ?::text)",
    "ack_each": "SELECT m.id, wherry_ack(?::text, m.id, m.token) FROM unnest(?::bigint[], ?::text[]) AS m(id, token)",
    "extend_each": "SELECT m.id, wherry_extend(q.name, m.id, m.token, q.lease)"
    " FROM (SELECT ?::text, ?::text::interval) AS q(name, lease), unnest(?::bigint[], ?::text[]) AS m(id, token)",
    "listen": "SELECT wherry_listen(?::text)",
    "unlisten": "SELECT wherry_unlisten(?::text)",
    "channel": "SELECT 'wherry_' || to_regclass(quote_ident(?::text))::oid",
    "send": "SELECT wherry_send(?::text, ?::{body}, ?::text::json, ?::text::interval, ?::text::interval, ?::text, ?::text,"
    " ?::text)",
    "send_many": "SELECT wherry_send_many(?::text, ?::{body}[], ?::text[]::json[], ?::text[]::interval[],"
    " ?::text[]::interval[], ?::text[], ?::text[], ?::text[])",
    "enqueue": "SELECT wherry_enqueue(?::text, ?::{body}, ?::text, ?::text, ?::text::json, ?::text, ?::text, ?::text,"
    " outbox => ?::text)",
}

_SQLITE: Dict[str, str] = {
    "exists": "SELECT wherry_queue_length(?)",
    "receive": "SELECT id, message_id, topic, correlation_id, reply_to, headers, NULL, bytes, attempts, token, created_at"
    " FROM wherry_receive(?, ?, ?, ?)",
    "ack": "SELECT wherry_ack(?, ?, ?)",
    "nack": "SELECT wherry_nack(?, ?, ?, ?, ?, ?)",
    "dead_letter": "SELECT wherry_dead_letter(?, ?, ?, ?)",
    "ack_each": "SELECT i.value, wherry_ack(?, i.value, t.value) FROM json_each(?) AS i JOIN json_each(?) AS t USING (key)",
    "extend_each": "SELECT i.value, wherry_extend(q.name, i.value, t.value, q.lease) FROM (SELECT ? AS name, ? AS lease) AS q,"
    " json_each(?) AS i JOIN json_each(?) AS t USING (key)",
    "send": "SELECT wherry_send(?, ?, ?, ?, ?, ?, ?, ?)",
    "send_many": "SELECT wherry_send_many(?, ?, ?, ?, ?, ?, ?, ?)",
    "enqueue": "SELECT wherry_enqueue(?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
}


def _numbered(sql: str) -> str:
    parts = sql.split("?")
    return "".join(part + f"${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]


class Dialect:
    """The statements of a database as a driver wants them. style: `%s`, `$1` or `?`."""

    def __init__(self, sqlite: bool, style: str) -> None:
        self.sqlite = sqlite
        write: Callable[[str], str] = {
            "%s": lambda sql: sql.replace("?", "%s"),
            "$1": _numbered,
            "?": lambda sql: sql,
        }[style]
        self._sql = {name: write(sql) for name, sql in (_SQLITE if sqlite else _POSTGRES).items()}

    def __getitem__(self, name: str) -> str:
        return self._sql[name]

    def time(self, duration: Optional[float]) -> Any:
        """A duration as a parameter."""
        if duration is None or self.sqlite:
            return duration
        return f"{duration:.6f} s"

    def array(self, elements: Sequence[Any]) -> Any:
        """An array as a parameter; None if all elements are the default."""
        if all(element is None for element in elements):
            return None
        return json.dumps(list(elements)) if self.sqlite else list(elements)

    def receive(self, queue: str, n: int, lease: float, max_attempts: int, after: int) -> Statement:
        args: List[Any] = [queue, n, self.time(lease), max_attempts]
        return self["receive"], args if self.sqlite else args + [after]

    def ack_each(self, queue: str, ids: Sequence[int], tokens: Sequence[str]) -> Statement:
        return self["ack_each"], [queue, self.array(ids), self.array(tokens)]

    def extend_each(self, queue: str, lease: float, ids: Sequence[int], tokens: Sequence[str]) -> Statement:
        return self["extend_each"], [queue, self.time(lease), self.array(ids), self.array(tokens)]

    def nack(self, queue: str, id: int, token: str, delay: float, error: Optional[str], not_counted: bool) -> Statement:
        return self["nack"], [queue, id, token, self.time(delay), error, not_counted]

    def send(self, queue: str, body: Any, options: Sequence[Any]) -> Statement:
        """options: headers, delay, expires, correlation_id, reply_to, message_id."""
        headers, delay, expires, *texts = options
        kind = "bytea" if isinstance(body, bytes) else "text"
        return self["send"].replace("{body}", kind), [
            queue, body, headers, self.time(delay), self.time(expires), *texts
        ]  # fmt: skip

    def send_many(self, queue: str, bodies: Sequence[Any], options: Sequence[Sequence[Any]]) -> Statement:
        """options: a row for each body, as for `send`."""
        binary = any(isinstance(body, bytes) for body in bodies)
        if self.sqlite and binary:
            bodies = [_utf8(n, body) for n, body in enumerate(bodies, 1)]
        elif binary:
            bodies = [body if isinstance(body, bytes) else body.encode() for body in bodies]
        headers, delays, expires, *texts = zip(*options)
        columns = [headers, [self.time(d) for d in delays], [self.time(e) for e in expires], *texts]
        sql = self["send_many"].replace("{body}", "bytea" if binary else "text")
        return sql, [queue, self.array(bodies), *(self.array(column) for column in columns)]

    def enqueue(self, topic: str, body: Any, options: Sequence[Any]) -> Statement:
        """options: key, message_id, headers, aggregate_type, aggregate_id, trace_id, outbox."""
        kind = "bytea" if isinstance(body, bytes) else "text"
        return self["enqueue"].replace("{body}", kind), [topic, body, *options]


def _utf8(n: int, body: Any) -> str:
    try:
        return body.decode() if isinstance(body, bytes) else str(body)
    except UnicodeDecodeError:
        raise ValueError(f"message {n}: the body is not UTF-8, which send_many() cannot send on SQLite; use send()") from None


POSTGRES = Dialect(False, "%s")
POSTGRES_NUMBERED = Dialect(False, "$1")
SQLITE = Dialect(True, "?")
