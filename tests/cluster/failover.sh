#!/usr/bin/env bash
# PostgreSQL under Patroni: leaders are exchanged, killed and frozen while producers write and relays deliver.
# Nothing that the database kept may be lost.
#
# Writes TAP.  WHERRY_CLUSTER_MODES: sync, async or both; WHERRY_CLUSTER_ROUNDS: how often each fault, 1 unless set;
# WHERRY_CLUSTER_FAULTS: which.

python=/usr/bin/python3
if ! "$python" -c 'import psycopg' 2>/dev/null; then
	printf '1..1\nok 1 - failover # SKIP python3-psycopg is missing\n'
	exit 0
fi
exec "$python" -B "$(dirname "$0")/failover.py"
