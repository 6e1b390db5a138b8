"""Every writer notes what it commits in the table ledger, in the same transaction: message
id, key, and the message's number within its key.  At the end every row of the ledger must
have been delivered, nothing else may have been, and within each key the first occurrences
must be in the order of their numbers.
"""

import json

import tap


def read_file(path):
    """What file: wrote: message ids with bodies, and how many lines are no message."""
    delivered, broken = [], 0
    with open(path, "rb") as lines:
        for line in lines:
            try:
                message = json.loads(line)
                delivered.append((message["message_id"], message["body"]))
            except (ValueError, KeyError):
                broken += 1
    return delivered, broken


def read_commands(path):
    """What deliver.sh wrote."""
    delivered, broken = [], 0
    with open(path, "rb") as lines:
        for line in lines:
            try:
                ident, body = line.rstrip(b"\n").split(b"\t")
                delivered.append((ident.decode(), json.loads(body)))
            except ValueError:
                broken += 1
    return delivered, broken


def rows_of(shop):
    """Message ids in the outbox, and how many are in which state."""
    db = shop.db
    states = dict(db.execute(
        f"SELECT coalesce(x.state, CASE WHEN {shop.UNCOVERED} THEN 0 ELSE 2 END) AS status, count(*) "
        f"FROM outbox_progress AS p JOIN outbox AS o ON {shop.OF_POSITION} "
        "LEFT JOIN outbox_exception AS x ON x.id = o.id GROUP BY 1"))  # fmt: skip
    return {i for (i,) in db.execute("SELECT message_id FROM outbox")}, states


def find_disorder(first):
    disorder, seen = [], {}
    for ident, (key, n) in first.items():  # in the order of their first occurrence
        if key and n != seen.get(key, 0) + 1:
            disorder.append((key, seen.get(key, 0), n, ident))
        seen[key] = n
    return disorder


def judge(shop, read, bound, keeps_rows):
    """bound: how many duplicates there may be; keeps_rows: nobody purged any."""
    ledger = {i: (k, n) for i, k, n in shop.db.execute("SELECT id, k, n FROM ledger")}
    delivered, broken = read(shop.out)
    rows, states = rows_of(shop)
    first = {}
    for ident, body in delivered:
        first.setdefault(ident, (body["k"], body["n"]))
    lost = [i for i in ledger if i not in first]
    unborn = [i for i in first if i not in ledger]
    changed = [i for i in first if i in ledger and first[i] != ledger[i]]
    disorder = find_disorder(first)
    duplicates = len(delivered) - len(first)
    gone = [i for i in ledger if i not in rows and (keeps_rows or i not in first)]
    strange = [i for i in rows if i not in ledger]
    tap.tell_counts(
        {
            "committed": len(ledger), "delivered": len(first), "lost": len(lost),
            "unborn": len(unborn), "out of order": len(disorder), "duplicates": duplicates,
        },
        f"of at most {bound}; states {states}",
    )  # fmt: skip
    tap.check("writers wrote and relays delivered", len(ledger) > 50, f"{len(ledger)} rows")
    tap.check("nothing committed is lost", not lost, lost[:20])
    tap.check("nothing is delivered that was not committed", not unborn, unborn[:20])
    tap.check("messages arrive as they were written", not changed, changed[:20])
    tap.check("the order of each key is kept", not disorder, disorder[:20])
    tap.check(
        "no more is delivered twice than was in flight",
        duplicates <= bound,
        f"{duplicates}, at most {bound}",
    )
    tap.check("every line is a whole message", broken == 0, f"{broken} are not")
    tap.check(
        "a message is there just when its business row is, or was delivered and purged",
        not gone and not strange,
        gone[:20],
        strange[:20],
    )
    tap.check("all are done, none died", set(states) <= {2}, states)
    integrity = shop.integrity()
    tap.check("the database is sound", integrity == "ok", integrity)
