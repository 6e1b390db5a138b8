#!/usr/bin/env bash
# As kill_postgres.sh, by relays of the engine stream, which mark rows or leave them as they are.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill_stream.py"
