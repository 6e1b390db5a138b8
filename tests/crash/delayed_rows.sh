#!/usr/bin/env bash
# Random rows in delayed queues and inboxes, written with plain SQL beside good ones: no row stops anybody.
#
# Writes TAP.  WHERRY_CRASH_SEED: which rows.

exec /usr/bin/python3 -B "$(dirname "$0")/delayed_rows.py"
