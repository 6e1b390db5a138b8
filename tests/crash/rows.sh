#!/usr/bin/env bash
# Random rows, written with plain SQL beside good ones: no row stops an outbox.
#
# Writes TAP.  WHERRY_CRASH_SEED: which rows; WHERRY_ROWS_SECONDS: go on for so long.

exec /usr/bin/python3 -B "$(dirname "$0")/rows.py"
