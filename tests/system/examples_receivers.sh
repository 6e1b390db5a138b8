#!/usr/bin/env bash
# The receivers of docs/guide/languages.md get what the programs there have committed, from a
# relay, over http: each message takes effect once, and what is forged or old takes none.
#
# Writes TAP.
# shellcheck disable=SC2317 # check calls functions

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"

if [[ $("$wherry" relay x: y: 2>&1) != *https:* ]]; then
	printf '1..1\nok 1 - webhooks # SKIP built without WHERRY_HTTP\n'
	exit 0
fi
find_languages
start_shop_server
printf '%s' "$customer" >customer

# ---- what is sent ----

in_database postgres 'CREATE DATABASE shop' 2>createdb.err
shop=postgres://wherry@127.0.0.1:$server_port/shop
run_example Prepare shop
expect "outbox and shop are made" 0
placed=0
for language in Python Node Go Java PHP; do
	if [ -n "${lacks[$language]}" ]; then
		skip "$language places an order" "${lacks[$language]}"
		continue
	fi
	run_example "$language" shop
	expect "$language places an order" 0 "out:committed: order" "out:rolled back: order"
	placed=$((placed + 1))
done

secret() {
	echo "whsec_$(head -c 32 /dev/urandom | base64 -w 0)"
}
HOOK_SECRET=$(secret)
OTHER_SECRET=$(secret)
export HOOK_SECRET OTHER_SECRET

# ---- a receiver ----

# start LANGUAGE COMMAND...: with a database of its own.  Sets name, database and hook.
start() {
	name=$1 database=receiver_${1,,}
	shift
	in_database postgres "CREATE DATABASE $database" 2>>createdb.err
	example Receive "$database" >tables.sh
	PATH=$tmp/bin:$PATH bash -eu tables.sh >tables.log 2>&1
	# In place, so that the process is the receiver.
	PATH=$tmp/bin:$PATH "$@" "postgres://wherry@127.0.0.1:$server_port/$database" 0 \
		>"$name.out" 2>"$name.err" </dev/null 9>&- &
	receiver_pid=$!
	pids+=("$receiver_pid")
	until_true 30 grep -q '^listening on http://127.0.0.1:[0-9]*/$' "$name.out"
	hook=$(sed -n 's/^listening on //p' "$name.out")
	[ -n "$hook" ] || cp "$name.err" .err
	check "$name: the receiver listens" test -n "$hook"
}

relay() { # [SECRETS]
	w relay "$shop" "$hook" --until-empty --timeout 60s \
		--set "webhook.secret=${1-env:HOOK_SECRET}"
}

shipped() { # N [CONDITION]
	answers_in "$database" "SELECT count(*) FROM shipments WHERE ${2-true}" "$1"
}

recorded() { # N ID
	answers_in "$database" \
		"SELECT count(*) FROM inbox WHERE message_id = '$2'" "$1"
}

order='{"order":900,"customer":"Ann"}'
forged='{"order":902,"customer":"Eve"}'

# post SENTENCE ANSWER ID BODY [OPTION...]: what it answers to a request of post.py.
post() {
	local sentence=$1 wanted=$2
	shift 2
	out=$(python3 "$source_dir/tests/webhook/post.py" "$hook" "$@" 2>.err)
	status=$? err=$(cat .err)
	expect "$name: $sentence" 0 "out:$wanted"
}

# refuse SENTENCE ID [OPTION...]: it answers 401, and neither works nor records the id.
refuse() {
	local sentence=$1 id=$2
	shift 2
	post "$sentence" "401 the signature or its time is wrong" "$id" "$forged" "$@"
	check "$name: and takes no effect" recorded 0 "$id"
}

# ---- what each must do ----

receive_all() {
	w seek "$shop" start # for the second receiver and the third
	relay
	expect "$name: the relay delivers each event" 0 "err:$placed delivered, 0 retried, 0 dead"
	check "$name: each order is shipped" shipped "$placed"
	check "$name: to the customer of that name" shipped "$placed" \
		"customer = pg_read_file('$folder/customer')"
	check "$name: and no order that was rolled back" answers_in "$database" \
		"SELECT string_agg(order_id::text, ',' ORDER BY order_id) FROM shipments" \
		"$(in_database shop "SELECT string_agg(id::text, ',' ORDER BY id) FROM orders")"

	# As when a relay crashes after delivering them and before acknowledging.
	w seek "$shop" start
	relay
	expect "$name: delivered again they are accepted" 0 \
		"err:$placed delivered, 0 retried, 0 dead"
	check "$name: and shipped no second time" shipped "$placed"

	in_database shop "SELECT wherry_enqueue('orders', '{\"order\":901,\"customer\":\"Bo\"}')" \
		>/dev/null
	relay $'env:OTHER_SECRET env:HOOK_SECRET'
	expect "$name: signed with a new secret and its own, one is accepted" 0 "err:1 delivered"
	check "$name: and shipped" shipped 1 'order_id = 901'
	in_database shop "DELETE FROM outbox WHERE partition_key IS NULL"

	post "a signed order is shipped" '200 shipped' one "$order"
	post "the same once more is a duplicate" '200 received before' one "$order"
	post "of eight at once, one takes effect" "$(printf '200 received before\n%.0s' {1..7})
200 shipped" eight '{"order":908,"customer":"Ann"}' times=8
	check "$name: which is there once" shipped 1 'order_id = 908'
	post "one of three signatures is enough" '200 shipped' three "$order" \
		header='v1,AAAA v1a,QUJD {}'
	post "four minutes ago is not too old" '200 shipped' minutes "$order" age=240
}

refuse_forged() {
	refuse "a request of six minutes ago is refused" old age=360
	refuse "one of six minutes from now" future age=-360
	HOOK_SECRET=$OTHER_SECRET refuse "one signed with another secret" forged
	refuse "one with another body than was signed" body sign-body="$order"
	refuse "one with another id than was signed" id sign-id=one
	refuse "one with a signature of another version" version header='v2{}'
	refuse "one with a part of the signature" part header='v1,'
	for header in webhook-timestamp webhook-signature; do
		refuse "one without $header" "without-$header" lacks=$header
	done
	post "one without webhook-id is refused" '401 the signature or its time is wrong' \
		none "$forged" lacks=webhook-id
	check "$name: what was refused is not shipped" shipped 0 'order_id = 902'
}

refuse_wrong() {
	for body in '{' '[]' 'null' '{"order":"many","customer":"Ann"}' '{"order":9}' \
		'{"order":9,"customer":{}}'; do
		post "what is not an order is refused: $body" '422 the body is not an order' \
			wrong "$body"
	done
	check "$name: and not recorded" recorded 0 wrong
	post "a body over 1 MB is refused" '413 the body is too large' large \
		"$order" pad=1048576
	post "and the next request is not" '200 shipped' small "$order"

	in_database "$database" 'ALTER TABLE shipments RENAME TO away'
	post "where the work fails, it asks to try again" '500 the database failed, try again' \
		late '{"order":905,"customer":"Ann"}'
	check "$name: and has not recorded the id" recorded 0 late
	in_database "$database" 'ALTER TABLE away RENAME TO shipments'
	post "tried again, it is shipped" '200 shipped' late '{"order":905,"customer":"Ann"}'
	check "$name: once" shipped 1 'order_id = 905'
}

# receiver LANGUAGE COMMAND...
receiver() {
	if [ -n "${lacks[$1]}" ]; then
		skip "$1: a receiver" "${lacks[$1]}"
		return
	fi
	start "$@"
	receive_all
	refuse_forged
	refuse_wrong
	kill "$receiver_pid"
	wait "$receiver_pid" 2>/dev/null
}

cp customer "$folder/customer"
chmod 644 "$folder/customer"
receiver Python python3 examples/webhook/receiver.py
receiver Node node examples/webhook/receiver.mjs
if [ -z "${lacks[Go]}" ]; then
	go build -o bin/receiver-go examples/webhook/receiver.go 2>.err
	status=$? err=$(cat .err)
	expect "the receiver in Go compiles" 0
fi
receiver Go receiver-go

stop_server
finish
