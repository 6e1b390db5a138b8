"""An ordinary day of the package for Python, on every driver. Prints TAP."""

import asyncio
import json
import time
from datetime import timedelta

from client_python_shared import Place, check, command, finish, places, until

import wherry
import wherry.aio


def sends(place):
    """Messages belong to the caller's transaction."""
    place.queue("sent")
    db = place.admin
    options = dict(
        delay=0, expires=timedelta(hours=1), headers={"a": "é\"\\"}, correlation_id="c", reply_to="r", message_id="m-1"
    )
    db.execute("BEGIN")
    wherry.send(db, "sent", {"job": 1, "name": "Zoë \"Zed\" O'Hara \\ 漢字"}, **options)
    wherry.send(db, "sent", '{"job": 2}')
    wherry.send_many(db, "sent", [{"job": 3}, wherry.Outgoing('{"job": 4}', headers={"b": "2"}, delay=0.001)])
    wherry.enqueue(db, "orders", {"order": 7}, key=7, headers={"h": "1"}, message_id="m-2")
    db.execute("COMMIT")
    db.execute("BEGIN")
    wherry.send(db, "sent", {"job": 5})
    wherry.enqueue(db, "orders", {"order": 8}, key=8)
    db.execute("ROLLBACK")
    check(f"{place.name}: what was committed is sent, and nothing else", place.value("SELECT count(*) FROM sent") == 4)
    check(
        f"{place.name}: an outbox has what was committed",
        place.sql("SELECT topic, partition_key, message_id FROM outbox") == [("orders", "7", "m-2")],
    )
    check(f"{place.name}: sending nothing is no error", wherry.send_many(db, "sent", []) == [])
    got = {}
    worker = place.worker()
    worker.handler("sent")(place.handler(lambda message: got.update({message.json()["job"]: message})))
    with place.running(worker):
        until(lambda: len(got) == 4 and place.value("SELECT count(*) FROM sent") == 0)
    first = got[1]
    check(
        f"{place.name}: a message arrives as it was sent",
        first.json()["name"] == "Zoë \"Zed\" O'Hara \\ 漢字"
        and (first.headers, first.correlation_id, first.reply_to, first.message_id, first.attempt, first.queue)
        == ({"a": "é\"\\"}, "c", "r", "m-1", 1, "sent")
        and abs(time.time() - first.created_at.timestamp()) < 600
        and got[4].headers == {"b": "2"} and got[2].body == b'{"job": 2}' and got[2].text == '{"job": 2}',
        repr(got),
    )


async def asends(place):
    """The same through wherry.aio, where the driver has connections for it."""
    place.queue("asent")
    if place.driver == "asyncpg":
        import asyncpg

        db = await asyncpg.connect(place.url)
        transaction = db.transaction
    else:
        import psycopg

        db = await psycopg.AsyncConnection.connect(place.url, autocommit=True)
        transaction = db.transaction
    async with transaction():
        await wherry.aio.send(db, "asent", {"job": 1}, delay=5, headers={"a": "1"})
        await wherry.aio.send_many(db, "asent", [{"job": 2}, wherry.Outgoing(b'{"job": 3}', message_id="x")])
        await wherry.aio.enqueue(db, "orders", {"order": 9}, key="9")
    try:
        async with transaction():
            await wherry.aio.send(db, "asent", {"job": 4})
            raise KeyError
    except KeyError:
        pass
    await db.close()
    check(
        f"{place.name}: wherry.aio sends in the caller's transaction",
        place.sql("SELECT body::text, state FROM asent ORDER BY id")
        == [('{"job": 1}', 3), ('{"job": 2}', 0), ('{"job": 3}', 0)],
    )
    place.sql("DELETE FROM asent")


def handles(place):
    """Messages are handled, tried again, dead or snoozed, and the hook hears of it."""
    place.queue("jobs")
    attempts, events, around = {}, [], []

    def handle(message):
        job = message.json()["job"]
        attempts.setdefault(job, []).append(message.attempt)
        if job == "fails twice" and len(attempts[job]) < 3:
            raise ValueError("twice \0")
        if job == "fails":
            raise ValueError("always")
        if job == "dead":
            raise wherry.Dead("no such order")
        if job == "snoozed" and len(attempts[job]) < 3:
            raise wherry.Snooze(0.01)

    def logged(message, proceed):
        around.append(message.id)
        return proceed()

    worker = place.worker(on_event=events.append)
    worker.handler("jobs", max_attempts=3, backoff=lambda attempt: 0.01 * attempt, poll=0.1)(place.handler(handle))
    if place.kind == "threads":
        worker.use(logged)
    else:

        async def alogged(message, proceed):
            around.append(message.id)
            return await proceed()

        worker.use(alogged)
    with place.running(worker):
        place.send("jobs", *({"job": n} for n in range(100)))
        names = ["fails twice", "fails", "dead", "snoozed"]
        place.send("jobs", *({"job": name} for name in names))
        until(lambda: place.value("SELECT count(*) FROM jobs WHERE state <> 4") == 0)
    check(f"{place.name}: each message is handled once", all(attempts.get(n) == [1] for n in range(100)), attempts)
    check(f"{place.name}: one that fails is tried again", attempts["fails twice"] == [1, 2, 3], attempts)
    check(f"{place.name}: after its last attempt it is dead", attempts["fails"] == [1, 2, 3], attempts)
    check(f"{place.name}: a snoozed attempt is not counted", attempts["snoozed"] == [1, 1, 1], attempts)
    check(
        f"{place.name}: the dead ones say why",
        place.sql("SELECT last_error FROM jobs ORDER BY id") == [("ValueError: always",), ("no such order",)],
        place.sql("SELECT * FROM jobs"),
    )
    said = [event.name for event in events if event.name != "error"]
    told = {name: said.count(name) for name in set(said)}
    check(
        f"{place.name}: events say what happened",
        told == {"received": 110, "done": 102, "failed": 4, "dead": 2, "snoozed": 2},
        told,
    )
    check(f"{place.name}: middleware is called around each attempt", len(around) == 110, len(around))


def transacts(place):
    """What a handler writes and its acknowledgement are one transaction."""
    place.queue("writes")
    place.sql("DELETE FROM effects")
    seen = []

    def after(message):
        seen.append(message.attempt)
        if message.json()["job"] % 5 == 0 and message.attempt == 1:
            raise ValueError("after it wrote")

    worker = place.worker()
    worker.handler("writes", transaction=True, backoff=lambda _: 0.01, poll=0.1)(place.writer(after=after))
    with place.running(worker):
        place.send("writes", *({"job": n} for n in range(20)))
        until(lambda: place.value("SELECT count(*) FROM writes") == 0)
    check(
        f"{place.name}: in a transaction each job takes effect once",
        place.sql("SELECT count(*), count(DISTINCT job), sum(attempt) FROM effects") == [(20, 20, 24)]
        and len(seen) == 24,
        (place.sql("SELECT * FROM effects"), seen),
    )


def loses(place):
    """A lost lease cancels the handler; nothing is acknowledged or committed."""
    place.queue("lost")
    place.sql("DELETE FROM effects")
    events, cancelled = [], []
    steal = "UPDATE lost SET lease_token = 'other' WHERE state = 1"
    worker = place.worker(on_event=events.append)
    if place.kind == "threads":

        def waits(message):
            try:
                message.sleep(20)
            except wherry.LeaseLost as why:
                cancelled.append(why)
                raise
    else:

        async def waits(message):
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                cancelled.append(message.cancelled)
                raise

    worker.handler("lost", lease=0.6)(waits)
    with place.running(worker):
        place.send("lost", {"job": 1})
        until(lambda: any(event.name == "received" for event in events))
        place.sql(steal)
        until(lambda: any(event.name == "lost" for event in events))
        place.sql("DELETE FROM lost")
    check(
        f"{place.name}: a lost lease cancels the handler",
        len(cancelled) == 1 and isinstance(cancelled[0], wherry.LeaseLost),
        (cancelled, events),
    )
    events.clear()
    if place.sqlite:
        return  # nobody can take a lease while a handler's transaction is open
    worker = place.worker(on_event=events.append)
    worker.handler("lost", transaction=True)(place.writer(after=lambda _: place.sql(steal)))
    with place.running(worker):
        place.send("lost", {"job": 1})
        until(lambda: any(event.name == "lost" for event in events))
    check(
        f"{place.name}: nothing is committed after the lease was lost",
        place.value("SELECT count(*) FROM effects") == 0 and place.value("SELECT count(*) FROM lost") == 1,
        events,
    )


def stops(place):
    """A worker that stops waits for handlers, then cancels them and gives their messages back."""
    place.queue("stops")
    events, done = [], []
    if place.kind == "threads":

        def handle(message):
            message.sleep(message.json()["takes"])
            done.append(message.id)
    else:

        async def handle(message):
            await asyncio.sleep(message.json()["takes"])
            done.append(message.id)

    worker = place.worker(grace=1, on_event=events.append)
    worker.handler("stops", concurrency=2)(handle)
    with place.running(worker):
        place.send("stops", {"takes": 0.5}, {"takes": 30}, {"takes": 0})
        until(lambda: len(events) == 2)
    check(f"{place.name}: a worker that stops waits for its handlers", done == [1], done)
    check(
        f"{place.name}: it gives back what takes longer than the grace period, not counted",
        place.sql("SELECT state, attempts FROM stops ORDER BY id") == [(0, 0), (0, 0)],
        place.sql("SELECT * FROM stops"),
    )
    check(f"{place.name}: and the hook hears of it", events[-1].name == "returned", events)


def beats(place):
    """A handler may take longer than its lease."""
    place.queue("slow")
    attempts = []
    if place.kind == "threads":

        def handle(message):
            attempts.append(message.attempt)
            message.sleep(1.2)
    else:

        async def handle(message):
            attempts.append(message.attempt)
            await asyncio.sleep(1.2)

    worker = place.worker()
    worker.handler("slow", lease=0.6, concurrency=4)(handle)
    with place.running(worker):
        place.send("slow", 1, 2, 3)
        until(lambda: attempts and place.value("SELECT count(*) FROM slow") == 0)
    check(f"{place.name}: leases are extended while handlers run", attempts == [1, 1, 1], attempts)


def wakes(place):
    """A message wakes a worker that waits, long before it would look."""
    place.queue("woken")
    got = []
    worker = place.worker()
    worker.handler("woken", poll=15)(place.handler(lambda message: got.append(message.id)))
    with place.running(worker):
        place.send("woken", 0)
        until(lambda: got)
        began = time.monotonic()
        for n in range(1, 6):
            if not place.sqlite:
                until(lambda: place.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
            place.send("woken", n)
            until(lambda: len(got) == n + 1)
    check(f"{place.name}: a message wakes a worker that waits", time.monotonic() - began < 10 and len(got) == 6, got)


def refuses(place):
    """Mistakes are named."""

    def said(function, *args, **options):
        try:
            function(*args, **options)
        except Exception as why:
            return str(why)
        return ""

    def of_worker(queue="missing", **options):
        worker = place.worker()
        worker.handler(queue, **options)(place.handler(lambda message: None))
        return asyncio.run(worker.run()) if place.kind == "asyncio" else worker.run()

    check(
        f"{place.name}: a missing queue is named, with the command that makes it",
        "queue 'missing'" in said(of_worker) and "wherry create --kind queue" in said(of_worker),
        said(of_worker),
    )
    check(f"{place.name}: so is a wrong option", "lease is 0" in said(of_worker, lease=0), said(of_worker, lease=0))
    check(f"{place.name}: and what is not a connection", "is not a connection" in said(wherry.send, 7, "jobs", 1))


for place in places():
    refuses(place)
    sends(place)
    if place.kind == "asyncio" and not place.sqlite:
        asyncio.run(asends(place))
    handles(place)
    transacts(place)
    loses(place)
    stops(place)
    beats(place)
    wakes(place)
    place.admin.close()
finish()
