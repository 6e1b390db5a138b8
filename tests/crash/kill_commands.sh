#!/usr/bin/env bash
# As kill.sh, with exec: as the destination, whose commands are killed as well.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill.py" exec
