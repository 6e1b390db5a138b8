#!/usr/bin/env bash
# Workers of queues and delayed queues on the SQL Server that WHERRY_TEST_MSSQL names, killed at random.
#
# Writes TAP.  WHERRY_CRASH_ROUNDS: how many kills; WHERRY_CRASH_SEED: which.

exec /usr/bin/python3 -B "$(dirname "$0")/kill_mssql_queues.py"
