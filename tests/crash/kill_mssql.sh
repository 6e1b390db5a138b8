#!/usr/bin/env bash
# As kill.sh, on the SQL Server that WHERRY_TEST_MSSQL names.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills and stops; WHERRY_CRASH_SEED: which.

exec /usr/bin/python3 -B "$(dirname "$0")/kill_mssql.py"
