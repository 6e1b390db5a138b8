#!/usr/bin/env bash
# Random rows in a queue, written with plain SQL beside good ones: no row stops its receivers.
#
# Writes TAP.  WHERRY_CRASH_SEED: which rows; WHERRY_CRASH_ROUNDS: how many.

exec /usr/bin/python3 -B "$(dirname "$0")/queue_rows.py"
