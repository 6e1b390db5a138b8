#!/usr/bin/env python3
"""The next times of random schedules, beside croniter and zoneinfo.

    schedules.py PROGRAM CASES SEED

PROGRAM is built from schedule_main.c.  Each case is a random expression, zone and instant of ten
years, half of the instants within two days of a change of the zone's clock.  Two things are checked:

* The local times that croniter finds, as if there were no zone, are put on the time line by zoneinfo:
  a skipped one as much later, a repeated one the first time only, or of an expression that names every
  hour both times and no skipped one.  PROGRAM must give exactly these.
* croniter given the zone must find the same times, unless the clock changes between the instant and
  the last of them: croniter has other rules then.  How often they differ is printed.
"""
import heapq
import itertools
import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from croniter import croniter, CroniterBadDateError

ZONES = """UTC Europe/Berlin Europe/London Europe/Dublin Europe/Lisbon America/New_York America/Sao_Paulo
America/Havana America/St_Johns America/Santiago America/Asuncion America/Godthab Asia/Tehran Asia/Kolkata
Asia/Kathmandu Asia/Beirut Asia/Gaza Asia/Tokyo Africa/Cairo Africa/Casablanca Australia/Lord_Howe
Australia/Adelaide Pacific/Auckland Pacific/Chatham Pacific/Apia Antarctica/Troll Atlantic/Azores
""".split()
FIRST = datetime(2020, 1, 1, tzinfo=timezone.utc)
YEARS = 10
TIMES = 4
LONGEST_CHANGE = timedelta(hours=3)
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()


# ---- random cases ----

def element(rng, least, most, names):
    def value(n):
        return names[n - least] if names and n - least < len(names) and rng.random() < 0.4 else str(n)

    kind = rng.random()
    first, last = sorted((rng.randint(least, most), rng.randint(least, most)))
    if kind < 0.55:
        return value(first)
    text = value(first) + "-" + value(last) if kind < 0.85 else "*"
    if kind < 0.7 or first == last:
        return text
    return f"{text}/{rng.randint(1, most)}"


def field(rng, least, most, stars, names=()):
    if rng.random() < stars:
        return "*"
    return ",".join(element(rng, least, most, names) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def expression(rng):
    return " ".join((field(rng, 0, 59, 0.05), field(rng, 0, 23, 0.2), field(rng, 1, 31, 0.6),
                     field(rng, 1, 12, 0.7, MONTHS), field(rng, 0, 6, 0.6, DAYS)))


def changes(zone):
    """When the zone's clock changes, to the hour."""
    at, found = int(FIRST.timestamp()), []
    end = at + YEARS * 366 * 86400
    before = datetime.fromtimestamp(at, zone).utcoffset()
    for day in range(at, end, 86400):
        after = datetime.fromtimestamp(day + 86400, zone).utcoffset()
        if after != before:
            found.append(day)
        before = after
    return found


def cases(n, seed):
    rng = random.Random(seed)
    known = {}
    while n:
        name = rng.choice(ZONES)
        zone = ZoneInfo(name)
        if name not in known:
            known[name] = changes(zone)
        if known[name] and rng.random() < 0.5:
            at = rng.choice(known[name]) + rng.randint(-2 * 86400, 3 * 86400)
        else:
            at = int(FIRST.timestamp()) + rng.randint(0, YEARS * 365 * 86400)
        text = expression(rng)
        if text.split()[2:4] and croniter.is_valid(text):
            yield at, name, zone, text
            n -= 1


# ---- croniter's local times on the time line ----

def local_times(text, start):
    """The local times of an expression after `start`, by the rule of crontab for two restricted days."""
    minute, hour, day, month, weekday = text.split()
    if day.startswith("*") or weekday.startswith("*"):
        expressions = [text]
    else:
        expressions = [f"{minute} {hour} {day} {month} *", f"{minute} {hour} * {month} {weekday}"]

    def times(expression):
        it = croniter(expression, start, day_or=False)
        try:
            while True:
                yield it.get_next(datetime)
        except CroniterBadDateError:
            return

    return (time for time, _ in itertools.groupby(heapq.merge(*map(times, expressions))))


def names_every_hour(text):
    return len(set(croniter.expand(f"0 {text.split()[1]} * * *")[0][1])) == 24 or \
        croniter.expand(f"0 {text.split()[1]} * * *")[0][1] == ["*"]


def instants(local, zone, interval):
    """The instants at which a local time occurs, Unix seconds."""
    first = local.replace(tzinfo=zone).timestamp()
    second = local.replace(tzinfo=zone, fold=1).timestamp()
    if first == second or not interval:
        return [int(first)]
    return [int(first), int(second)] if first < second else []


def wanted(at, zone, text):
    start = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
    interval = names_every_hour(text)
    found, enough = set(), None
    for local in local_times(text, start - LONGEST_CHANGE - timedelta(seconds=1)):
        if enough and local > enough:
            break
        found.update(t for t in instants(local, zone, interval) if t > at)
        if len(found) >= TIMES and not enough:
            enough = local + 2 * LONGEST_CHANGE
    return sorted(found)[:TIMES]


def by_croniter(at, zone, text):
    it = croniter(text, datetime.fromtimestamp(at, zone))
    try:
        return [int(it.get_next(datetime).timestamp()) for _ in range(TIMES)]
    except CroniterBadDateError:
        return None


# ---- comparing ----

def is_explained(at, zone, text, times):
    """Why croniter differs where it was given the zone; None: it should not."""
    minute, hour, day, month, weekday = text.split()
    last = times[-1] if times else at
    for name, value, whole in (("day of month", day, 31), ("day of week", weekday, 7)):
        other = weekday if value is day else day
        if value != "*" and other != "*" and (
                value.startswith("*") or len(croniter.expand(f"0 0 {day} * {weekday}")[0][
                    2 if value is day else 4]) in (1, whole) and
                croniter.expand(f"0 0 {day} * {weekday}")[0][2 if value is day else 4] == ["*"]):
            return f"croniter takes '*/n' for restricted, or a full range for *: {name}"
    step = 1800
    if any(datetime.fromtimestamp(t, zone).utcoffset() != datetime.fromtimestamp(at - 10800, zone).utcoffset()
           for t in itertools.chain(range(at - 10800, min(last, at + 90 * 86400) + 10800, step),
                                    range(at, last, 7 * 86400), [last])):
        return "the clock changes"
    return None


def show(times, zone):
    return " ".join(datetime.fromtimestamp(t, zone).isoformat() for t in times)


def main():
    program, n, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    todo = list(cases(n, seed))
    lines = "".join(f"{at} {name} {TIMES} {text}\n" for at, name, _, text in todo)
    out = subprocess.run([program], input=lines, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(f"{program}: {out.stderr}")
    answers = out.stdout.split("\n")[:-1]
    assert len(answers) == n, f"{len(answers)} answers for {n} cases"
    wrong, reasons, same = 0, {}, 0
    for (at, name, zone, text), answer in zip(todo, answers):
        got = [int(word) for word in answer.split()]
        want = wanted(at, zone, text)
        if got[:len(want)] != want or (not want and got):
            wrong += 1
            print(f"'{text}' in {name} after {show([at], zone)} ({at})\n  got    {show(got, zone)}\n"
                  f"  wanted {show(want, zone)}")
        theirs = by_croniter(at, zone, text)
        if theirs is None or theirs == got:
            same += 1
            continue
        why = is_explained(at, zone, text, got)
        if not why:
            wrong += 1
            print(f"'{text}' in {name} after {show([at], zone)} ({at})\n  got      {show(got, zone)}\n"
                  f"  croniter {show(theirs, zone)}")
        reasons[why] = reasons.get(why, 0) + 1
    print(f"{n} cases of seed {seed}: {wrong} wrong; croniter with the zone: {same} the same")
    for why, count in sorted(reasons.items(), key=str):
        print(f"  {count} differ: {why}")
    sys.exit(1 if wrong else 0)


main()
