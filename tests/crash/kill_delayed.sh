#!/usr/bin/env bash
# Producers and consumers of a delayed queue that are killed at random.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill_delayed.py"
