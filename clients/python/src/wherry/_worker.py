"""Worker: calls handlers in threads."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import signal
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, TypeVar, Union

from ._drivers import choose
from ._engine import Engine, Settings, exponential
from ._message import Duration, Event, WorkerError, seconds
from ._threads import Threads

F = TypeVar("F", bound=Callable[..., Any])
Backoff = Callable[[int], Duration]


class BaseWorker:
    """What both workers share: everything except whether handlers are coroutines."""

    _asynchronous: bool

    def __init__(
        self,
        url: str,
        *,
        grace: Duration = 30.0,
        driver: Optional[str] = None,
        extension: str = "wherry",
        on_event: Optional[Callable[[Event], None]] = None,
    ) -> None:
        self._url = url
        self._driver = driver
        self._extension = extension
        self._grace = seconds(grace, "grace")
        self._on_event = on_event
        self._queues: Dict[str, Settings] = {}
        self._middleware: List[Callable[..., Any]] = []
        self._engine: Optional[Engine] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._stopped = False
        self._lock = threading.Lock()

    def handler(
        self,
        queue: str,
        *,
        concurrency: Optional[int] = None,
        lease: Duration = 60.0,
        max_attempts: int = 5,
        backoff: Union[Backoff, None] = None,
        poll: Optional[Duration] = None,
        transaction: bool = False,
    ) -> Callable[[F], F]:
        """Decorate the function that handles the messages of a queue.

        concurrency: how many messages are handled at once; 10, and 1 for transactions on SQLite.
        lease: after this time others receive a message if its worker has crashed; the worker extends
            it while the handler runs.
        max_attempts: after so many attempts a message that fails is dead; 0: never.
        backoff: a function of the attempt, 1 for the first, to the delay before the next one.
        poll: how often to look for messages that nobody notifies of, such as delayed ones; 1 s, and
            0.25 s if the connection gets no notifications.
        transaction: the handler gets a connection in a transaction as its second argument. The worker
            acknowledges the message in it and commits.
        """

        def decorate(function: F) -> F:
            self._add(queue, function, concurrency, lease, max_attempts, backoff, poll, transaction)
            return function

        return decorate

    def use(self, middleware: F) -> F:
        """Call `middleware(message, proceed)` around all handlers. The first one added is outermost."""
        self._middleware.append(middleware)
        return middleware

    def stop(self) -> None:
        """Make run() stop; any thread may call it. A second call does not wait for handlers."""
        with self._lock:
            self._stopped = True
            engine, loop = self._engine, self._loop
        if engine and loop:
            try:
                loop.call_soon_threadsafe(engine.stop)
            except RuntimeError:  # run() has returned
                pass

    def _add(
        self,
        queue: str,
        function: Callable[..., Any],
        concurrency: Optional[int],
        lease: Duration,
        max_attempts: int,
        backoff: Optional[Backoff],
        poll: Optional[Duration],
        transaction: bool,
    ) -> None:
        where = f"queue {queue!r}: "
        one_writer = self._url.startswith("sqlite:") and transaction
        if queue in self._queues:
            raise WorkerError(f"{where}it has a handler already")
        if inspect.iscoroutinefunction(function) != self._asynchronous:
            raise WorkerError(
                where
                + (
                    "the handler must be an `async def`; for functions in threads use wherry.Worker"
                    if self._asynchronous
                    else "the handler is an `async def`: use wherry.aio.Worker"
                )
            )
        if concurrency is None:
            concurrency = 1 if one_writer else 10
        elif concurrency < 1:
            raise ValueError(f"{where}concurrency is {concurrency}, and must be 1 or more")
        elif one_writer and concurrency > 1:
            raise ValueError(f"{where}SQLite runs one transaction at a time: leave out concurrency={concurrency} or transaction")
        if seconds(lease, f"{where}lease") < 0.1:
            raise ValueError(f"{where}lease is {lease}, and must be 0.1 s or more")
        if max_attempts < 0:
            raise ValueError(f"{where}max_attempts is {max_attempts}, and must be 0 or more; 0: any number")
        if poll is not None and seconds(poll, f"{where}poll") <= 0:
            raise ValueError(f"{where}poll is {poll}, and must be more than 0")
        self._queues[queue] = Settings(
            queue=queue,
            call=function,
            concurrency=concurrency,
            lease=seconds(lease, "lease"),
            max_attempts=max_attempts,
            backoff=backoff or exponential,
            poll=None if poll is None else seconds(poll, "poll"),
            transaction=transaction,
        )

    def _wrapped(self, settings: Settings) -> Settings:
        """The settings, with middleware around the handler."""
        call = settings.call
        for middleware in reversed(self._middleware):
            call = _around_async(middleware, call) if self._asynchronous else _around(middleware, call)
        return dataclasses.replace(settings, call=call)

    async def _run(self, signals: bool) -> None:
        if not self._queues:
            raise WorkerError("the worker has no handlers: decorate one with worker.handler(QUEUE)")
        if self._engine is not None:
            raise WorkerError("run() was called before: make a new worker")
        threads = Threads()
        chosen = choose(self._url, self._driver, self._asynchronous, self._extension, threads)
        queues = [self._wrapped(settings) for settings in self._queues.values()]
        loop = asyncio.get_running_loop()
        engine = Engine(chosen, threads, queues, self._grace, self._asynchronous, self._on_event)
        with self._lock:
            self._engine, self._loop = engine, loop
            if self._stopped:
                engine.stop()
        undo = _on_signals(loop, engine.stop) if signals else None
        try:
            await engine.run()
        finally:
            if undo:
                undo()


class Worker(BaseWorker):
    """Receives messages of queues and calls their handlers in threads.

    url: `postgres://…` as libpq takes it, or `sqlite:FILE`.
    grace: how long a worker that stops waits for its handlers.
    driver: `psycopg` or `psycopg2`; the default is the first that is installed.
    extension: on SQLite the name or path of Wherry's extension, without `.so`.
    on_event: called with an Event, in the worker's event loop; it must not block.
    """

    _asynchronous = False

    def run(self) -> None:
        """Work until SIGTERM, SIGINT or stop(). Then receive no more, wait for handlers for `grace`,
        cancel those that still run, and give their messages back.

        In a thread that is not the main one, signals are not looked at.
        """
        signals = threading.current_thread() is threading.main_thread()
        if sys.platform == "win32":
            loop: Any = asyncio.SelectorEventLoop()
            try:
                loop.run_until_complete(self._run(signals))
            finally:
                loop.close()
        else:
            asyncio.run(self._run(signals))


def _around(middleware: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    def handle(message: Any, *args: Any) -> Any:
        return middleware(message, functools.partial(call, message, *args))

    return handle


def _around_async(middleware: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    async def handle(message: Any, *args: Any) -> Any:
        return await middleware(message, functools.partial(call, message, *args))

    return handle


def _on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Callable[[], None]:
    """Call stop() at SIGTERM and SIGINT. Returns what undoes it."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [(number, signal.getsignal(number)) for number in numbers]

    def called(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(stop)

    for number in numbers:
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # on Windows
            signal.signal(number, called)

    def undo() -> None:
        for number, handler in before:
            try:
                loop.remove_signal_handler(number)
            except NotImplementedError:
                pass
            if handler is not None:
                signal.signal(number, handler)

    return undo
