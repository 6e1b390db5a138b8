"""The core of both workers. It runs in an event loop; handlers are coroutines, or functions in threads.

A message goes through: received, a handler runs, then one of acknowledged, given back, dead or lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Deque, List, Optional, Set, Tuple

from ._drivers import Driver
from ._link import GaveUp, Link
from ._message import Dead, Event, LeaseLost, Message, Snooze, Stopping, WherryError, WorkerError, seconds
from ._threads import Threads
from ._transactions import CannotBegin, Transactions

log = logging.getLogger("wherry")

POLL_WOKEN = 1.0  # seconds between looks for messages that nobody notifies of
POLL_ALONE = 0.25
_LOOK_AGAIN = 10  # each so many receives look at all messages
_LAST_WORDS = 5.0  # seconds for handlers that were cancelled, and for giving messages back
_ERROR_MAX = 2000  # characters


def exponential(attempt: int) -> float:
    """The default backoff: 1 s, doubled with each attempt up to an hour, and up to a quarter more."""
    delay = min(2.0 ** min(attempt - 1, 12), 3600.0)
    return delay + random.uniform(0, delay / 4)


@dataclass
class Settings:
    """How the messages of a queue are handled. Times are seconds."""

    queue: str
    call: Callable[..., Any]
    concurrency: int
    lease: float
    max_attempts: int
    backoff: Callable[[int], Any]
    poll: Optional[float]
    transaction: bool


class Run:
    """A message that a handler has."""

    def __init__(self, message: Message, token: str, deadline: float) -> None:
        self.message = message
        self.token = token
        self.deadline = deadline  # of the lease, by time.monotonic()
        self.began = time.monotonic()
        self.settling = False  # the lease is not extended any more
        self.task: "Optional[asyncio.Task[None]]" = None
        self.handler: "Optional[asyncio.Future[Any]]" = None  # of a coroutine
        self.abandoned = False

    def cancel(self, why: WherryError) -> None:
        self.message._cancel(why)
        if self.handler is not None and not self.settling:
            self.handler.cancel()


class Engine:
    def __init__(
        self, driver: Driver, threads: Threads, queues: List[Settings], grace: float, asynchronous: bool, on_event: Any
    ) -> None:
        self.driver = driver
        self.threads = threads
        self.grace = grace
        self.asynchronous = asynchronous
        self.on_event = on_event
        self.stopping = asyncio.Event()
        self.give_up_at = float("inf")  # by time.monotonic(), for what goes on after the stop
        self._hurry = asyncio.Event()
        self.link = Link(driver, self.report)
        self.queues = [Queue(self, settings) for settings in queues]

    def stop(self) -> None:
        """Begin to stop; called again, do not wait for handlers."""
        if self.stopping.is_set():
            self._hurry.set()
        self.stopping.set()
        for queue in self.queues:
            queue.changed.set()

    async def run(self) -> None:
        try:
            await self.link.open()
            for queue in self.queues:
                await queue.must_exist()
            loops = [asyncio.ensure_future(queue.receive_all()) for queue in self.queues]
            beats = [asyncio.ensure_future(queue.heartbeat()) for queue in self.queues]
            stopped = asyncio.ensure_future(self.stopping.wait())
            try:
                await asyncio.wait([*loops, *beats, stopped], return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not self.stopping.is_set():
                    self.stop()
                await asyncio.wait(loops)
                await self._finish()
                for task in [*beats, stopped]:
                    task.cancel()
                ended = await asyncio.gather(*loops, *beats, return_exceptions=True)
            for why in ended:
                if isinstance(why, Exception):
                    raise why
        finally:
            for queue in self.queues:
                await queue.transactions.close()
            await self.link.close()
            self.threads.close()

    async def _finish(self) -> None:
        """Wait for the handlers that still run."""
        if await self._wait(self.grace, self._hurry):
            return
        self.give_up_at = time.monotonic() + _LAST_WORDS
        for queue in self.queues:
            for run in list(queue.running):
                run.cancel(Stopping("the worker stops"))
        if await self._wait(_LAST_WORDS, None):
            return
        stuck = [(queue.name, await queue.abandon()) for queue in self.queues]
        log.warning(
            "handlers did not end when they were cancelled; their messages were given back: %s",
            ", ".join(f"{n} of queue {name!r}" for name, n in stuck if n),
        )

    async def _wait(self, most: float, hurry: Optional[asyncio.Event]) -> bool:
        tasks = [run.task for queue in self.queues for run in queue.running if run.task]
        if not tasks:
            return True
        everything = asyncio.ensure_future(asyncio.wait(tasks))
        waiter = [asyncio.ensure_future(hurry.wait())] if hurry else []
        done, _ = await asyncio.wait([everything, *waiter], timeout=most, return_when=asyncio.FIRST_COMPLETED)
        for task in [everything, *waiter]:
            task.cancel()
        return everything in done

    def report(self, what: str, why: BaseException, queue: str = "") -> None:
        log.warning("%s%s: %s", f"queue {queue!r}: " if queue else "", what, _first_line(why))
        self.event(Event("error", queue, 0.0, 0, None, why))

    def event(self, event: Event) -> None:
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception:
            log.exception("on_event failed at %s of queue %r", event.name, event.queue)


class Queue:
    """Receives the messages of a queue and settles them."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.name = settings.queue
        self.link = engine.link
        self.dialect = engine.driver.dialect
        self.running: Set[Run] = set()
        self.changed = asyncio.Event()  # a handler ended, or the worker stops
        self.woken = asyncio.Event()  # there may be messages
        self.transactions = Transactions(engine.driver)
        self._notified = False  # since the worker last called wherry_listen()
        self._done: Deque[Tuple[Run, "asyncio.Future[bool]"]] = deque()
        self._acknowledging: "Optional[asyncio.Task[None]]" = None

    # ---- receive ----

    async def must_exist(self) -> None:
        try:
            await self.link.rows((self.dialect["exists"], [self.name]), lambda: 0.0)
        except Exception as why:
            advice = f"; create it: wherry create --kind queue 'URL#{self.name}'" if _is_missing(why) else ""
            raise WorkerError(f"cannot receive from queue {self.name!r}: {_first_line(why)}{advice}") from why

    async def receive_all(self) -> None:
        stopping = self.engine.stopping
        after = receives = busy = 0
        pause = 0.1
        while not stopping.is_set():
            free = self.settings.concurrency - len(self.running)
            if free <= 0:
                self.changed.clear()
                if len(self.running) >= self.settings.concurrency and not stopping.is_set():
                    await self.changed.wait()
                continue
            receives += 1
            if receives % _LOOK_AGAIN == 0:
                after = 0  # messages that were given back have lower ids
            self.woken.clear()
            began = after
            try:
                runs = await self._receive(free, after, lambda: 0.0 if stopping.is_set() else float("inf"))
                pause = 0.1
            except Exception as why:
                if isinstance(why, GaveUp):
                    continue
                self.engine.report(f"cannot receive, next attempt in {pause:.1f} s", why, self.name)
                await self._sleep(pause)
                pause = min(pause * 2, 5.0)
                continue
            after = runs[-1].message.id if runs else 0
            if stopping.is_set():
                await asyncio.gather(*(self._give_back(run) for run in runs))
                break
            for run in runs:
                self._begin(run)
            if runs:
                busy += 1
                if busy > 1 and self.link.is_listening(self.name):
                    await self.link.unlisten(self.name)
                continue
            busy = 0
            if began:
                continue
            await self._idle()

    async def _idle(self) -> None:
        """Wait until there may be messages."""
        # A worker for which senders notified all others may have stopped: then this one takes its place.
        listened = self.link.is_listening(self.name) and (self.dialect.sqlite or not self._notified)
        self._notified = False
        listens = await self.link.listen(self.name, self.woken)
        if listens and not listened:
            return  # receive once more: nobody notifies of a message that was sent before
        poll = self.settings.poll
        await self._sleep((POLL_WOKEN if listens else POLL_ALONE) if poll is None else poll, self.woken)
        self._notified = self.woken.is_set()

    async def _sleep(self, most: float, *events: asyncio.Event) -> None:
        """Sleep until one of the events, or until the worker stops."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.engine.stopping, *events)]
        await asyncio.wait(waiting, timeout=most, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    async def _receive(self, n: int, after: int, until: Callable[[], float]) -> List[Run]:
        s = self.settings
        asked = time.monotonic()
        rows = await self.link.rows(self.dialect.receive(self.name, n, s.lease, s.max_attempts, after), until)
        # Leases begin after the statement was sent; it may have been sent again meanwhile.
        return [Run(_message(self.name, row), row[9], asked + s.lease) for row in rows]

    # ---- handle ----

    def _begin(self, run: Run) -> None:
        self.running.add(run)
        run.task = asyncio.ensure_future(self._handle(run))

    async def _handle(self, run: Run) -> None:
        waited = (datetime.now(timezone.utc) - run.message.created_at).total_seconds()
        self._event("received", run, max(0.0, waited))
        try:
            try:
                if self.settings.transaction:
                    await self._in_transaction(run)
                else:
                    await self._call(run)
                    run.settling = True
                    if not await self._acknowledge(run):
                        raise LeaseLost("another worker may have the message")
                self._event("done", run)
            except Exception as why:
                await self._failed(run, why)
        except Exception as why:
            self.engine.report(f"cannot settle message {run.message.id}, its lease will end", why, self.name)
        finally:
            self.running.discard(run)
            self.changed.set()

    async def _call(self, run: Run, *args: Any) -> None:
        message, call = run.message, self.settings.call
        try:
            if self.engine.asynchronous:
                run.handler = handler = asyncio.ensure_future(call(message, *args))
                if message.cancelled:
                    handler.cancel()
                await handler
            else:
                await self.engine.threads.call(call, message, *args)
        except asyncio.CancelledError:
            if run.abandoned:
                raise
            raise message.cancelled or RuntimeError("the handler was cancelled by itself") from None
        except Exception:
            if message.cancelled:
                raise message.cancelled from None
            raise
        if isinstance(message.cancelled, LeaseLost):
            raise message.cancelled

    async def _in_transaction(self, run: Run) -> None:
        connection = await self.transactions.begin()
        try:
            await self._call(run, connection.raw)
            run.settling = True
            held = await self.transactions.acknowledge(connection, self.name, run.message.id, run.token)
        except BaseException:
            await self.transactions.end(connection, run.abandoned)
            raise
        if not held:
            await self.transactions.end(connection, False)
            raise LeaseLost("another worker may have the message")
        await self.transactions.commit(connection)

    async def _acknowledge(self, run: Run) -> bool:
        """Acknowledge with one statement all messages that wait for it."""
        future: "asyncio.Future[bool]" = asyncio.get_running_loop().create_future()
        self._done.append((run, future))
        if self._acknowledging is None or self._acknowledging.done():
            self._acknowledging = asyncio.ensure_future(self._acknowledge_all())
        return await future

    async def _acknowledge_all(self) -> None:
        while self._done:
            batch = list(self._done)
            self._done.clear()
            until = min(run.deadline for run, _ in batch)
            try:
                rows = await self.link.rows(
                    self.dialect.ack_each(self.name, [run.message.id for run, _ in batch], [run.token for run, _ in batch]),
                    lambda: min(until, self.engine.give_up_at),
                )
                held = {id for id, held in rows if held}
                for run, future in batch:
                    if not future.done():
                        future.set_result(run.message.id in held)
            except BaseException as why:
                error = why if isinstance(why, Exception) else GaveUp("the worker ended")
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)

    async def _failed(self, run: Run, why: Exception) -> None:
        """Settle a message whose handler did not return, or could not be acknowledged."""
        run.settling = True
        message, s = run.message, self.settings
        text = _error_text(why)
        if isinstance(why, GaveUp):
            self.engine.report(f"message {message.id} could not be acknowledged, its lease will end", why, self.name)
            return
        if isinstance(why, LeaseLost):
            log.warning("queue %r: the lease of message %d was lost: %s", self.name, message.id, why)
            self._event("lost", run, error=why)
            return
        if isinstance(why, Stopping):
            name, held = "returned", await self._give_back(run)
        elif isinstance(why, CannotBegin):
            self.engine.report(f"message {message.id} is given back, no transaction could begin", why, self.name)
            name, held = "returned", await self._nack(run, 1.0, text, True)
        elif isinstance(why, Snooze):
            name, held = "snoozed", await self._nack(run, why.delay, None, True)
        elif isinstance(why, Dead):
            rows = await self._settle((self.dialect["dead_letter"], [self.name, message.id, run.token, str(why) or "dead"]), run)
            name, held = "dead", rows
        else:
            last = 0 < s.max_attempts <= message.attempt
            log.warning(
                "queue %r: message %d failed in attempt %d%s", self.name, message.id, message.attempt,
                " and is dead" if last else "", exc_info=why,
            )  # fmt: skip
            name, held = "dead" if last else "failed", await self._nack(run, self._delay(message.attempt), text, False)
        self._event(name if held else "lost", run, error=why)

    def _delay(self, attempt: int) -> float:
        try:
            return seconds(self.settings.backoff(attempt), "the result of backoff")
        except Exception:
            log.exception("queue %r: backoff(%d) failed", self.name, attempt)
            return exponential(attempt)

    async def _nack(self, run: Run, delay: float, error: Optional[str], not_counted: bool) -> bool:
        return await self._settle(self.dialect.nack(self.name, run.message.id, run.token, delay, error, not_counted), run)

    async def _give_back(self, run: Run) -> bool:
        return await self._nack(run, 0.0, None, True)

    async def _settle(self, statement: Any, run: Run) -> bool:
        ((held,),) = await self.link.rows(statement, lambda: min(run.deadline, self.engine.give_up_at))
        return bool(held)

    # ---- leases ----

    async def heartbeat(self) -> None:
        every = self.settings.lease / 3
        while True:
            await asyncio.sleep(every)
            runs = [run for run in self.running if not run.settling]
            if not runs:
                continue
            first = min(run.deadline for run in runs)
            asked = time.monotonic()
            held: Set[int] = set()
            try:
                statement = self.dialect.extend_each(
                    self.name, self.settings.lease, [run.message.id for run in runs], [run.token for run in runs]
                )
                rows = await asyncio.wait_for(self.link.rows(statement, lambda: first), max(0.1, first - asked))
                held = {id for id, held in rows if held}
                for run in runs:
                    if run.message.id in held:
                        run.deadline = asked + self.settings.lease
                    elif not run.settling:
                        run.cancel(LeaseLost("the lease of the message was lost"))
            except Exception as why:
                self.engine.report("cannot extend the leases", why, self.name)
            now = time.monotonic()
            for run in runs:
                if run.deadline <= now and not run.settling:
                    run.cancel(LeaseLost("the lease ended before it could be extended"))

    async def abandon(self) -> int:
        """Give back the messages of handlers that do not end."""
        runs = list(self.running)
        for run in runs:
            run.abandoned = True
            if run.task:
                run.task.cancel()
        if runs:
            self.engine.give_up_at = time.monotonic() + _LAST_WORDS
            await asyncio.gather(*(self._give_back(run) for run in runs), return_exceptions=True)
        return len(runs)

    def _event(self, name: str, run: Run, waited: Optional[float] = None, error: Optional[BaseException] = None) -> None:
        spent = time.monotonic() - run.began if waited is None else waited
        self.engine.event(Event(name, self.name, spent, run.message.attempt, run.message, error))


def _message(queue: str, row: Tuple[Any, ...]) -> Message:
    import json

    id, message_id, topic, correlation_id, reply_to, headers, body, raw, attempts, _, created = row
    return Message(
        queue=queue,
        id=id,
        message_id=message_id,
        body=body.encode() if body is not None else bytes(raw if raw is not None else b""),
        headers=json.loads(headers) if headers else {},
        attempt=attempts,
        created_at=datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=created),
        topic=topic,
        correlation_id=correlation_id,
        reply_to=reply_to,
    )


def _error_text(why: BaseException) -> str:
    text = f"{type(why).__name__}: {why}" if str(why) else type(why).__name__
    return text[:_ERROR_MAX].replace("\0", "").encode("utf-8", "replace").decode()


def _first_line(why: BaseException) -> str:
    return (str(why).strip() or type(why).__name__).splitlines()[0]


def _is_missing(why: BaseException) -> bool:
    return any(word in str(why) for word in ("does not exist", "no such", "there is no"))
