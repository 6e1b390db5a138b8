"""Send messages in the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
import sys
from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Optional, Union

from ._message import Duration, seconds
from ._statements import POSTGRES, POSTGRES_NUMBERED, SQLITE, Dialect, Statement

#: Bytes and text are sent as they are, everything else as JSON.
Body = Any


@dataclass(frozen=True)
class Outgoing:
    """One of the messages of send_many(), with options of its own."""

    body: Body
    delay: Optional[Duration] = None
    expires: Optional[Duration] = None
    headers: Optional[Mapping[str, str]] = None
    correlation_id: Optional[str] = None
    reply_to: Optional[str] = None
    message_id: Optional[str] = None


def _encode(body: Body) -> Union[str, bytes]:
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, (str, bytes)):
        return body
    return json.dumps(body, ensure_ascii=False)


def _headers(headers: Optional[Mapping[str, str]]) -> Optional[str]:
    return json.dumps(dict(headers), ensure_ascii=False) if headers else None


def _options(m: Outgoing) -> List[Any]:
    return [
        _headers(m.headers),
        None if m.delay is None else seconds(m.delay, "delay"),
        None if m.expires is None else seconds(m.expires, "expires"),
        m.correlation_id,
        m.reply_to,
        m.message_id,
    ]


def sending(dialect: Dialect, queue: str, message: Outgoing) -> Statement:
    return dialect.send(queue, _encode(message.body), _options(message))


def sending_many(dialect: Dialect, queue: str, messages: Iterable[Any]) -> Optional[Statement]:
    """None: there is nothing to send."""
    all_of = [m if isinstance(m, Outgoing) else Outgoing(m) for m in messages]
    if not all_of:
        return None
    return dialect.send_many(queue, [_encode(m.body) for m in all_of], [_options(m) for m in all_of])


def enqueueing(
    dialect: Dialect,
    topic: str,
    body: Body,
    key: Any,
    message_id: Optional[str],
    headers: Optional[Mapping[str, str]],
    aggregate_type: str,
    aggregate_id: str,
    trace_id: Optional[str],
    outbox: str,
) -> Statement:
    return dialect.enqueue(
        topic,
        _encode(body),
        [
            None if key is None else str(key),
            message_id,
            _headers(headers),
            aggregate_type,
            aggregate_id,
            trace_id,
            outbox,
        ],
    )


def ids_of(value: Any) -> List[int]:
    return list(json.loads(value)) if isinstance(value, str) else list(value)


def _is(connection: Any, module: str, name: str) -> bool:
    """Whether it is such a connection; the driver is not imported for it."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(connection, getattr(loaded, name))


def dialect_of(connection: Any, asynchronous: bool) -> Dialect:
    """The dialect of a connection; TypeError if it is not one that the caller can use."""
    if asynchronous:
        if _is(connection, "psycopg", "AsyncConnection"):
            return POSTGRES
        if _is(connection, "asyncpg", "Connection") or _is(connection, "asyncpg.pool", "PoolConnectionProxy"):
            return POSTGRES_NUMBERED
        known = "psycopg.AsyncConnection or asyncpg.Connection; for others use wherry.send()"
    else:
        if _is(connection, "psycopg", "Connection") or _is(connection, "psycopg2.extensions", "connection"):
            return POSTGRES
        if isinstance(connection, sqlite3.Connection):
            return SQLITE
        known = "psycopg.Connection, psycopg2's or sqlite3.Connection; for asynchronous ones use wherry.aio.send()"
    raise TypeError(f"{type(connection).__module__}.{type(connection).__qualname__} is not a connection of {known}")


def _value(connection: Any, statement: Statement) -> Any:
    sql, args = statement
    if _is(connection, "psycopg", "Connection"):
        import psycopg
        from psycopg.rows import tuple_row

        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            row = cursor.execute(sql.encode(), args).fetchone()
    elif isinstance(connection, sqlite3.Connection):
        plain = connection.cursor()
        plain.row_factory = None
        row = plain.execute(sql, args).fetchone()
    else:
        from psycopg2.extensions import cursor as plain_cursor

        with connection.cursor(cursor_factory=plain_cursor) as other:
            other.execute(sql, args)
            row = other.fetchone()
    return None if row is None else row[0]


def send(
    connection: Any,
    queue: str,
    body: Body,
    *,
    delay: Optional[Duration] = None,
    expires: Optional[Duration] = None,
    headers: Optional[Mapping[str, str]] = None,
    correlation_id: Optional[str] = None,
    reply_to: Optional[str] = None,
    message_id: Optional[str] = None,
) -> int:
    """Send a message to a queue in the transaction of your connection. Returns its id.

    connection: psycopg.Connection, psycopg2's connection or sqlite3.Connection.
    """
    message = Outgoing(body, delay, expires, headers, correlation_id, reply_to, message_id)
    return int(_value(connection, sending(dialect_of(connection, False), queue, message)))


def send_many(connection: Any, queue: str, messages: Iterable[Union[Outgoing, Body]]) -> List[int]:
    """Send all messages or none. Returns their ids. A message is a body, or an Outgoing."""
    statement = sending_many(dialect_of(connection, False), queue, messages)
    return [] if statement is None else ids_of(_value(connection, statement))


def enqueue(
    connection: Any,
    topic: str,
    body: Body,
    *,
    key: Union[str, int, None] = None,
    message_id: Optional[str] = None,
    headers: Optional[Mapping[str, str]] = None,
    aggregate_type: str = "",
    aggregate_id: str = "",
    trace_id: Optional[str] = None,
    outbox: str = "outbox",
) -> Optional[int]:
    """Add a message to an outbox in the transaction of your connection. Returns its id.

    A relay delivers it after the commit, those of one key in their order. Returns None if the outbox
    keeps message ids unique and has this one.
    """
    statement = enqueueing(
        dialect_of(connection, False), topic, body, key, message_id, headers, aggregate_type, aggregate_id, trace_id, outbox
    )
    value = _value(connection, statement)
    return None if value is None else int(value)


def load(connection: sqlite3.Connection, extension: str = "wherry") -> None:
    """Load Wherry's extension into a connection of SQLite.

    extension: its name or path without ".so".
    """
    if not hasattr(connection, "enable_load_extension"):
        raise RuntimeError(
            f"sqlite3 of {sys.executable} cannot load extensions; use a Python whose sqlite3 was built with"
            " --enable-loadable-sqlite-extensions, such as Debian's python3"
        )
    connection.enable_load_extension(True)
    try:
        connection.load_extension(extension)
    except sqlite3.OperationalError as why:
        raise RuntimeError(f"cannot load Wherry's extension {extension!r}: {why}; give the path of wherry.so without .so") from why
    finally:
        connection.enable_load_extension(False)


