"""psycopg2."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from psycopg2.extensions import cursor as plain_cursor

from .._statements import POSTGRES
from .._threads import Threads
from .base import Driver, Rows, Threaded


class Psycopg2(Threaded):
    _woken: Any = None

    def call_rows(self, sql: str, args: Sequence[Any]) -> Rows:
        with self.raw.cursor(cursor_factory=plain_cursor) as cursor:
            cursor.execute(sql, args or None)
            return list(cursor.fetchall()) if cursor.description else []

    async def rows(self, sql: str, args: Sequence[Any]) -> Rows:
        rows = await super().rows(sql, args)
        self._take()
        return rows

    def _take(self) -> bool:
        if not self._woken or not self.raw.notifies:
            return False
        self.raw.notifies.clear()
        self._woken()
        return True

    def in_transaction(self) -> bool:
        return bool(self.raw.info.transaction_status != TRANSACTION_STATUS_IDLE)

    def closed(self) -> bool:
        return bool(self.raw.closed)

    async def watch(self, channel: str, woken: Callable[[], None]) -> None:
        self._woken = woken

    def fileno(self) -> int:
        return int(self.raw.fileno())

    def drain(self) -> bool:
        self.raw.poll()
        return self._take()


class Psycopg2Driver(Driver):
    dialect = POSTGRES

    def __init__(self, url: str, threads: Threads) -> None:
        self._url = url
        self._threads = threads

    def _connect(self) -> Any:
        raw = psycopg2.connect(self._url)
        raw.autocommit = True
        return raw

    async def connect(self) -> Psycopg2:
        return Psycopg2(await self._threads.call(self._connect), self._threads)

    async def connect_for_handler(self) -> Psycopg2:
        return await self.connect()


def driver(url: str, asynchronous: bool, threads: Threads) -> Driver:
    return Psycopg2Driver(url, threads)
