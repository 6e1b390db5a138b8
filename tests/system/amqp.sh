#!/usr/bin/env bash
# Drives the real program to RabbitMQ: a server in a temporary folder, read by pika.
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/amqp/amqp.bash
. "$source_dir/tests/amqp/amqp.bash"

if ! has_rabbit; then
	printf '1..1\nok 1 - RabbitMQ # SKIP %s\n' "$amqp_lacks"
	exit 0
fi
start_rabbit || exit 1
amqp_do 'c.queue_declare("quakes", durable=True)
c.queue_declare("eu", durable=True)
c.exchange_declare("shop", "topic", durable=True)
c.queue_bind("eu", "shop", "orders.eu.#")'

# ---- a whole run ----

w create sqlite:shop.db
w enqueue --lines sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" \
	--header source=usgs --header wherry-priority=3 --header wherry-expiration=3600000
w relay sqlite:shop.db "$amqp" --until-empty --timeout 60s
expect "a relay until empty delivers all" 0 "err:1707 delivered, 0 retried, 0 dead in "
out=$(read_queue quakes)
json "each is there once, and each key kept the order of the file" \
	"len(l) == 1707 and $(in_file_order "m['headers']['key']")"
json "properties and headers say what it is" \
	"all(m['headers'] == {'source': 'usgs', 'topic': 'quakes', 'key': m['body']['net']} and
	     m['message_id'] == m['body']['id'] and m['delivery_mode'] == 2 and
	     m['content_type'] == 'application/json' and m['priority'] == 3 and
	     m['expiration'] == '3600000' and m['timestamp'] > 1e9 for m in l)"

w create sqlite:eu.db
printf '{"n":%d,"to":"%s"}\n' 1 eu.de 2 us 3 eu.fr >orders.ndjson
w enqueue --lines sqlite:eu.db --topic orders --key /to --from orders.ndjson
w relay sqlite:eu.db "$amqp?exchange=shop&routing_key={topic}.{key}" --until-empty --timeout 60s
expect "a message that no queue takes is dead once others were taken" 3 \
	"err:2 delivered, 0 retried, 1 dead" "err:NO_ROUTE: no queue takes it from exchange 'shop' with routing key 'orders.us'"
out=$(read_queue eu)
json "the others are where topic and key lead" \
	"[(m['body']['n'], m['routing_key']) for m in l] == [(1, 'orders.eu.de'), (3, 'orders.eu.fr')]"
w retry sqlite:eu.db --all
w relay sqlite:eu.db "$amqp?exchange=shop&routing_key={topic}.{key}&mandatory=off" --until-empty
expect "with mandatory=off it counts as delivered" 0 "err:1 delivered, 0 retried, 0 dead"

# ---- what is the destination's fault: nothing is counted, nothing dead ----

w create sqlite:stuck.db
w_in '{"n":1}' enqueue --lines sqlite:stuck.db --topic quakes
refused() { # SENTENCE URL TEXT...
	w relay sqlite:stuck.db "$2" --until-empty --timeout 4s
	expect "$1" 5 "err:event=destination-down" "no:hush" "${@:3}"
}
refused "a broker that cannot be reached" amqp://u:hush@127.0.0.1:1 "err:cannot connect to 127.0.0.1:1"
refused "a wrong password" "${amqp/\/\//\/\/guest:hush@}" "err:ACCESS_REFUSED" "err:check user and password"
w doctor sqlite:stuck.db
expect "and the doctor knows the reason when the relay has ended" 1 "out:last-error " "out:check user and password"
refused "a wrong vhost" "$amqp/nowhere" "err:check the vhost"
refused "a missing exchange" "$amqp?exchange=none" "err:NOT_FOUND - no exchange 'none' in vhost '/'; make it"
refused "a certificate that nobody vouches for" "$amqps" "err:its certificate is not trusted" "err:cacertfile="
w relay sqlite:stuck.db "$amqps?cacertfile=stuck.db" --until-empty
expect "a file without certificates is refused" 2 "err:cacertfile: 'stuck.db' is not a PEM file"
refused "TLS to a port without it" "amqps${amqp#amqp}?cacertfile=$amqp_folder/ca.pem" "err:TLS failed"
w list sqlite:stuck.db --json
json "and nothing is counted" 'd["attempts"] == 0 and d["state"] in ("pending", "failed")'
AMQP_PASSWORD=guest "$wherry" relay sqlite:stuck.db \
	"${amqps/\/\//\/\/guest@}?cacertfile=$amqp_folder/ca.pem&password=env:AMQP_PASSWORD" \
	--until-empty --timeout 60s 2>tls.log
status=$? out='' err=$(cat tls.log)
expect "by TLS with a password from the environment it is delivered" 0 "err:1 delivered, 0 retried, 0 dead"

# ---- a certificate logs in ----

# certify NAME OPTION...: NAME.pem and NAME.key, issued as the options of openssl say.
certify() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj "/CN=$1" 2>/dev/null |
		openssl x509 -req -out "$1.pem" -days 2 "${@:2}" 2>/dev/null
}
certify nobody -CA "$amqp_folder/ca.pem" -CAkey "$amqp_folder/key.pem"
certify forged -CA nobody.pem -CAkey nobody.key -CAcreateserial
by_name="$amqps?auth_mechanism=external&cacertfile=$amqp_folder/ca.pem"
w enqueue sqlite:stuck.db '{"n":2}' --topic quakes
refused "a certificate that names no user" "$by_name&certfile=nobody.pem&keyfile=nobody.key" \
	"err:ACCESS_REFUSED" "err:add a user with the name that the broker reads from the certificate"
refused "a certificate of another authority" "$by_name&certfile=forged.pem&keyfile=forged.key" \
	"err:refuses the certificate of certfile"
w list sqlite:stuck.db --json
json "no attempt is counted" 'l[-1]["attempts"] == 0 and l[-1]["state"] in ("pending", "failed")'
w relay sqlite:stuck.db "$by_name&certfile=$amqp_folder/guest.pem&keyfile=$amqp_folder/guest.key" --until-empty --timeout 60s
expect "with the certificate of a user it is delivered, without a password" 0 "err:1 delivered, 0 retried, 0 dead"
w relay sqlite:stuck.db "$amqps?auth_mechanism=external" --until-empty
expect "without a certificate it is refused" 2 "err:add certfile= and keyfile="
w relay sqlite:stuck.db "${by_name/\/\//\/\/shop:hush@}&certfile=$amqp_folder/guest.pem&keyfile=$amqp_folder/guest.key" --until-empty
expect "and so is a password beside it" 2 "err:leave user and password out" "no:hush"

w create sqlite:none.db
printf '{"n":%d}\n' 1 2 3 4 5 6 7 8 >few.ndjson
w enqueue --lines sqlite:none.db --topic none --from few.ndjson
w relay sqlite:none.db "$amqp" --until-empty --timeout 1s
expect "a missing queue is the destination's fault, too, if none took a message yet" 5 \
	"err:event=destination-down why=\"NO_ROUTE" "err: 0 dead in "
amqp_do 'c.queue_declare("none", durable=True)'
w relay sqlite:none.db "$amqp" --until-empty --timeout 60s
expect "when it is there all is delivered" 0 "err:8 delivered"

# ---- what is wrong with the URL ----

w relay sqlite:stuck.db "$amqp?exchnge=x" --until-empty
expect "a parameter that does not exist names the nearest" 2 "err:did you mean 'exchange'?"
w relay sqlite:stuck.db "$amqp?password=env:HOME" --until-empty
expect "a password is read from where it may be" 1 "err:set amqp.secrets=env:HOME if"
printf 'relays:\n  - {name: a, from: "sqlite:stuck.db", to: "amqp://b?routing_key={id}"}\n' >bad.yaml
w check bad.yaml
expect "also in a daemon's file, with its place" 1 "err:bad.yaml:2:44: to: " "err:{topic} and {key}"
printf 'relays:\n  - {name: a, from: "sqlite:stuck.db", to: "amqps://b?verify=verify_none"}\n' >weak.yaml
w check weak.yaml
expect "and check warns of a URL that trusts anybody" 0 "err:verify=verify_none accepts any server"

stop_rabbit
finish
