#!/usr/bin/env bash
# Some messages kill the relay that delivers them: only they end dead.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/poison.py"
