"""The worker's own connection: it receives, acknowledges, extends leases and is notified.

One statement runs at a time. If the connection is lost, the statement waits for the next one and
runs again: all of them can, since a lease token decides whether they have an effect.
"""

from __future__ import annotations

import asyncio
import time
from typing import Callable, Dict, Optional, Set

from ._drivers import Connection, Driver
from ._drivers.base import Rows
from ._statements import Statement

_TIMEOUT = 15.0  # seconds, for a statement or for connecting
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class GaveUp(Exception):
    """The connection was lost, and the caller's time is over."""


class Link:
    def __init__(self, driver: Driver, report: Callable[[str, BaseException], None]) -> None:
        self.driver = driver
        self._report = report
        self._connection: Optional[Connection] = None
        self._lock = asyncio.Lock()
        self._pause = _FIRST_PAUSE
        self._listening: Dict[str, asyncio.Event] = {}
        self._watched: Set[str] = set()

    async def open(self) -> None:
        """Connect, or raise why that fails."""
        self._connection = await asyncio.wait_for(self.driver.connect(), _TIMEOUT)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            self._unwatch(connection)
            await _close(connection)

    async def rows(self, statement: Statement, until: Callable[[], float]) -> Rows:
        """Run a statement. `until` says at what time.monotonic() it is no longer worth trying again."""
        async with self._lock:
            while True:
                connection = self._connection
                try:
                    if connection is None:
                        connection = await self._reconnect()
                    return await self._run(connection, statement)
                except Exception as why:
                    lost = connection is None or connection is not self._connection or connection.closed()
                    if not lost and not (self.driver.one_writer and _busy(why)):
                        raise
                    if lost:
                        await self._drop()
                    if time.monotonic() >= until():
                        raise GaveUp(str(why)) from why
                    self._report(f"the database failed; next attempt in {self._pause:.1f} s", why)
                await self._rest(until)

    async def listen(self, queue: str, woken: asyncio.Event) -> bool:
        """Have `woken` set when there may be messages. False: a message that is sent now may be missed."""
        if not self.driver.listens:
            return False
        async with self._lock:
            connection = self._connection
            if connection is None:
                return False
            try:
                dialect = self.driver.dialect
                listens = True
                if queue not in self._watched:
                    channel = queue
                    if not dialect.sqlite:
                        ((channel,),) = await self._run(connection, (dialect["channel"], [queue]))
                    await connection.watch(channel, self._woken)
                    self._watched.add(queue)
                if not dialect.sqlite:
                    ((listens,),) = await self._run(connection, (dialect["listen"], [queue]))
            except Exception as why:
                self._report("cannot listen", why)
                if connection.closed():
                    await self._drop()
                return False
            if listens:
                self._listening[queue] = woken
                self._watch()
            else:
                self._listening.pop(queue, None)
            return bool(listens)

    async def unlisten(self, queue: str) -> None:
        if self._listening.pop(queue, None) is None or self.driver.dialect.sqlite:
            return
        async with self._lock:
            if self._connection is None:
                return
            try:
                await self._run(self._connection, (self.driver.dialect["unlisten"], [queue]))
            except Exception as why:
                self._report("cannot end the notifications", why)

    def is_listening(self, queue: str) -> bool:
        return queue in self._listening

    async def _run(self, connection: Connection, statement: Statement) -> Rows:
        self._unwatch(connection)
        try:
            return await asyncio.wait_for(connection.rows(*statement), _TIMEOUT)
        except (asyncio.TimeoutError, asyncio.CancelledError) as why:
            # The statement may still run: no other one can follow it.
            self._connection = None
            self._lost()
            asyncio.ensure_future(_close(connection))
            if isinstance(why, asyncio.TimeoutError):
                raise TimeoutError(f"the database did not answer in {_TIMEOUT:.0f} s") from None
            raise
        finally:
            self._watch()

    async def _reconnect(self) -> Connection:
        connection = await asyncio.wait_for(self.driver.connect(), _TIMEOUT)
        self._connection = connection
        self._pause = _FIRST_PAUSE
        return connection

    async def _rest(self, until: Callable[[], float]) -> None:
        # In short steps, since `until` changes when the worker stops.
        end = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        while time.monotonic() < min(end, until()):
            await asyncio.sleep(0.05)

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._lost()
        if connection:
            self._unwatch(connection)
            await _close(connection)

    def _lost(self) -> None:
        listening, self._listening = self._listening, {}
        self._watched.clear()
        for woken in listening.values():
            woken.set()

    def _woken(self) -> None:
        for woken in self._listening.values():
            woken.set()

    # Between statements the loop watches the socket of drivers that do not do so themselves.

    def _watch(self) -> None:
        connection = self._connection
        if connection and self._listening and not connection.closed():
            number = connection.fileno()
            if number is not None:
                asyncio.get_running_loop().add_reader(number, self._readable, connection, number)

    def _unwatch(self, connection: Connection) -> None:
        if not connection.closed():
            number = connection.fileno()
            if number is not None:
                asyncio.get_running_loop().remove_reader(number)

    def _readable(self, connection: Connection, number: int) -> None:
        try:
            if connection.drain():
                self._woken()
            elif connection.closed():
                raise ConnectionError("the server closed the connection")
        except Exception:  # the next statement says why
            asyncio.get_running_loop().remove_reader(number)
            self._woken()


def _busy(why: BaseException) -> bool:
    return any(word in str(why) for word in ("locked", "busy", "another connection is writing"))


async def _close(connection: Connection) -> None:
    try:
        await asyncio.wait_for(connection.close(), 3)
    except Exception:  # it is lost anyway
        pass
