#!/usr/bin/env bash
# Drives the real program to Kafka: librdkafka's mock cluster in a process of its own, read
# back by kcat.
#
# Writes TAP.

# shellcheck source=tests/system/kafka.bash
. "$(dirname "$0")/kafka.bash"

start_kafka 1

# ---- a whole run ----

w create sqlite:shop.db
w enqueue --lines sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" \
	--header source=usgs
w relay sqlite:shop.db "kafka://$broker" --until-empty --timeout 60s
expect "a relay until empty delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
out=$(read_back quakes)
json "each is there once, and each key kept the order of the file" \
	"len(l) == 1707 and $(in_file_order "m['key']")"
json "each key has one partition, and there are several" \
	"len({m['key'] for m in l}) == len({(m['key'], m['partition']) for m in l}) and
	 len({m['partition'] for m in l}) > 1"
json "headers say what it is" \
	"all(m['headers'] == {'source': 'usgs', 'message-id': m['body']['id'],
	                      'content-type': 'application/json'} for m in l)"

# ---- a body that is larger than message.max.bytes ----

w create sqlite:large.db
w_in "$(printf '"%1000000s"' x)" enqueue sqlite:large.db --from - --topic large
mkdir bodies
w relay sqlite:large.db "kafka://$broker" --until-empty --timeout 60s \
	--set "relay.body_store=file:$tmp/bodies"
expect "with a body store its pointer is delivered" 0 "err:1 delivered, 0 retried, 0 dead"
out=$(read_back large)
json "and says where the body is" "d['body']['wherry_body']['length'] == 1000002"

# ---- what cannot be reached ----

w create sqlite:stuck.db
w_in '{"n":1}' enqueue --lines sqlite:stuck.db --topic late
w relay sqlite:stuck.db 'kafka://127.0.0.1:1?sasl.mechanism=PLAIN&security.protocol=sasl_plaintext&sasl.username=u&sasl.password=hush' \
	--until-empty --timeout 2s
expect "brokers that cannot be reached: the cause is told, no secret is" 5 \
	"err:event=destination-down" "err:Connection refused" "no:hush"
w list sqlite:stuck.db --json
json "and nothing is counted" 'd["attempts"] == 0 and d["state"] == "pending"'
w relay sqlite:stuck.db "kafka://$broker?lingerms=5" --until-empty
expect "a parameter that does not exist names the nearest" 2 "err:did you mean 'linger.ms'?"
printf 'relays:\n  - {name: a, from: "sqlite:stuck.db", to: "kafka://b?lingerms=5"}\n' >bad.yaml
w check bad.yaml
expect "also in a daemon's file, with its place" 1 "err:bad.yaml:2:44: to: " "err:'linger.ms'?"
w relay sqlite:stuck.db "kafka://$broker" --until-empty --timeout 60s
expect "when they can, it is delivered" 0 "err:1 delivered, 0 retried, 0 dead"

# ---- kills ----

w create sqlite:many.db
deliver_with_kills sqlite:many.db "kafka://$broker?topic=orders"

finish
