#!/bin/bash
#
# A private RabbitMQ for tests, on free ports of 127.0.0.1 and in a temporary folder, with an
# epmd of its own.  Prints "PORT TLS-PORT FOLDER", then lives until its standard input ends.
# Lines there, each answered by "ok" or "failed":
#
#     kill              ends it at once        start       begins again, with its messages
#     freeze            it does nothing        thaw        and goes on
#     ctl WORD...       runs rabbitmqctl, with its output in FOLDER/out
#
# FOLDER has the certificate of its authority, ca.pem, with its key, key.pem, and guest.pem with
# guest.key, by which the user guest can log in (EXTERNAL).

set -uo pipefail

bin=/usr/lib/rabbitmq/bin
if [ ! -x "$bin/rabbitmq-server" ] || ! command -v epmd >/dev/null; then
	echo "rabbitmq-server is not installed" >&2
	exit 77
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/wherry-amqp-XXXXXX")
epmd_pid='' script=''

node_pid() { cat "$dir/pid" 2>/dev/null; }

end_node() {
	local pid
	pid=$(node_pid)
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
	[ -z "$script" ] || wait "$script" 2>/dev/null
	rm -f "$dir/pid"
	script=
}

stop() {
	end_node
	[ -z "$epmd_pid" ] || kill "$epmd_pid" 2>/dev/null
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM

read -r port tls_port epmd_port dist_port < <(python3 -c '
import socket
s = [socket.socket() for i in range(4)]
[x.bind(("127.0.0.1", 0)) for x in s]
print(*[x.getsockname()[1] for x in s])')

make_certificate() {
	cd "$dir" || exit 1
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem \
		-out ca.pem -days 2 -subj /CN=wherry -addext subjectAltName=IP:127.0.0.1 \
		2>/dev/null
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout guest.key -subj /CN=guest \
		2>/dev/null | openssl x509 -req -CA ca.pem -CAkey key.pem -CAcreateserial -out guest.pem \
		-days 2 2>/dev/null
}
make_certificate

cat >"$dir/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$port
listeners.ssl.1 = 127.0.0.1:$tls_port
ssl_options.cacertfile = $dir/ca.pem
ssl_options.certfile = $dir/ca.pem
ssl_options.keyfile = $dir/key.pem
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
ssl_cert_login_from = common_name
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.3 = EXTERNAL
max_message_size = 1000000
log.file.level = error
log.console = false
disk_free_limit.absolute = 1MB
CONF
echo '[rabbitmq_auth_mechanism_ssl].' >"$dir/enabled_plugins"
export HOME=$dir ERL_EPMD_PORT=$epmd_port ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_NODENAME=wherry@localhost RABBITMQ_DIST_PORT=$dist_port
export RABBITMQ_MNESIA_BASE=$dir/data RABBITMQ_LOG_BASE=$dir/log RABBITMQ_PID_FILE=$dir/pid
export RABBITMQ_CONFIG_FILE=$dir/rabbitmq.conf RABBITMQ_ENABLED_PLUGINS_FILE=$dir/enabled_plugins
export RABBITMQ_CONF_ENV_FILE=$dir/none RABBITMQ_GENERATED_CONFIG_DIR=$dir/config
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}'

# It listens before it knows its users, and refuses them until it says that it has begun.
begin_node() {
	"$bin/rabbitmq-server" >"$dir/start" 2>&1 </dev/null &
	script=$!
	for ((i = 0; i < 1200; i++)); do
		grep -q 'broker.*completed with' "$dir/start" && return 0
		kill -0 "$script" 2>/dev/null || break
		sleep 0.05
	done
	cat "$dir/start" >&2
	return 1
}

epmd -port "$epmd_port" -address 127.0.0.1 >/dev/null 2>&1 </dev/null &
epmd_pid=$!
begin_node || exit 1
echo "$port $tls_port $dir"

say() { if "$@"; then echo ok; else echo failed; fi; }

while read -r word rest; do
	case $word in
	kill) say end_node ;;
	start) say begin_node ;;
	freeze) say kill -STOP "$(node_pid)" ;;
	thaw) say kill -CONT "$(node_pid)" ;;
	ctl) eval "set -- $rest"
		say "$bin/rabbitmqctl" -q "$@" >"$dir/out" 2>&1
		tail -n 1 "$dir/out" ;;
	esac
done
