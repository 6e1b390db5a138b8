"""asyncpg."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import asyncpg

from .._statements import POSTGRES_NUMBERED
from .._threads import Threads
from .base import Connection, Driver, Rows


class Asyncpg(Connection):
    _transaction: Any = None

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    async def rows(self, sql: str, args: Sequence[Any]) -> Rows:
        return [tuple(row) for row in await self.raw.fetch(sql, *args)]

    async def begin(self) -> None:
        self._transaction = self.raw.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    def in_transaction(self) -> bool:
        return bool(self.raw.is_in_transaction())

    def closed(self) -> bool:
        return bool(self.raw.is_closed())

    async def close(self) -> None:
        await self.raw.close(timeout=2)

    async def watch(self, channel: str, woken: Callable[[], None]) -> None:
        await self.raw.add_listener(channel, lambda *_: woken())
        self.raw.add_termination_listener(lambda _: woken())


class AsyncpgDriver(Driver):
    dialect = POSTGRES_NUMBERED

    def __init__(self, url: str) -> None:
        self._url = url

    async def connect(self) -> Asyncpg:
        return Asyncpg(await asyncpg.connect(self._url))

    async def connect_for_handler(self) -> Asyncpg:
        return await self.connect()


def driver(url: str, asynchronous: bool, threads: Threads) -> Driver:
    return AsyncpgDriver(url)
