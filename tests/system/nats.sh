#!/usr/bin/env bash
# Drives the real program to a private nats-server with JetStream.
#
# Writes TAP.

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"

start_nats 'max_payload: 100000'

# deliver URL [OPTION...]: from shop.db until it is empty.
deliver() {
	w relay sqlite:shop.db "$1" --until-empty --timeout 60s "${@:2}"
}

# ---- a whole run ----

w create sqlite:shop.db
w enqueue --lines sqlite:shop.db --topic quakes --key /net --id /id --from "$quakes" \
	--header source=usgs
deliver "$nats/{topic}.{key}" --set nats.stream=QUAKES --set 'nats.create_stream=quakes.>'
expect "the stream is made, and a relay until empty delivers all" 0 \
	"err:1707 delivered, 0 retried, 0 dead in "
out=$(read_back QUAKES)
json "each is there once, and each key kept the order of the file" \
	"len(l) == 1707 and $(in_file_order "m['headers']['key']")"
json "subject and headers say what it is" \
	"all(m['subject'] == 'quakes.' + m['headers']['key'] and
	     m['headers'] == {'source': 'usgs', 'Nats-Msg-Id': m['body']['id'], 'topic': 'quakes',
	                      'key': m['body']['net'], 'content-type': 'application/json',
	                      'Nats-Expected-Stream': 'QUAKES'} for m in l)"
w enqueue sqlite:shop.db '{"n":1}' --topic 'quakes.a b*' --key 'x.y > z%'
deliver "$nats/{topic}.{key}"
out=$(read_back QUAKES | tail -n 1)
json "characters that no subject may have are encoded" \
	"d['subject'] == 'quakes.a%20b%2A.x%2Ey%20%3E%20z%25'"

# ---- what a message may not say ----

w enqueue sqlite:shop.db '{"n":2}' --topic '$JS.API.STREAM.DELETE.QUAKES'
w enqueue sqlite:shop.db '{"n":3}' --topic quakes..x
w enqueue sqlite:shop.db '{"n":4}' --topic quakes.x --header Nats-Rollup=all
deliver "$nats"
expect "subjects and headers that the server obeys are refused" 3 "err: 3 dead in " \
	"err:subjects that begin with \$ are the server's" "err:a name is empty" \
	"err:instructions to the server"
w enqueue sqlite:shop.db "$(printf '"%100000s"' x)" --topic quakes.x
deliver "$nats"
expect "a body over max_payload is dead, and the limit is named" 3 "err: 1 dead in " \
	"err:over 100000 bytes, the server's max_payload: raise it" "err:relay.body_store=file:/FOLDER"
w enqueue sqlite:shop.db "$(printf '"%100000s"' x)" --topic quakes.x
mkdir bodies
deliver "$nats" --set "relay.body_store=file:$tmp/bodies"
expect "with a body store its pointer arrives" 0 "err:1 delivered, 0 retried, 0 dead"
out=$(read_back QUAKES | tail -n 1)
json "and says where the body is" "d['body']['wherry_body']['length'] == 100002 and
	d['headers']['wherry-body-length'] == '100002'"

# ---- what the stream refuses ----

# refused NAME TEXT SETTING...: a message for the subject NAME waits, with this reason.
refused() {
	rm -f wait.db*
	w create sqlite:wait.db
	w enqueue sqlite:wait.db '{"n":1}' --topic "$1"
	w relay sqlite:wait.db "$nats" --until-empty --timeout 500ms "${@:3}"
	expect "$1: the reason is logged, and no secret" 5 "err:$2" "no:hush"
	w list sqlite:wait.db --json
	json "$1: the message waits, and no attempt is counted" \
		'd["attempts"] == 0 and d["state"] in ("pending", "failed")'
}

stream add FULL full max_msgs=1 discard=new
w enqueue sqlite:shop.db '{"n":5}' --topic full
deliver "$nats"
expect "a stream takes what it has room for" 0
refused full "raise the stream's limits"
stream purge FULL
w relay sqlite:wait.db "$nats" --until-empty --timeout 30s
expect "when there is room, it is delivered" 0 "err:1 delivered"
refused nowhere "no stream takes the subject 'nowhere': make one"
refused full "nats.stream names another stream" --set nats.stream=QUAKES
stream add SMALL small max_msg_size=100
w enqueue sqlite:shop.db "$(printf '"%200s"' x)" --topic small
deliver "$nats"
expect "a message over the stream's limit is dead" 3 "err:raise the stream's max_msg_size" \
	"err:relay.body_store=file:/FOLDER"
stream add QUIET quiet no_ack
w enqueue sqlite:wait.db '{"n":1}' --topic quiet
w relay sqlite:wait.db "$nats" --until-empty --timeout 1500ms --set relay.delivery_timeout=500ms
expect "a stream without acknowledgements is named as a cause" 5 "err:no_ack"

# ---- rights and passwords ----

kill_nats
run_nats 'accounts { A { jetstream: enabled, users: [
	{user: shop, password: sesame, permissions: {publish: ["orders.>", "$JS.API.>"], subscribe: "_INBOX.>"}},
	{user: deaf, password: sesame, permissions: {publish: ">", subscribe: "nothing"}},
	{nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}]},
	B { users: [{user: plain, password: sesame}] } }'
export NATS_PASSWORD=sesame
shop=(--set nats.user=shop --set nats.password=env:NATS_PASSWORD)
rm -f shop.db*
w create sqlite:shop.db
w enqueue sqlite:shop.db '{"n":1}' --topic orders.a --key a
deliver "$nats" "${shop[@]}" --set nats.stream=ORDERS --set 'nats.create_stream=orders.>'
expect "with a user and a password it is delivered" 0 "err:1 delivered"
refused orders.b "refuses the credentials" --set nats.user=shop --set nats.password=hush
refused orders.b "Authorization Violation"
w relay sqlite:wait.db "nats+tls${nats#nats}" --until-empty --set nats.ca_file=nats.conf
expect "a file without certificates is refused" 2 "err:nats.ca_file: 'nats.conf' is not a PEM file"
w doctor sqlite:wait.db
expect "and the doctor knows the reason when the relay has ended" 1 "out:last-error " "out:refuses the credentials"
refused others "no right to publish to 'others'" "${shop[@]}"
refused orders.c "no right to read answers" --set nats.user=deaf --set nats.password=sesame
refused orders.d "turn JetStream on" --set nats.user=plain --set nats.password=sesame
echo SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY >seed
w enqueue sqlite:shop.db '{"n":2}' --topic orders.a
deliver "$nats" --set nats.seed=file:seed
expect "with the seed of an nkey it is delivered" 0 "err:1 delivered"
w relay sqlite:shop.db "$nats" --until-empty --set nats.seed=SUABC
expect "a seed that is none is refused, and not repeated" 2 "err:begins with SU" "no:SUABC"

# ---- TLS ----

make_certificate server DNS:localhost
make_certificate other DNS:example.org
secure=nats+tls://localhost:$nats_port
w enqueue sqlite:shop.db '{"n":3}' --topic orders.tls

# certify NAME: the server shows this certificate.
certify() {
	kill_nats
	run_nats "tls { cert_file: \"$tmp/$1.pem\", key_file: \"$tmp/$1.key\" }"
}

w relay sqlite:shop.db "$secure" --until-empty --timeout 500ms
expect "a server without TLS is named as such" 5 "err:does not speak TLS"
certify other
w relay sqlite:shop.db "$secure" --until-empty --timeout 500ms --set nats.ca_file=other.pem
expect "the certificate of another host is refused" 5 "err:hostname mismatch"
certify server
w relay sqlite:shop.db "$secure" --until-empty --timeout 500ms
expect "a certificate of an unknown authority is refused" 5 "err:self-signed certificate" \
	"err:nats.ca_file"
w relay sqlite:shop.db "$secure" --until-empty --timeout 20s --set nats.ca_file=server.pem \
	--set nats.stream=ORDERS --set 'nats.create_stream=orders.>'
expect "with a trusted certificate it is delivered" 0 "err:1 delivered"

# ---- what cannot be reached ----

kill_nats
refused orders.e "cannot connect to 127.0.0.1:$nats_port"
w relay sqlite:shop.db "nats://shop:sesame@127.0.0.1" --until-empty
expect "credentials in the URL are refused, and not repeated" 2 "err:nats.password=env:NAME" \
	"no:sesame"
w relay sqlite:shop.db "$nats/orders.{id}" --until-empty
expect "a template with another name is refused" 2 "err:{topic} and {key} do"
printf 'relays:\n  - {name: a, from: "sqlite:shop.db", to: "nats://b/a..b"}\n' >bad.yaml
w check bad.yaml
expect "also in a daemon's file, with its place" 1 "err:bad.yaml:2:" "err:a name is empty"

finish
