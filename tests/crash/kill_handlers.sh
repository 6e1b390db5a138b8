#!/usr/bin/env bash
# Kills programs whose handlers write rows and follow-up messages; then each row is there
# once.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/handlers.py"
