#!/usr/bin/env bash
# Drives the real program to Kafka: librdkafka's mock cluster in a process of its own, read
# back by kcat.
#
# Writes TAP.

# shellcheck source=tests/system/kafka.bash
. "$(dirname "$0")/kafka.bash"

start_kafka 1

# ---- a whole run ----

w init sqlite:shop.db
w enqueue sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" \
	--header source=usgs
w relay sqlite:shop.db "kafka://$broker" --until-empty --timeout 60s
expect "a relay until empty delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
out=$(read_back quakes)
json "each is there once, and each key kept the order of the file" \
	"len(l) == 1707 and
	 all([m['body']['id'] for m in l if m['key'] == k] ==
	     [b['id'] for b in map(json.loads, open('$quakes')) if b['net'] == k]
	     for k in {m['key'] for m in l})"
json "each key has one partition, and there are several" \
	"len({m['key'] for m in l}) == len({(m['key'], m['partition']) for m in l}) and
	 len({m['partition'] for m in l}) > 1"
json "headers say what it is" \
	"all(m['headers'] == {'source': 'usgs', 'message-id': m['body']['id'],
	                      'content-type': 'application/json'} for m in l)"

# ---- kills ----

w init sqlite:many.db
deliver_with_kills sqlite:many.db

finish
