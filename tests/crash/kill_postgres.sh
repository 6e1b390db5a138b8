#!/usr/bin/env bash
# As kill.sh, on PostgreSQL, whose server and its processes are killed as well.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill_postgres.py"
