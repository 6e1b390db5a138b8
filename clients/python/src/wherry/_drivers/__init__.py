"""The drivers. Each opens connections; the worker's core uses them through the class Connection."""

from __future__ import annotations

import importlib
from typing import Any, Optional

from .._message import WorkerError
from .._threads import Threads
from .base import Connection, Driver

__all__ = ["Connection", "Driver", "choose"]

_SYNC = ("psycopg", "psycopg2")
_ASYNC = ("psycopg", "asyncpg")


def choose(url: str, name: Optional[str], asynchronous: bool, extension: str, threads: Threads) -> Driver:
    """The driver for a URL. name: None for the first one that is installed."""
    if url.startswith("sqlite:"):
        from . import sqlite

        if name not in (None, "sqlite3"):
            raise WorkerError(f"driver is {name!r}, and the URL {url} is for 'sqlite3'")
        return sqlite.SqliteDriver(url[len("sqlite:") :], extension, threads)
    names = _ASYNC if asynchronous else _SYNC
    if name is not None and name not in names:
        raise WorkerError(f"driver is {name!r}, and must be one of {', '.join(names)}")
    failed: Any = None
    for candidate in [name] if name else names:
        try:
            importlib.import_module(candidate)
        except ImportError as why:
            failed = failed or why
            continue
        module = importlib.import_module(f"{__name__}.{candidate}_driver")
        return module.driver(url, asynchronous, threads)  # type: ignore[no-any-return]
    raise WorkerError(
        f"no driver for PostgreSQL can be imported ({failed}): pip install 'wherry[psycopg]'"
        + (" or 'wherry[asyncpg]'" if asynchronous else " or psycopg2-binary")
    )
