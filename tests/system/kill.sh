#!/usr/bin/env bash
# Writers and relays are killed at random moments; then what was promised is counted.
#
# Writes TAP.  WHERRY_KILL_SECONDS: how long (20); WHERRY_KILL_SEED: which run, as printed.

exec python3 "$(dirname "$0")/kill.py"
