"""Both on one file: nothing lost, nothing twice but where a claim expired, and each reads
what the other wrote.  Run by event_bus.sh."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [HERE, os.path.join(SOURCE, "tests", "crash")]

from event_bus_library import Bus, iso  # noqa: E402
from tap import WHERRY, check, wait_until  # noqa: E402
import tap  # noqa: E402

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
children = []


def wherry(*words, text=None):
    command, url, *rest = words
    return subprocess.run(
        [WHERRY, command, f"sqlite:{url}#outbox_events", *rest],
        input=text, capture_output=True, text=True, timeout=60, check=False)


def start(*command, **more):
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL, **more)
    children.append(child)
    return child


def start_relay(path, to, *rest):
    return start(WHERRY, "relay", f"sqlite:{path}#outbox_events", to, *rest)


def ids_of(ndjson):
    with open(ndjson, encoding="utf-8") as lines:
        return [json.loads(line)["message_id"] for line in lines]


def lines_of(path):
    with open(path, encoding="utf-8") as lines:
        return lines.read().split()


def number(bus, sql, *values):
    return bus.db.execute(sql, values).fetchone()[0]


def is_written_alike(folder):
    """Rows of either, column by column."""
    path = os.path.join(folder, "alike.db")
    bus = Bus(path)
    bus.publish("user.created", {"n": 1}, "theirs")
    bus.poll(lambda event: None)
    bus.publish("user.created", {"n": 2}, "ours")
    schema = number(bus, "SELECT group_concat(name || sql) FROM sqlite_schema")
    ran = wherry("relay", path, "stdout:", "--until-empty")
    check("their tables need no create", ran.returncode == 0, ran.stderr)
    line = json.loads(ran.stdout)
    check("what the library published is delivered",
          (line["message_id"], line["topic"], line["body"]) == ("ours", "user.created", {"n": 2}),
          ran.stdout)
    check("nothing was added to the database",
          number(bus, "SELECT group_concat(name || sql) FROM sqlite_schema") == schema)
    theirs, ours = (dict(row) for row in bus.db.execute(
        "SELECT * FROM outbox_events_archive ORDER BY id DESC"))
    alike = all(type(theirs[c]) is type(ours[c]) for c in theirs)
    times = [c for c in theirs if c.endswith("_on") or c.endswith("_at")]
    check("what either archived looks alike",
          alike and ours["status"] == "completed" and len(times) == 4
          and all(ISO.fullmatch(row[c]) for row in (theirs, ours) for c in times),
          theirs, ours)

    ran = wherry("enqueue", path, "--lines", "--topic", "order.paid", text='{"n": 3}\n')
    seen = []
    bus.poll(seen.append)
    check("the library handles what wherry enqueued",
          ran.returncode == 0 and len(seen) == 1 and seen[0]["type"] == "order.paid"
          and seen[0]["payload"] == {"n": 3}, ran.stderr, seen)
    check("and archived it", number(bus, "SELECT count(*) FROM outbox_events") == 0
          and number(bus, "SELECT count(*) FROM outbox_events_archive") == 3)


def what_cannot_be_done_is_refused(folder):
    path = os.path.join(folder, "refused.db")
    made = wherry("create", path, "--layout", "event-bus")
    again = wherry("create", path)
    bus = Bus(path)
    check("create makes tables that the library takes for its own",
          made.returncode == again.returncode == 0
          and number(bus, "SELECT count(*) FROM sqlite_schema WHERE sql NOT NULL") == 3,
          made.stderr, again.stderr)
    printed = wherry("create", "", "--layout", "event-bus", "--print")
    check("create --print writes their SQL",
          "idx_outbox_events_status_retry" in printed.stdout, printed.stdout)
    status = wherry("status", path)
    check("status says what they cannot promise",
          "layout      event-bus: no keys and so no order" in status.stdout, status.stdout)
    told = json.loads(wherry("status", path, "--json").stdout)
    check("also in JSON", told["layout"] == "event-bus", told)
    for words, why in (
        (["relay", path, "null:", "--ordering", "key"], "no keys to order by"),
        (["enqueue", path, "--lines", "--topic", "t", "--header", "a=b"], "no column for headers"),
        (["enqueue", path, "--lines", "--topic", "t", "--key", "/k"], "no column for key"),
        (["pause", path], "stop its relays"),
        (["list", path, "--key", "k"], "have no keys"),
        (["retry", path, "--key", "k"], "have no keys"),
        (["create", path, "--layout", "log"], "no column 'message_id'"),
        (["create", path, "--layout", "other"], "event-bus"),
    ):
        ran = wherry(*words, text='{"k": "1"}\n')
        shown = " ".join(word for word in words if word != path)
        check(f"{shown} is refused, and says why",
              ran.returncode in (1, 2) and why in ran.stderr, ran.returncode, ran.stderr)
    ran = wherry("relay", path, "null:", "--until-empty")
    check("a relay says so when it starts", "no order" in ran.stderr, ran.stderr)


def failures_are_shared(folder):
    path = os.path.join(folder, "failed.db")
    bus = Bus(path, backoff=3600)

    def throw(event):
        raise ValueError("handler said no")

    bus.publish("t", {}, "theirs")
    bus.poll(throw)
    listed = wherry("list", path, "--state", "failed", "--json")
    row = json.loads(listed.stdout)
    check("wherry lists what failed in the library",
          (row["message_id"], row["attempts"], row["last_error"], row["state"])
          == ("theirs", 1, "handler said no", "failed"), listed.stdout)
    check("and does not deliver it before its time",
          wherry("relay", path, "null:", "--until-empty", "--timeout", "1s").returncode == 5)
    wherry("retry", path, "theirs")
    seen = []
    bus.poll(seen.append)
    check("what wherry retries is fresh to the library", [e["id"] for e in seen] == ["theirs"])

    bus.publish("t", {}, "ours")
    settings = ["--set", "retry.attempts=2", "--set", "retry.base=1ms", "--set", "retry.cap=1ms"]
    ran = wherry("relay", path, "exec:echo no >&2; exit 1", "--until-empty", *settings)
    failed = bus.failed()
    check("the library lists what died in wherry",
          ran.returncode == 3 and [(r["id"], r["retry_count"]) for r in failed] == [("ours", 2)]
          and "no" in failed[0]["last_error"], ran.stderr, [dict(r) for r in failed])
    bus.max_retries = 1000
    check("and leaves it alone", bus.poll(seen.append) == 0)
    bus.retry(["ours"])
    ran = wherry("relay", path, "stdout:", "--until-empty")
    check("what the library retries is fresh to wherry",
          ran.returncode == 0 and json.loads(ran.stdout)["attempts"] == 0, ran.stdout)

    bus.publish("t", {}, "due")
    bus.backoff = 0.001
    bus.poll(throw)
    ran = wherry("relay", path, "stdout:", "--until-empty")
    check("wherry delivers what failed in the library once it is due",
          ran.returncode == 0 and json.loads(ran.stdout)["message_id"] == "due", ran.stderr)
    check("the archive says how often it was tried",
          number(bus, "SELECT retry_count FROM outbox_events_archive WHERE id = 'due'") == 1)


def each_recovers_what_the_other_left(folder):
    path = os.path.join(folder, "left.db")
    bus = Bus(path)
    for i in range(3):
        bus.publish("t", {}, f"theirs{i}")
    bus.claim()
    check("wherry leaves a claim of the library alone while it lives",
          wherry("relay", path, "null:", "--until-empty", "--timeout", "1s").returncode == 5)
    bus.db.execute("UPDATE outbox_events SET keep_alive = ?", (iso(-350),))
    ran = wherry("relay", path, "stdout:", "--until-empty")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    check("and takes it over when it is stuck",
          sorted(line["message_id"] for line in lines) == ["theirs0", "theirs1", "theirs2"],
          ran.stdout)

    for i in range(6):
        bus.publish("t", {}, f"ours{i}")
    relay = start_relay(path, "exec:sleep 0.9", "--set", "relay.claim_timeout=2s",
                        "--set", "exec.jobs=1", "--batch", "6")
    check("a relay claims all of them",
          wait_until(60, lambda: number(bus, "SELECT count(*) FROM outbox_events "
                                        "WHERE status = 'active'") == 6))
    seen = []

    def polled_until(archived):
        bus.poll(seen.append)
        return number(bus, "SELECT count(*) FROM outbox_events_archive") >= archived

    held = wait_until(60, lambda: polled_until(3 + 4))  # for longer than a claim lasts
    check("the library leaves claims alone while their relay lives", held and seen == [], seen)
    relay.send_signal(signal.SIGKILL)
    relay.wait()
    check("and takes them over when it is gone",
          wait_until(60, lambda: polled_until(3 + 6)) and 1 <= len(seen) <= 2, seen)
    check("all of it is archived once",
          number(bus, "SELECT count(*) FROM outbox_events_archive") == 9
          and number(bus, "SELECT count(*) FROM outbox_events") == 0)


def moving_to_a_log_is_as_the_guide_says(folder):
    path = os.path.join(folder, "move.db")
    bus = Bus(path)
    for i in range(3):
        bus.publish("t", {"i": i}, f"move{i}")
    with open(os.path.join(SOURCE, "docs", "guide", "event-bus.md"), encoding="utf-8") as guide:
        sql = guide.read().split("```sql\n")[1].split("```")[0]
    subprocess.run([WHERRY, "create", f"sqlite:{path}"], check=True, stdout=subprocess.DEVNULL)
    bus.db.executescript(sql)
    ran = subprocess.run([WHERRY, "relay", f"sqlite:{path}", "stdout:", "--until-empty"],
                         capture_output=True, text=True, timeout=60, check=False)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    check("what is moved to a log leaves from there, in order",
          [(line["message_id"], line["body"]) for line in lines]
          == [(f"move{i}", {"i": i}) for i in range(3)], ran.stdout, ran.stderr)
    check("and nothing stays behind", number(bus, "SELECT count(*) FROM outbox_events") == 0)


def both_at_once(folder):
    """Two pollers of the library, two relays, and a producer that rolls back now and then."""
    path = os.path.join(folder, "both.db")
    bus = Bus(path)
    logs = [os.path.join(folder, f"library{i}.log") for i in range(2)]
    files = [os.path.join(folder, f"wherry{i}.ndjson") for i in range(2)]
    program = [sys.executable, "-B", os.path.join(HERE, "event_bus_library.py"), path]
    pollers = [start(*program, log, stdin=subprocess.PIPE) for log in logs]
    committed = [bus.publish("t", {"i": i}) for i in range(3)]  # the library's share
    wait_until(60, lambda: number(bus, "SELECT count(*) FROM outbox_events") == 0)
    relays = [start_relay(path, f"file:{file}", "--batch", "20") for file in files]

    def wherry_has_a_share():
        committed.append(bus.publish("t", {"i": len(committed)}))
        return any(os.path.exists(file) and os.path.getsize(file) for file in files)

    wait_until(60, wherry_has_a_share)
    for i in range(300):
        bus.retrying("BEGIN IMMEDIATE", ())
        added = [bus.publish("t", {"i": i}) for _ in range(i % 7 + 1)]
        if i % 10 == 9:
            bus.db.execute("ROLLBACK")
        else:
            bus.db.execute("COMMIT")
            committed += added
    gone = wait_until(60, lambda: number(bus, "SELECT count(*) FROM outbox_events") == 0)
    for poller in pollers:
        poller.stdin.close()
        poller.wait()
    for relay in relays:
        relay.send_signal(signal.SIGTERM)
        relay.wait()
    of_library = [i for log in logs for i in lines_of(log)]
    of_wherry = [i for file in files if os.path.exists(file) for i in ids_of(file)]
    handled = of_library + of_wherry
    tap.tell(f"{len(of_library)} by the library, {len(of_wherry)} by wherry")
    check("nothing is left", gone)
    check("both had a share", of_library and of_wherry)
    check("nothing was lost", set(committed) <= set(handled),
          len(set(committed) - set(handled)))
    check("nothing was handled that was rolled back", set(handled) <= set(committed))
    check("nothing was handled twice", len(handled) == len(set(handled)),
          len(handled) - len(set(handled)))
    check("each is in the archive once, and completed",
          number(bus, "SELECT count(*) FROM outbox_events_archive WHERE status = 'completed'")
          == len(committed))
    check("the database is sound", number(bus, "PRAGMA integrity_check") == "ok")


def main():
    try:
        with tempfile.TemporaryDirectory(prefix="wherry-bus.") as folder:
            is_written_alike(folder)
            what_cannot_be_done_is_refused(folder)
            failures_are_shared(folder)
            each_recovers_what_the_other_left(folder)
            moving_to_a_log_is_as_the_guide_says(folder)
            both_at_once(folder)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
    print(f"1..{tap.count}")
    sys.exit(1 if tap.failures else 0)


main()
