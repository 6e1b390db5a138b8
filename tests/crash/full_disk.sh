#!/usr/bin/env bash
# Writers and relays are killed while their disk fills up and is full; then there is room
# again, and all that was committed is delivered.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/full.py"
