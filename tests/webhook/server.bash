# A receiver of webhooks for scripts: see server.py.
# shellcheck shell=bash disable=SC2034

receiver=$source_dir/tests/webhook/server.py
port=
receiver_pid=

# receive [ARGUMENT...]: start one; its port is $port.  It ends with the script, which holds
# its standard input.
receive() {
	[ -e receiver.in ] || mkfifo receiver.in
	exec 8<>receiver.in
	rm -f receiver.port
	python3 "$receiver" "$@" <receiver.in >receiver.port 2>receiver.err 8>&- 9>&- &
	receiver_pid=$!
	pids+=("$receiver_pid")
	until_true 20 test -s receiver.port
	port=$(cat receiver.port)
}

kill_receiver() {
	kill -KILL "$receiver_pid"
	wait "$receiver_pid" 2>/dev/null
}

# make_certificate NAME SUBJECT-ALT-NAME [OPTION...]: NAME.pem and NAME.key, its own issuer.
make_certificate() {
	local name=$1 alternative=$2
	shift 2
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
		-keyout "$name.key" -out "$name.pem" -subj "/CN=$name" \
		-addext "subjectAltName=$alternative" "$@" 2>>openssl.err
}
