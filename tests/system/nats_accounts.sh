#!/usr/bin/env bash
# Each way to log in to NATS: credentials of an account with JWTs, a token, a client's certificate.
# What the server refuses is said, keeps the message, and counts no attempt.
#
# Writes TAP.

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"

# refused SENTENCE TEXT URL OPTION...: the message of wait.db waits, with this reason.
refused() {
	w relay sqlite:wait.db "$3" --until-empty --timeout 3s "${@:4}"
	expect "$1: the reason is logged, and no secret" 5 "err:$2" "no:hush"
	w list sqlite:wait.db --json
	json "$1: the message waits, and no attempt is counted" \
		'd["attempts"] == 0 and d["state"] in ("pending", "failed")'
}

# delivered SENTENCE URL OPTION...
delivered() {
	w relay sqlite:wait.db "$2" --until-empty --timeout 30s "${@:3}"
	expect "$1" 0 "err:1 delivered, 0 retried, 0 dead"
	w enqueue sqlite:wait.db '{"n":2}' --topic orders.next
}

w create sqlite:wait.db
w enqueue sqlite:wait.db '{"n":1}' --topic orders.first
stream_made=(--set nats.stream=ORDERS --set 'nats.create_stream=orders.>')

# ---- an operator, accounts and JWTs ----

mkdir jwt
python3 "$source_dir/tests/nats/jwt.py" jwt || exit 1
start_nats "$(cat jwt/resolver.conf)"
refused "no credentials" "Authorization Violation" "$nats"
refused "credentials of an account that the server does not know" "refuses the credentials" "$nats" \
	--set nats.credentials=file:jwt/wrong.creds
refused "credentials without a right to the subject" "no right to publish to 'orders.first'" "$nats" \
	--set nats.credentials=file:jwt/narrow.creds
refused "credentials without a right to make the stream" "no right to make the stream ORDERS" "$nats" \
	--set nats.credentials=file:jwt/narrow.creds "${stream_made[@]}"
delivered "with the credentials of its account it is delivered" "$nats" \
	--set nats.credentials=file:jwt/shop.creds "${stream_made[@]}"
w relay sqlite:wait.db "$nats" --until-empty --set nats.credentials=file:jwt/none.creds
expect "a file of credentials that is missing is named" 1 "err:jwt/none.creds"

# ---- a token ----

kill_nats
run_nats 'authorization { token: sesame }'
refused "a wrong token" "refuses the credentials" "$nats" --set nats.token=hush
NATS_TOKEN=sesame delivered "with the token it is delivered" "$nats" --set nats.token=env:NATS_TOKEN \
	"${stream_made[@]}"

# ---- a certificate of the client ----

make_certificate server DNS:localhost
make_certificate client DNS:shop
make_certificate stranger DNS:shop
kill_nats
run_nats "tls { cert_file: \"$tmp/server.pem\", key_file: \"$tmp/server.key\", ca_file: \"$tmp/client.pem\",
	verify: true }"
secure=nats+tls://localhost:$nats_port
trusted=(--set nats.ca_file=server.pem)
refused "no certificate" "perhaps the server asks for a certificate" "$secure" "${trusted[@]}"
refused "a certificate of another authority" "does not trust the certificate of nats.client_cert" "$secure" "${trusted[@]}" \
	--set nats.client_cert=stranger.pem --set nats.client_key=stranger.key
delivered "with the client's certificate it is delivered" "$secure" "${trusted[@]}" \
	--set nats.client_cert=client.pem --set nats.client_key=client.key "${stream_made[@]}"

finish
