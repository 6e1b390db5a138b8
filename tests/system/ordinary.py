"""Ordinary data arrives as it was written, whatever it looks like.

Each text of ordinary_values.py is written into each text column of each model, layout and database:
with plain SQL, with Wherry's SQL functions, through the library, and with the commands.  A row has
another text in each of its columns.  The databases are then copied, and each copy is delivered to one
destination.  What arrives must be, byte for byte, what was written.

WHERRY_ORDINARY_ONLY: places whose name contains this.
"""

import collections
import concurrent.futures
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "crash")]

import ordinary_destinations as destinations  # noqa: E402
import ordinary_places as places  # noqa: E402
import tap  # noqa: E402
from ordinary_values import FEW, VALUES, alike  # noqa: E402

ONLY = os.environ.get("WHERRY_ORDINARY_ONLY") or ""


class Row:
    def __init__(self, number, way, fields):
        self.number, self.way, self.fields = number, way, fields
        self.body = None

    def __repr__(self):
        return f"{self.way} {self.number}"


def rows_of(place, first):
    """For each way of writing, each text in each column."""
    rows = []
    for index, way in enumerate(place.ways):
        values = FEW if way in place.costly else VALUES
        for i in range(len(values)):
            fields = {}
            for j, field in enumerate(place.fields):
                value = values[(i + 17 * j) % len(values)]
                if field in place.unique:
                    value = alike(value, index)
                fields[field] = value if place.takes(field, value, way) else f"plain {i} {way}"
            row = Row(first + len(rows), way, fields)
            row.body = body_of(row)
            rows.append(row)
    return rows


def body_of(row):
    """The number of the row, a text, and if the text is a number, that too."""
    text = row.fields["text"]
    raw = f', "raw": {text}' if places.is_number(text) else ""
    return f'{{"case": {row.number}, "text": {json.dumps(text, ensure_ascii=row.number % 2 == 0)}{raw}}}'


def number_of(body):
    try:
        return json.loads(body)["case"]
    except (ValueError, KeyError, TypeError):
        return None


def differences(place, destination, rows, got):
    """What did not arrive, and what arrived otherwise; and how many texts were compared by way."""
    wrong, compared = [], collections.Counter()
    by_number = collections.defaultdict(list)
    for message in got:
        by_number[number_of(message["body"])].append(message)
    for row in rows:
        arrived = by_number.pop(row.number, [])
        if len(arrived) != 1:
            wrong.append(f"{place.name}, {destination.name}: {row} arrived {len(arrived)} times: {row.fields!r}")
            compared[row.way] += len(row.fields)
            continue
        wanted = destination.expect(place, row)
        for field, value in arrived[0].items():
            if field not in wanted:
                continue
            compared[row.way] += 1
            if not place.same(field, wanted[field], value):
                wrong.append(f"{place.name}, {destination.name}: {row} {field}: {wanted[field]!r} became {value!r}")
    wrong += [f"{place.name}, {destination.name}: {number} was never written" for number in by_number]
    return wrong, compared


def deliver(job):
    place, destination, url, folder, rows = job
    got, log = destination.deliver(place, url, folder)
    wrong, compared = differences(place, destination, rows, got)
    return place, destination, wrong, compared, log


def main():
    with tempfile.TemporaryDirectory(prefix="wherry-ordinary.") as folder:
        os.chmod(folder, 0o755)
        world = places.World(folder)
        try:
            run(folder, world)
        finally:
            world.close()
    print(f"1..{tap.count}")
    return tap.failures > 0


def write(place, rows):
    refused = [line for way in place.ways for line in place.write(way, [row for row in rows if row.way == way])]
    ways = ", ".join(dict.fromkeys(row.way for row in rows))
    tap.check(f"{place.name}: {ways} can write every text", not refused, *refused[:20])


def copies(folder, world, chosen, to, rows, ways):
    """A copy of all that is written so far, for each destination."""
    for destination in to:
        world.copy(destination.name)
        for place in filter(destination.serves, chosen):
            own = os.path.join(folder, destination.name, place.kind, place.table)
            os.makedirs(own)
            yield (place, destination, world.url(place, destination.name), own,
                   [row for row in rows[place] if row.way in ways and destination.takes(place, row)])  # fmt: skip


def run(folder, world):
    if not world.server:
        tap.skip("ordinary data on PostgreSQL", "no server is installed")
    chosen = [p for p in places.all_places(world) if ONLY in p.name]
    rows, jobs = {}, []
    for place in chosen:
        place.make()
        rows[place] = rows_of(place, 1)
        write(place, [row for row in rows[place] if row.way == "plain SQL"])
    jobs += copies(folder, world, chosen, destinations.COSTLY, rows, ["plain SQL"])
    for place in chosen:
        write(place, [row for row in rows[place] if row.way != "plain SQL"])
    jobs += copies(folder, world, chosen, destinations.CHEAP, rows, list(places.WAYS))
    totals = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for place, destination, wrong, compared, log in pool.map(deliver, jobs):
            tap.check(f"{place.name}: what arrives at {destination.name} is what was written", not wrong,
                      *wrong[:20], *(log.splitlines()[-12:] if wrong else []))  # fmt: skip
            for way, n in compared.items():
                totals[place.name, way] += n
            totals["differences", ""] += len(wrong)
    for place in places.tables_of_ids(world):
        if ONLY in place.name:
            for way, n, wrong in place.check(VALUES, FEW):
                tap.check(f"{place.name}, {way}: every text is kept as it is", not wrong, *wrong[:20])
                totals[place.name, way] += n
    for (place, way), n in totals.items():
        tap.tell(f"{n} {place}" if not way else f"{place}, {way}: {n} texts compared")
    tap.tell(f"{sum(n for (_, way), n in totals.items() if way)} texts compared in all")


if __name__ == "__main__":
    sys.exit(main())
