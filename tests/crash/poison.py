"""Messages that kill the relay that delivers them, among others that do not.

The command kills its parent, which is the relay, when it gets such a message.  Only those
end dead; all others are delivered, in order, and none of them is given up with them.
"""

import os
import signal
import stat
import sys

import judge
import tap
import victims

DELIVER = """#!/bin/sh
body=$(cat)
case $body in
*kills*) kill -KILL $PPID ;;
*) printf '%s\\t%s\\n' "$WHERRY_MESSAGE_ID" "$body" >>"$1" ;;
esac
"""
ATTEMPTS = 3


def write(shop, messages, killers):
    """Some of them have no key, so that they are in flight together with all others."""
    shop.db.execute("BEGIN IMMEDIATE")
    places = {}
    for i in range(messages):
        key = shop.rng.choice(["", "a", "b", "c", "d"])
        if i in killers:
            ident, body = f"killer-{i}", '"kills"'
        else:
            places[key] = places.get(key, 0) + 1
            ident, body = f"m-{i}", f'{{"k":"{key}","n":{places[key]}}}'
            shop.db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (ident, key, places[key]))
        shop.db.execute(
            "INSERT INTO outbox(message_id, topic, partition_key, payload)"
            " VALUES (?, 'poison', ?, ?)",
            (ident, key, body),
        )
    shop.db.execute("COMMIT")


def relay_until_empty(shop, tell_round):
    """A supervisor: start the relay again whenever it is killed.  Its last exit status, and
    how often it was killed."""
    for kills in range(200):
        code = shop.wherry(
            *shop.relay_arguments(False), "--until-empty", "--timeout", "30s"
        ).returncode
        if code != -signal.SIGKILL:
            return code, kills
        tell_round()
    return None, 200


def judge_poison(shop, killers, code, kills):
    ledger = {i: (k, n) for i, k, n in shop.db.execute("SELECT id, k, n FROM ledger")}
    delivered, broken = judge.read_commands(os.path.join(shop.folder, "out"))
    first = {}
    for ident, body in delivered:
        first.setdefault(ident, (body["k"], body["n"]))
    disorder = judge.find_disorder(first)
    rows = shop.db.execute(
        "SELECT o.message_id, x.attempts FROM outbox AS o JOIN outbox_exception AS x ON x.id = o.id WHERE x.state = 4"
    ).fetchall()
    dead, attempts = {i for i, _ in rows}, [a for _, a in rows]
    counts = {"messages that kill": len(killers), "others": len(ledger),
              "relays killed": kills, "duplicates": len(delivered) - len(first)}  # fmt: skip
    tap.tell_counts(counts, f"window {shop.window}")
    tap.check("the last relay finds an end", code in (0, 3), f"exit status {code}")
    tap.check("they do kill", kills >= len(killers) * ATTEMPTS, f"{kills} times")
    tap.check(
        "just the messages that kill end dead",
        dead == {f"killer-{i}" for i in killers},
        sorted(dead),
    )
    tap.check(
        "each of them was tried alone as often as is allowed, and no more",
        all(a == ATTEMPTS for a in attempts),
        attempts,
    )
    tap.check("all others are delivered", set(first) == set(ledger), broken)
    tap.check("the order of each key is kept", not disorder, disorder[:20])


def run(folder, seed, rounds, tell_round):
    del rounds  # as many as it takes
    deliver, out = os.path.join(folder, "deliver.sh"), os.path.join(folder, "out")
    with open(deliver, "w") as script:
        script.write(DELIVER)
    os.chmod(deliver, os.stat(deliver).st_mode | stat.S_IXUSR)
    open(out, "w").close()
    shop = victims.Shop(
        folder, seed, f"exec:exec {deliver} {out}", lease_s=0.5,
        settings=[f"retry.attempts={ATTEMPTS}"],
    )  # fmt: skip
    killers = shop.rng.sample(range(100), shop.rng.randint(1, 3))
    write(shop, 100, killers)
    code, kills = relay_until_empty(shop, tell_round)
    judge_poison(shop, killers, code, kills)
    shop.close()


if __name__ == "__main__":
    sys.exit(tap.bouts("poison", 5, 10, run))
