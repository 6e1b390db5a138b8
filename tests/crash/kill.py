"""Kill or stop writers, relays, commands and operators at random moments, then count.

kill.py file|exec
"""

import collections
import os
import signal
import stat
import sys
import time

import judge
import tap
import victims

DELIVER = """#!/bin/sh
body=$(cat)
printf '%s\\t%s\\n' "$WHERRY_MESSAGE_ID" "$body" >>"$1"
"""


class Bout:
    """One shop, and what happens to it."""

    BUSY_S = 30  # enough is written by then
    SOON_S = 0.08  # an operator's command works by then

    def __init__(self, shop, kinds):
        self.shop, self.rng = shop, shop.rng
        self.victims = shop.victims(kinds)
        self.relays = [v for v in self.victims if v.kind == "relay"]
        self.operators = self.commands = 0
        self.failed_operators = []
        self.purged = False
        self.extra = collections.Counter()  # what else was done

    def await_work(self):
        """Before a round: relays begin at once."""

    # ---- one round each; they return how many it was ----

    def kill_one(self):
        victim = self.rng.choice(self.victims + self.relays)  # relays twice as often
        victim.kill()
        victim.start()
        return 1

    def stop_one(self):
        """Shorter than the lease."""
        self.rng.choice(self.victims).stop(self.shop.lease_s * self.rng.uniform(0.05, 0.8))
        return 1

    def stop_leader(self):
        """Past its lease, after which it must not go on."""
        leader, _ = self.shop.leader(self.victims)
        if not leader:
            return self.kill_one()
        leader.stop(self.shop.lease_s * self.rng.uniform(1.1, 2))
        return 1

    def kill_heir(self):
        """Kill the leader, and the other about when it takes over."""
        leader, others = self.shop.leader(self.victims)
        if not leader or not others:
            return self.kill_one()
        leader.kill()
        leader.start()
        time.sleep(self.shop.lease_s * self.rng.uniform(0.7, 1.3))
        others[0].kill()
        others[0].start()
        return 2

    def operate(self):
        """Kill an operator's program while it works."""
        url, rng = self.shop.url, self.rng
        arguments = rng.choice([
            ["pause", url],
            ["retry", url, "--all", "--state", "all"],
            ["purge", url, "--yes", "--older-than", "1ms", "--batch", str(rng.randint(1, 50))],
            ["status", url, "--json"],
            ["list", url, "--limit", "1000"],
        ])  # fmt: skip
        self.purged |= arguments[0] == "purge"
        self.kill_soon(arguments)
        if arguments[0] == "pause":
            time.sleep(rng.random() * 0.2)
            self.kill_soon(["resume", url])
            self.shop.wherry("resume", url, check=True)
            return 2
        return 1

    def kill_soon(self, arguments):
        program = victims.start([tap.WHERRY, *arguments], self.shop.log)
        time.sleep(self.rng.random() * self.SOON_S)
        program.kill()
        code = program.wait()
        if code not in (0, -signal.SIGKILL):
            self.failed_operators.append((arguments[0], code))
        self.operators += 1

    def children(self):
        """The commands that the leader runs."""
        leader, _ = self.shop.leader(self.victims)
        return children_of(leader.process.pid) if leader else []

    def kill_command(self):
        by = time.monotonic() + 1
        while time.monotonic() < by:
            children = self.children()
            if children and try_kill(self.rng.choice(children)):
                self.commands += 1
                return 1
        return self.kill_one()  # nothing is delivered just now

    # ---- all of it ----

    def kinds(self):
        kinds = [self.kill_one] * 10 + [self.stop_one] * 2 + [self.stop_leader, self.kill_heir]
        return kinds + [self.operate] * 3

    def run(self, rounds, tell_round):
        kinds = self.kinds()
        if self.shop.to.startswith("exec:"):
            kinds += [self.kill_command] * 8
        done = 0
        try:
            while done < rounds:
                self.await_work()
                time.sleep(self.rng.random() * 0.5)
                n = self.rng.choice(kinds)()
                done += n
                tell_round(n)
            tap.wait_until(self.BUSY_S, self.shop.is_busy)
        finally:
            self.rng.shuffle(self.victims)
            for victim in self.victims:
                victim.kill()

    def tell(self, last_s):
        """Say what happened; how many duplicates there may be."""
        relays = sum(v.kills for v in self.relays)
        stops = sum(v.stops for v in self.victims)
        tap.tell_counts(
            {
                "relays killed": relays,
                "writers killed": sum(v.kills for v in self.victims) - relays,
                "operators killed": self.operators,
                "commands killed": self.commands,
                "stopped": stops,
                **self.extra,
            },
            f"the last relay took {last_s:.1f} s",
        )
        return relays * self.shop.window + stops * self.per_stop() + self.commands

    def per_stop(self):
        """A writer that is stopped may hold the lock for longer than the lease lasts."""
        return self.shop.window


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(child) for child in children.read().split()]
    except OSError:
        return []


def try_kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def make_shop(kind, folder, seed):
    out = os.path.join(folder, "out")
    if kind == "file":
        return victims.Shop(folder, seed, "file:" + out), judge.read_file
    deliver = os.path.join(folder, "deliver.sh")
    with open(deliver, "w") as script:
        script.write(DELIVER)
    os.chmod(deliver, os.stat(deliver).st_mode | stat.S_IXUSR)
    open(out, "w").close()
    # A killed command is an attempt that failed; it must not be the last.
    settings = ["retry.attempts=1000", "retry.cap=50ms"]
    shop = victims.Shop(folder, seed, f"exec:{deliver} {out}", 400, 0, settings)
    return shop, judge.read_commands


def run(kind, folder, seed, rounds, tell_round):
    shop, read = make_shop(kind, folder, seed)
    writers = ["c", "c", "python"] if kind == "file" else ["c", "python"]
    play(Bout(shop, ["relay", "relay", *writers]), read, rounds, tell_round)


def play(bout, read, rounds, tell_round):
    shop = bout.shop
    bout.run(rounds, tell_round)
    code, last_s = shop.drain()
    bound = bout.tell(last_s)
    words = victims.last_words(bout.victims)
    tap.check("the last relay finds an end", code == 0, f"exit status {code}")
    tap.check("nobody ended who was not killed", not words, *words)
    tap.check("operators' programs do not fail", not bout.failed_operators, bout.failed_operators)
    judge.judge(shop, read, bound, not bout.purged)
    shop.close()


if __name__ == "__main__":
    kind = sys.argv[1]
    default = {"file": 50, "exec": 30}[kind]
    most = 60 if tap.rounds(default) > default else 25
    sys.exit(tap.bouts(f"kill-{kind}", default, most, lambda *about: run(kind, *about)))
