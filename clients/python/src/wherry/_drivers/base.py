"""What the core needs of a driver."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, List, Optional, Sequence, Tuple

from .._statements import Dialect
from .._threads import Threads

Rows = List[Tuple[Any, ...]]


class Connection:
    """A connection, used by one task at a time. Statements commit at once outside begin() and commit()."""

    #: What a handler of the mode transaction gets.
    raw: Any

    async def rows(self, sql: str, args: Sequence[Any]) -> Rows:
        raise NotImplementedError

    async def begin(self) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def rollback(self) -> None:
        raise NotImplementedError

    def in_transaction(self) -> bool:
        raise NotImplementedError

    def closed(self) -> bool:
        """Whether the connection is lost or closed."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def watch(self, channel: str, woken: Callable[[], None]) -> None:
        """From now on call woken() when a notification arrives, and when the connection is lost."""

    def fileno(self) -> Optional[int]:
        """The socket to watch between statements; None: the driver watches it."""
        return None

    def drain(self) -> bool:
        """Read what arrived at the socket. True: there were notifications."""
        return False


class Driver:
    dialect: Dialect
    #: One transaction writes at a time: SQLite.
    one_writer = False
    #: Whether connections are notified of new messages, after wherry_listen() on PostgreSQL.
    listens = True

    async def connect(self) -> Connection:
        """Open a connection for the worker."""
        raise NotImplementedError

    async def connect_for_handler(self) -> Connection:
        """Open a connection whose `raw` a handler gets."""
        raise NotImplementedError


class Threaded(Connection):
    """A connection of a blocking driver. Subclasses have `call_rows` and `raw`."""

    _begin = "BEGIN"

    def __init__(self, raw: Any, threads: Threads) -> None:
        self.raw = raw
        self._threads = threads

    def call_rows(self, sql: str, args: Sequence[Any]) -> Rows:
        raise NotImplementedError

    async def rows(self, sql: str, args: Sequence[Any]) -> Rows:
        rows: Rows = await self._threads.call(self.call_rows, sql, args)
        return rows

    async def begin(self) -> None:
        await self.rows(self._begin, ())

    async def commit(self) -> None:
        await self.rows("COMMIT", ())

    async def rollback(self) -> None:
        await self.rows("ROLLBACK", ())

    async def close(self) -> None:
        await asyncio.wait([self._threads.call(self.raw.close)], timeout=2)
