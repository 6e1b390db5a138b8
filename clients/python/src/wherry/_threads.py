"""Blocking calls in threads."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from typing import Any, Callable, List, Optional

Job = Optional[Callable[[], None]]


class ThreadEnded(Exception):
    """A call raised SystemExit or another exception that is not for programs to catch."""


class Threads:
    """Threads that wait for calls. They are daemons: a handler that never returns does not keep the
    program from ending."""

    def __init__(self) -> None:
        self._idle: List["queue.SimpleQueue[Job]"] = []
        self._closed = False

    def call(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Call in a thread. If the caller is cancelled, the call goes on and its result is dropped."""
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[Any]" = loop.create_future()
        context = contextvars.copy_context()
        if self._idle:
            jobs = self._idle.pop()
        else:
            jobs = queue.SimpleQueue()
            threading.Thread(target=_work, args=(jobs,), name="wherry", daemon=True).start()

        def ended(result: Any, error: Optional[BaseException]) -> None:
            if self._closed:
                jobs.put(None)
            else:
                self._idle.append(jobs)
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def job() -> None:
            result: Any = None
            error: Optional[BaseException] = None
            try:
                result = context.run(function, *args)
            except StopIteration as why:  # a future refuses it
                error = ThreadEnded(f"StopIteration: {why}")
            except Exception as why:
                error = why
            except BaseException as why:
                error = ThreadEnded(f"{type(why).__name__}: {why}")
            try:
                loop.call_soon_threadsafe(ended, result, error)
            except RuntimeError:  # the loop has ended
                jobs.put(None)

        jobs.put(job)
        return future

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)


def _work(jobs: "queue.SimpleQueue[Job]") -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # or the thread would keep the last message
