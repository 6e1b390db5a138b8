#!/usr/bin/env bash
# Ordinary data arrives as it was written, whatever it looks like.
#
# Writes TAP.  WHERRY_ORDINARY_ONLY: places whose name contains this.

exec /usr/bin/python3 -B "$(dirname "$0")/ordinary.py"
