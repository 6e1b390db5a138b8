"""psycopg 3. The worker's own connection is asynchronous in both kinds of workers."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from .._statements import POSTGRES
from .._threads import Threads
from .base import Connection, Driver, Rows, Threaded


class _Psycopg:
    """What connections of both kinds share."""

    raw: Any

    def in_transaction(self) -> bool:
        return bool(self.raw.info.transaction_status != TransactionStatus.IDLE)

    def closed(self) -> bool:
        return bool(self.raw.closed)


class AsyncPsycopg(_Psycopg, Connection):
    def __init__(self, raw: "psycopg.AsyncConnection[Any]") -> None:
        self.raw = raw
        self._woken: Any = None
        raw.add_notify_handler(self._notified)

    def _notified(self, _: Any) -> None:
        if self._woken:
            self._woken()

    async def rows(self, sql: str, args: Sequence[Any]) -> Rows:
        async with psycopg.AsyncCursor(self.raw, row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), args or None)
            return await cursor.fetchall() if cursor.description else []

    async def begin(self) -> None:
        await self.rows("BEGIN", ())

    async def commit(self) -> None:
        await self.rows("COMMIT", ())

    async def rollback(self) -> None:
        await self.rows("ROLLBACK", ())

    async def close(self) -> None:
        await self.raw.close()

    async def watch(self, channel: str, woken: Callable[[], None]) -> None:
        self._woken = woken

    def fileno(self) -> int:
        return int(self.raw.fileno())

    def drain(self) -> bool:
        pgconn = self.raw.pgconn
        pgconn.consume_input()
        found = False
        while pgconn.notifies():
            found = True
        return found


class SyncPsycopg(_Psycopg, Threaded):
    def call_rows(self, sql: str, args: Sequence[Any]) -> Rows:
        with psycopg.Cursor(self.raw, row_factory=tuple_row) as cursor:
            cursor.execute(sql.encode(), args or None)
            return cursor.fetchall() if cursor.description else []


class PsycopgDriver(Driver):
    dialect = POSTGRES

    def __init__(self, url: str, asynchronous: bool, threads: Threads) -> None:
        self._url = url
        self._asynchronous = asynchronous
        self._threads = threads

    async def connect(self) -> AsyncPsycopg:
        return AsyncPsycopg(await psycopg.AsyncConnection.connect(self._url, autocommit=True))

    async def connect_for_handler(self) -> Connection:
        if self._asynchronous:
            return await self.connect()
        return SyncPsycopg(await self._threads.call(lambda: psycopg.connect(self._url, autocommit=True)), self._threads)


def driver(url: str, asynchronous: bool, threads: Threads) -> Driver:
    return PsycopgDriver(url, asynchronous, threads)
