"""Connections of the mode transaction: a handler's rows and its acknowledgement commit together."""

from __future__ import annotations

import asyncio
from typing import List, Tuple

from ._drivers import Connection, Driver


class CannotBegin(Exception):
    """There is no connection, so the handler was not called."""


class Transactions:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._idle: List[Connection] = []

    async def begin(self) -> Connection:
        """A connection in a transaction that is for the caller alone."""
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.begin()
                return connection
            except Exception:  # it was lost while it was idle
                await self._close(connection)
        try:
            connection = await self._driver.connect_for_handler()
        except Exception as why:
            raise CannotBegin(str(why)) from why
        try:
            await connection.begin()
        except Exception as why:
            await self._close(connection)
            raise CannotBegin(str(why)) from why
        return connection

    async def acknowledge(self, connection: Connection, queue: str, id: int, token: str) -> bool:
        if not connection.in_transaction():
            raise RuntimeError("the handler ended the transaction, which the worker commits: leave out its commit or rollback")
        statement: Tuple[str, list] = (self._driver.dialect["ack"], [queue, id, token])  # type: ignore[type-arg]
        ((held,),) = await connection.rows(*statement)
        return bool(held)

    async def commit(self, connection: Connection) -> None:
        try:
            await connection.commit()
        except BaseException:
            await self._close(connection)
            raise
        self._idle.append(connection)

    async def end(self, connection: Connection, in_use: bool) -> None:
        """Roll back. in_use: a handler that does not end still uses the connection, so leave it alone."""
        if in_use:
            return
        try:
            if connection.in_transaction():
                await connection.rollback()
            self._idle.append(connection)
        except Exception:
            await self._close(connection)

    async def close(self) -> None:
        while self._idle:
            await self._close(self._idle.pop())

    async def _close(self, connection: Connection) -> None:
        try:
            await asyncio.wait_for(connection.close(), 3)
        except Exception:  # it is lost anyway
            pass
