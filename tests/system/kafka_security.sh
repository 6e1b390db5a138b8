#!/usr/bin/env bash
# TLS and SASL to Kafka, on a broker that has them: what is right delivers, what is wrong is
# told with what to do, nothing is lost or counted, and no secret is shown.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"

# certificate NAME HOST: NAME.pem and NAME.key, of our authority.
certificate() { # NAME HOST [DAYS]
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$1.key" -out "$1.csr" &&
		openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "${3-2}" \
			-extfile <(echo "subjectAltName=DNS:$2") -out "$1.pem"
}

b64() {
	base64 -w0 | tr '+/' '-_' | tr -d '='
}

{
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
	certificate here localhost
	certificate there broker.example.org
	certificate late localhost -1
} >openssl.log 2>&1
w create sqlite:shop.db
sent=0
may_read=kafka.secrets=env:KAFKA_,file:

# delivers SENTENCE PARAMETERS: one message gets through.
delivers() {
	sent=$((sent + 1))
	w_in "{\"id\":\"m$sent\",\"n\":$sent}" enqueue --lines sqlite:shop.db --topic orders --id /id
	w relay sqlite:shop.db "kafka://$broker?$2" --until-empty --timeout 60s --set "$may_read"
	expect "$1" 0 "err:1 delivered, 0 retried, 0 dead" "no:sesame" "no:$token"
}

# is_refused SENTENCE PARAMETERS TEXT...: none does, and the texts are told.
is_refused() {
	local sentence=$1 parameters=$2 texts=() text
	shift 2
	for text; do
		texts+=("err:$text")
	done
	w_in '{"id":"waits"}' enqueue --lines sqlite:shop.db --topic orders --id /id
	w relay sqlite:shop.db "kafka://$broker?$parameters" --until-empty --timeout 1s --set "$may_read"
	expect "$sentence" 5 "err:event=destination-down" "no:sesame" "no:$token" "${texts[@]}"
	w list sqlite:shop.db --state pending --json
	json "nothing is counted or lost" 'len(l) == 1 and l[0]["attempts"] == 0'
	w discard sqlite:shop.db --all --yes
}

token=$(printf '{"alg":"none"}' | b64).$(printf '{"sub":"shop"}' | b64).
printf 'open sesame\n' >password
printf '%s\n' "$token" >token
printf 'sesame\n' >wrong
export KAFKA_PASSWORD="open sesame"

# ---- TLS ----

start_broker --tls here.pem here.key --topic orders 1
delivers "over TLS" "ssl.ca.location=ca.pem"
is_refused "an authority that nobody knows is refused" "security.protocol=ssl" \
	"certificate verify failed" "an authority that is not known here: name it with ssl.ca.location"
is_refused "without TLS nothing gets through" "client.id=plain" "brokers" "security.protocol"
start_broker --tls there.pem there.key --topic orders 1
is_refused "so is the certificate of another host" "ssl.ca.location=ca.pem" \
	"certificate verify failed" "for another host name: use a name that the certificate has"
delivers "unless somebody says that it may" \
	"ssl.ca.location=ca.pem&ssl.endpoint.identification.algorithm=none"

start_broker --tls late.pem late.key --topic orders 1
is_refused "and one that has expired" "ssl.ca.location=ca.pem" \
	"certificate verify failed" "has expired: renew it there"

# ---- SASL ----

start_broker --tls here.pem here.key --sasl shop "open sesame" "$token" --topic orders 1
for mechanism in PLAIN SCRAM-SHA-256 SCRAM-SHA-512; do
	as="ssl.ca.location=ca.pem&sasl.mechanism=$mechanism&sasl.username=shop"
	delivers "$mechanism with the password from the environment" "$as&sasl.password=env:KAFKA_PASSWORD"
	is_refused "$mechanism with another password" "$as&sasl.password=file:wrong" \
		"uthentication failed" "check sasl.mechanism, user and password"
	case $mechanism$(kcat -V 2>&1 | grep -o 'librdkafka 2\.[0-5]\.') in
	SCRAM*librdkafka*) is_refused "and why that may be" "$as&sasl.password=file:wrong" "needs librdkafka 2.6.1" ;;
	esac
done
delivers "PLAIN with the password from a file" \
	"ssl.ca.location=ca.pem&sasl.mechanism=PLAIN&sasl.username=shop&sasl.password=file:password"
as="ssl.ca.location=ca.pem&sasl.mechanism=SCRAM-SHA-256"
is_refused "another user" "$as&sasl.username=sho&sasl.password=env:KAFKA_PASSWORD" "check sasl.mechanism"
as="ssl.ca.location=ca.pem&sasl.mechanism=OAUTHBEARER"
delivers "OAUTHBEARER with a token from a file" "$as&sasl.oauthbearer.token=file:token"
is_refused "OAUTHBEARER with another token" "$as&sasl.oauthbearer.token=file:wrong" "uthentication failed"
is_refused "OAUTHBEARER with a file that is not there" "$as&sasl.oauthbearer.token=file:gone" \
	"sasl.oauthbearer.token: cannot read 'gone'"

w list sqlite:shop.db --state done --json --limit 100
json "all were delivered" "len(l) == $sent"

finish
