"""What the crash runs share: TAP, seeds, and a line that says how far it is."""

import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time

count = failures = 0
totals = collections.Counter()
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("WHERRY_BUILD", os.path.join(SOURCE, "build", "dev"))
WHERRY = os.path.join(BUILD, "wherry")
KEEP = os.environ.get("WHERRY_CRASH_KEEP")


def check(sentence, holds, *details):
    global count, failures
    count += 1
    failures += not holds
    clear_progress()
    print(f"{'ok' if holds else 'not ok'} {count} - {sentence}")
    for detail in [] if holds else details:
        print(f"# {detail}")
    sys.stdout.flush()
    return holds


def tell(text):
    clear_progress()
    print(f"# {text}", flush=True)


def tell_counts(counts, more):
    """What happened in a bout, to be summed up at the end."""
    totals.update(counts)
    tell(", ".join([*(f"{n} {what}" for what, n in counts.items()), more]))


def skip(sentence, why):
    global count
    count += 1
    print(f"ok {count} - {sentence} # SKIP {why}", flush=True)


# ---- the line that is written over, on a terminal ----


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def clear_progress():
    progress("")


# ---- a run ----


def wait_until(seconds, holds):
    by = time.monotonic() + seconds
    while not holds() and time.monotonic() < by:
        time.sleep(0.05)
    return holds()


def rounds(otherwise):
    """How many were asked for: each is one kill or stop."""
    return int(os.environ.get("WHERRY_CRASH_ROUNDS") or otherwise)


def seconds():
    """How long to go on at least, WHERRY_CRASH_SECONDS."""
    return float(os.environ.get("WHERRY_CRASH_SECONDS") or 0)


def first_seed():
    return int(os.environ.get("WHERRY_CRASH_SEED") or random.SystemRandom().randrange(1 << 31))


def in_folder(name, seed, run):
    """Run in a folder of its own, which is kept, where asked, if a check fails."""
    before = failures
    folder = tempfile.mkdtemp(prefix=f"wherry-{name}.")
    try:
        run(folder)
        if failures > before:
            show_log(os.path.join(folder, "log"))
    finally:
        if KEEP and failures > before:
            shutil.copytree(folder, os.path.join(KEEP, f"{name}-{seed}"), dirs_exist_ok=True)
        shutil.rmtree(folder)


def show_log(path):
    with open(path, errors="replace") as log:
        for line in log.readlines()[-60:]:
            tell(line.rstrip())


def bouts(name, default_rounds, most, run):
    """Split the rounds into bouts of at most `most`, each with a seed and a folder of its
    own: run(folder, seed, rounds, tell_round)."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    total, seed, done = rounds(default_rounds), first_seed(), 0
    by = time.monotonic() + seconds()

    def tell_round(n=1):
        nonlocal done
        done += n
        progress(f"{name}: {done} of {max(done, total)} rounds, {failures} failures")

    while done < total or time.monotonic() < by:
        n = min(most, total - done if done < total else rounds(default_rounds))
        tell(f"{name}: WHERRY_CRASH_SEED={seed} WHERRY_CRASH_ROUNDS={n}")
        before = done
        in_folder(name, seed, lambda folder: run(folder, seed, n, tell_round))
        if done == before:
            break  # it could not run
        seed += 1
    tell(f"{name} in all: " + ", ".join(f"{n} {what}" for what, n in totals.items()))
    print(f"1..{count}")
    return failures > 0
