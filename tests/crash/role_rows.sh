#!/usr/bin/env bash
# Random rows in every table that a role may write, with the rights of that role: no row stops anybody.
#
# Writes TAP.  WHERRY_CRASH_SEED: which rows; WHERRY_ROWS_SECONDS: go on for so long.

exec /usr/bin/python3 -B "$(dirname "$0")/role_rows.py"
