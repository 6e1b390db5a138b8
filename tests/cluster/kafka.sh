#!/usr/bin/env bash
# Three brokers of Kafka 4 whose leaders are killed while relays deliver, and what else only a real broker shows.  An
# independent consumer counts: nothing that was committed may be lost.
#
# Writes TAP.  It needs Java 17, Maven and python3-confluent-kafka.  WHERRY_KAFKA_ROUNDS names the rounds to play.

# shellcheck source=tests/cluster/kafka.bash
. "$(dirname "$0")/kafka.bash"
exec "$python" -B "$here/kafka.py" "$jars"
