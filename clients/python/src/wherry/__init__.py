"""Send messages to Wherry's queues and outboxes in your own transactions, and run workers.

`wherry` has functions and a Worker for threads, `wherry.aio` the same for asyncio. Modules whose names
begin with an underscore may change.
"""

from ._engine import exponential
from ._message import Dead, Duration, Event, LeaseLost, Message, Snooze, Stopping, WherryError, WorkerError
from ._sending import Outgoing, enqueue, load, send, send_many
from ._worker import Worker

__version__ = "0.1.0"
__all__ = [
    "Dead",
    "Duration",
    "Event",
    "LeaseLost",
    "Message",
    "Outgoing",
    "Snooze",
    "Stopping",
    "WherryError",
    "Worker",
    "WorkerError",
    "enqueue",
    "exponential",
    "load",
    "send",
    "send_many",
]
