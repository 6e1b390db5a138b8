# What the tests on a real Kafka share.  Sets here, python, and jars, the folder with Kafka; or says what is missing, and
# ends.
# shellcheck shell=bash disable=SC2034

skip() {
	printf '1..1\nok 1 - a real Kafka # SKIP %s\n' "$1"
	exit 0
}

here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
jars=${WHERRY_SOURCE:-$here/../..}/build/kafka
"$python" -c 'import confluent_kafka' 2>/dev/null || skip "python3-confluent-kafka is missing"
java=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
[ "${java:-0}" -ge 17 ] || skip "Java 17 is missing"
if [ ! -e "$jars/made" ]; then
	command -v mvn >/dev/null || skip "Maven is missing"
	timeout 300 mvn -q -f "$here/../kafka/pom.xml" dependency:copy-dependencies -DoutputDirectory="$jars" \
		</dev/null >&2 || skip "Maven Central does not answer"
	touch "$jars/made"
fi
