#!/usr/bin/env bash
# The daemon with four relays, while brokers, servers and databases fail: nothing may be lost,
# and it may not grow.
#
# Writes TAP.  WHERRY_SOAK_SECONDS: how long, 20 unless set; WHERRY_CRASH_SEED: which.

exec python3 -B "$(dirname "$0")/soak.py"
