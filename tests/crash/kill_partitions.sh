#!/usr/bin/env bash
# As kill_postgres.sh, with three relays that share the outbox by partitions.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/kill_partitions.py"
