#!/usr/bin/env python3
"""The next times of random schedules, beside croniter and zoneinfo.

    schedules.py PROGRAM CASES SEED

PROGRAM is built from schedule_main.c.  Each case is a random expression, zone and instant of ten
years, half of the instants within two days of a change of the zone's clock.  Two things are checked:

* The fields are read by croniter. The local times of these fields are put on the time line by zoneinfo: a
  skipped one as much later, a repeated one the first time only, or of an expression that names every
  hour both times and no skipped one.  PROGRAM must give exactly these.
* croniter given the zone must find the same times, unless the clock changes between the instant and
  the last of them: croniter has other rules then.  How often they differ is printed.
"""
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
DAYS_MOST = 41 * 366  # a leap day on a certain weekday comes within 40 years
LONGEST_CHANGE = timedelta(hours=3)
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
MOST_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of each month


# ---- random cases ----

def element(rng, least, most, names):
    def value(n):
        return names[n - least] if names and n - least < len(names) and rng.random() < 0.4 else str(n)

    kind = rng.random()
    first, last = sorted((rng.randint(least, most), rng.randint(least, most)))
    if kind < 0.55:
        return value(first)
    text = value(first) + "-" + value(last) if kind < 0.85 or first == last else "*"
    if kind < 0.7:
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
        if croniter.is_valid(text) and names_a_day(text):
            yield at, name, zone, text
            n -= 1


def names_a_day(text):
    """Has any year such a day?  croniter takes the 31st of September; Wherry refuses it, as it is to."""
    _, _, day, _, weekday = text.split()
    days, months = values(text, 2, 1, 31), values(text, 3, 1, 12)
    return not (day.startswith("*") or weekday.startswith("*")) or min(days) <= max(MOST_DAYS[m - 1] for m in months)


# ---- local times on the time line ----

def values(text, field, least, most):
    """What croniter reads in a field."""
    found = croniter.expand(text)[0][field]
    return range(least, most + 1) if "*" in found else sorted(found)


def local_times(text, start):
    """The local times of an expression from `start` on, day by day."""
    _, _, day, _, weekday = text.split()
    both = day.startswith("*") or weekday.startswith("*")
    minutes, hours, days, months, weekdays = (
        values(text, field, least, most)
        for field, least, most in ((0, 0, 59), (1, 0, 23), (2, 1, 31), (3, 1, 12), (4, 0, 6)))
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    for n in range(DAYS_MOST):
        date = midnight + timedelta(days=n)
        matches = (date.day in days, date.isoweekday() % 7 in weekdays)
        if date.month not in months or not (all(matches) if both else any(matches)):
            continue
        for hour, minute in itertools.product(hours, minutes):
            time = date.replace(hour=hour, minute=minute)
            if time >= start:
                yield time


def names_every_hour(text):
    return croniter.expand(text)[0][1] == ["*"]


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

def reason(at, zone, text, times, theirs):
    """Why croniter differs where it was given the zone; None: it should not."""
    day, _, weekday = text.split()[2:]
    taken = croniter.expand(text)[0]
    either = not day.startswith("*") and not weekday.startswith("*")
    if either != (taken[2] != ["*"] and taken[4] != ["*"]):
        return "which days are restricted: to croniter */2 is, and 1-31 is not"
    last = times[-1] if times else at
    seen = {datetime.fromtimestamp(t, zone).utcoffset()
            for t in itertools.chain(range(at - 10800, min(last, at + 90 * 86400) + 10800, 1800),
                                     range(at, last, 7 * 86400), [last])}
    if len(seen) > 1:
        return "the clock changes"
    if max(values(text, 2, 1, 31)) > 28 and any(
            datetime.fromtimestamp(t, zone).day <= 3 for t in times if t not in theirs):
        return "croniter looks for the 29th to 31st of a shorter month, and passes over the days after it"
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
        why = reason(at, zone, text, got, theirs)
        if not why:
            wrong += 1
            print(f"'{text}' in {name} after {show([at], zone)} ({at})\n  got      {show(got, zone)}\n"
                  f"  croniter {show(theirs, zone)}")
        reasons[why or "wrong"] = reasons.get(why or "wrong", 0) + 1
    print(f"{n} cases of seed {seed}: {wrong} wrong; croniter with the zone: {same} the same")
    for why, count in sorted(reasons.items()):
        print(f"  {count} differ: {why}")
    sys.exit(1 if wrong else 0)


main()
