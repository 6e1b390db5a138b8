#!/usr/bin/env bash
# Workers of a queue that are killed at random, in each mode of receiving.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill_queues.py"
