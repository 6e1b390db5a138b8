"""The same for asyncio: a Worker of coroutines, and functions that send on asynchronous connections."""

from __future__ import annotations

import threading
from typing import Any, Iterable, List, Mapping, Optional, Union

from ._message import Duration
from ._sending import Body, Outgoing, dialect_of, enqueueing, ids_of, sending, sending_many
from ._statements import POSTGRES, Statement
from ._worker import BaseWorker

__all__ = ["Worker", "enqueue", "send", "send_many"]


class Worker(BaseWorker):
    """Receives messages of queues and calls their handlers, which are coroutines.

    url: `postgres://…` as the driver takes it, or `sqlite:FILE`.
    grace: how long a worker that stops waits for its handlers.
    driver: `psycopg` or `asyncpg`; the default is the first that is installed.
    extension: on SQLite the name or path of Wherry's extension, without `.so`.
    on_event: called with an Event; it must not block.
    """

    _asynchronous = True

    async def run(self, *, signals: bool = True) -> None:
        """Work until SIGTERM, SIGINT or stop(). Then receive no more, wait for handlers for `grace`,
        cancel those that still run, and give their messages back.

        signals: False if your program handles them and calls stop().
        """
        await self._run(signals and threading.current_thread() is threading.main_thread())


async def _value(connection: Any, statement: Statement) -> Any:
    sql, args = statement
    if dialect_of(connection, True) is not POSTGRES:
        return await connection.fetchval(sql, *args)
    import psycopg
    from psycopg.rows import tuple_row

    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(sql.encode(), args)
        row = await cursor.fetchone()
    return None if row is None else row[0]


async def send(
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

    connection: psycopg.AsyncConnection or asyncpg's connection.
    """
    message = Outgoing(body, delay, expires, headers, correlation_id, reply_to, message_id)
    return int(await _value(connection, sending(dialect_of(connection, True), queue, message)))


async def send_many(connection: Any, queue: str, messages: Iterable[Union[Outgoing, Body]]) -> List[int]:
    """Send all messages or none. Returns their ids. A message is a body, or an Outgoing."""
    statement = sending_many(dialect_of(connection, True), queue, messages)
    return [] if statement is None else ids_of(await _value(connection, statement))


async def enqueue(
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
        dialect_of(connection, True), topic, body, key, message_id, headers, aggregate_type, aggregate_id, trace_id, outbox
    )
    value = await _value(connection, statement)
    return None if value is None else int(value)
