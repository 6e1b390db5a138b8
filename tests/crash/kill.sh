#!/usr/bin/env bash
# Writers, relays and operators are killed and stopped at random moments; then what was
# promised is counted.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill.py" file
