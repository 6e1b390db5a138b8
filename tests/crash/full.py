"""Kill writers and relays while their disk fills up and is full; then make room, and count.

The disk is a small tmpfs; who may not mount one is given a name space where he may.
"""

import os
import subprocess
import sys
import time

import judge
import tap
import victims

SMALL, LARGE = "6m", "256m"
PATIENCE = 120  # seconds


def mount(folder, options):
    how = ["mount", "-t", "tmpfs", "-o", options, "wherry-crash", folder]
    return subprocess.run(how, stdin=subprocess.DEVNULL).returncode == 0


def met_full_disk(shop, those):
    for victim in those:
        victim.copy()
    with open(os.path.join(shop.folder, "log"), errors="replace") as log:
        return sum(": no room: " in line for line in log)


def lost_leases(shop):
    with open(os.path.join(shop.folder, "log"), errors="replace") as log:
        return sum("event=lease-lost" in line for line in log)


def harass(shop, those, rounds, tell_round):
    for _ in range(rounds):
        time.sleep(shop.rng.random() * 0.4)
        victim = shop.rng.choice(those)
        victim.kill()
        victim.start()
        tell_round()


def nothing_pending(shop):
    _, states = judge.rows_of(shop)
    return not any(states.get(state) for state in (0, 1, 3))


def make_room(shop, small, those):
    """Writers end; relays that live go on by themselves."""
    for victim in those:
        if victim.kind != "relay":
            victim.kill()
    tap.check("there is room again", mount(small, f"remount,size={LARGE}"))
    for victim in those:
        if victim.kind == "relay" and victim.process.poll() is not None:
            victim.note(victim.process.returncode)
            victim.start()
    tap.check("relays go on by themselves", tap.wait_until(PATIENCE, lambda: nothing_pending(shop)))
    for victim in those:
        if victim.kind == "relay":
            victim.kill()


def judge_full(shop, those, full):
    ends = [(v.kind, code) for v in those for code in v.ends]
    wanted = {"relay": 1, "c": victims.NO_ROOM, "python": victims.NO_ROOM}
    code, last_s = shop.drain()
    kills, lost = sum(v.kills for v in those), lost_leases(shop)
    counts = {"killed": kills, "transactions refused": full, "leases lost": lost,
              "could not start": len(ends)}  # fmt: skip
    tap.tell_counts(counts, f"the last relay took {last_s:.1f} s")
    tap.check(
        "who ends on a full disk ends with an error",
        all(code in (wanted[kind], -9) for kind, code in ends),
        *victims.last_words(those),
    )
    tap.check("the last relay finds an end", code == 0, f"exit status {code}")
    judge.judge(shop, judge.read_file, (kills + lost) * shop.window, True)


def run(folder, seed, rounds, tell_round):
    small = os.path.join(folder, "small")
    os.mkdir(small)
    if not mount(small, f"size={SMALL}"):
        open(os.path.join(folder, "log"), "w").close()
        tap.skip("a full disk loses nothing", "no tmpfs can be mounted here")
        return
    try:
        fill(folder, small, seed, rounds, tell_round)
    finally:
        subprocess.run(["umount", "-l", small])


def fill(folder, small, seed, rounds, tell_round):
    out = os.path.join(folder if seed % 2 else small, "out")
    shop = victims.Shop(folder, seed, "file:" + out, path=os.path.join(small, "crash.db"))
    shop.out = out
    those = shop.victims(["relay", "relay", "c", "c", "python"])
    try:
        harass(shop, those, rounds // 2, tell_round)
        full = tap.wait_until(PATIENCE, lambda: met_full_disk(shop, those) > 3)
        tap.check("the disk fills up", full)
        harass(shop, those, rounds - rounds // 2, tell_round)
        make_room(shop, small, those)
        judge_full(shop, those, met_full_disk(shop, those))
    finally:
        for victim in those:
            victim.process.kill()
            victim.process.wait()
        shop.close()


def in_name_space():
    """Mounting needs rights that an ordinary user has in a name space of his own."""
    if os.geteuid() == 0 or "WHERRY_CRASH_INSIDE" in os.environ:
        return
    call = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        if subprocess.run([*call, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ["WHERRY_CRASH_INSIDE"] = "1"
            os.execvp(call[0], [*call, sys.executable, *sys.argv])
    except FileNotFoundError:
        pass


if __name__ == "__main__":
    in_name_space()
    sys.exit(tap.bouts("full-disk", 20, 40, run))
