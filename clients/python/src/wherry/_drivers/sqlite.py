"""sqlite3, with Wherry's extension."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any, Callable, Optional, Sequence

from .._sending import load
from .._statements import SQLITE
from .._threads import Threads
from .base import Driver, Rows, Threaded

_LOOK_EVERY = 0.02  # seconds, at the number of a file's version


class Sqlite(Threaded):
    # A transaction that reads first and writes later fails if another connection wrote meanwhile.
    _begin = "BEGIN IMMEDIATE"
    _watcher: "Optional[asyncio.Task[None]]" = None

    def __init__(self, raw: sqlite3.Connection, threads: Threads, path: str) -> None:
        super().__init__(raw, threads)
        self._path = path
        self._closed = False

    def call_rows(self, sql: str, args: Sequence[Any]) -> Rows:
        cursor = self.raw.cursor()
        cursor.row_factory = None
        if self.raw.in_transaction or not sql.startswith("SELECT"):
            return list(cursor.execute(sql, args).fetchall())
        self.raw.execute(self._begin)
        try:
            rows = list(cursor.execute(sql, args).fetchall())
            self.raw.execute("COMMIT")
        except BaseException:
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")
            raise
        return rows

    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        self._closed = True
        if self._watcher:
            self._watcher.cancel()
        await super().close()

    async def watch(self, channel: str, woken: Callable[[], None]) -> None:
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(self._look(woken))

    async def _look(self, woken: Callable[[], None]) -> None:
        # A connection of its own sees the commits of all others.
        looker = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        try:
            before = None
            while True:
                try:
                    now = looker.execute("PRAGMA data_version").fetchone()[0]
                except sqlite3.OperationalError:  # somebody writes
                    now = None
                if now is None or now != before:
                    before = now
                    woken()
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            looker.close()


class SqliteDriver(Driver):
    dialect = SQLITE
    one_writer = True

    def __init__(self, path: str, extension: str, threads: Threads) -> None:
        self._path = path
        self._extension = extension
        self._threads = threads

    def _open(self) -> sqlite3.Connection:
        raw = sqlite3.connect(
            f"{_uri(self._path)}?mode=rw", uri=True, isolation_level=None, timeout=10, check_same_thread=False
        )
        load(raw, self._extension)
        return raw

    async def connect(self) -> Sqlite:
        return Sqlite(await self._threads.call(self._open), self._threads, self._path)

    async def connect_for_handler(self) -> Sqlite:
        return await self.connect()


def _uri(path: str) -> str:
    return "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
