"""Messages, and the errors by which a handler says what becomes of one."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Dict, Optional, Union

#: Seconds, or a timedelta.
Duration = Union[float, timedelta]


class WherryError(Exception):
    """Base of the errors of this package."""


class Dead(WherryError):
    """Raise it in a handler to make the message dead at once: ``raise Dead("no such order")``."""


class Snooze(WherryError):
    """Raise it in a handler to get the message again after a delay. The attempt is not counted."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"again in {delay}")
        self.delay = seconds(delay, "the delay of Snooze")


class LeaseLost(WherryError):
    """The lease ended or was taken away: another worker may have the message."""


class Stopping(WherryError):
    """The worker stops and its grace period is over. The message is given back."""


class WorkerError(WherryError):
    """A worker cannot begin, or handlers did not end when it stopped."""


@dataclass(eq=False)
class Message:
    """A message of a queue, which this worker has leased."""

    queue: str
    id: int
    message_id: str
    #: The bytes as they were sent; see also `text` and `json`.
    body: bytes
    headers: Dict[str, str]
    #: 1 for the first attempt.
    attempt: int
    #: When the message was sent, in UTC.
    created_at: datetime
    topic: Optional[str] = None
    correlation_id: Optional[str] = None
    reply_to: Optional[str] = None
    _cancelled: Optional[WherryError] = field(default=None, repr=False)
    _flag: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def text(self) -> str:
        """The body, decoded as UTF-8."""
        return self.body.decode()

    def json(self) -> Any:
        """The body, parsed as JSON."""
        return json.loads(self.body)

    @property
    def cancelled(self) -> Optional[WherryError]:
        """Why the handler should end early: LeaseLost or Stopping. None: it should not."""
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        """Raise LeaseLost or Stopping if the handler should end. Long handlers in threads call it."""
        if self._cancelled is not None:
            raise self._cancelled

    def sleep(self, duration: Duration) -> None:
        """Sleep in a thread, and raise LeaseLost or Stopping as soon as the handler should end."""
        self._flag.wait(seconds(duration, "the duration of sleep"))
        self.raise_if_cancelled()

    def _cancel(self, why: WherryError) -> None:
        if self._cancelled is None:
            self._cancelled = why
            self._flag.set()


@dataclass(frozen=True)
class Event:
    """An event that the hook on_event is called with."""

    #: received: a handler begins. done: acknowledged. failed: to be tried again. dead. snoozed.
    #: returned: given back, not counted. lost: the lease was lost. error: the database failed.
    name: str
    #: Empty if the event concerns the worker's connection.
    queue: str
    #: Since the handler began; for received since the message was sent, and for error 0.
    seconds: float
    #: 0 for error.
    attempt: int
    message: Optional[Message] = None
    error: Optional[BaseException] = None


def seconds(duration: Duration, name: str) -> float:
    """A duration in seconds; ValueError if it is negative or not a duration."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise TypeError(f"{name} is {duration!r}, and must be a number of seconds or a timedelta")
    if not 0 <= duration <= 36500 * 86400:
        raise ValueError(f"{name} is {duration} s, and must be between 0 and 36500 days")
    return float(duration)
