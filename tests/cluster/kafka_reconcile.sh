#!/usr/bin/env bash
# `wherry reconcile` on three brokers of Kafka 4: topics made again, records deleted, compaction, rights, and an open
# transaction of another producer.
#
# Writes TAP.  It needs Java 17, Maven and python3-confluent-kafka.

# shellcheck source=tests/cluster/kafka.bash
. "$(dirname "$0")/kafka.bash"
exec "$python" -B "$here/kafka_reconcile.py" "$jars"
