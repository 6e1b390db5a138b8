# RabbitMQ for scripts: a private server, which lives as long as descriptor 5 is open, and pika to
# read from it.  Sets amqp (the broker's URL), amqps and amqp_folder.
# shellcheck shell=bash disable=SC2034,SC2154

amqp_python=/usr/bin/python3

# has_rabbit: can the tests have a server?  amqp_lacks says what is missing.
has_rabbit() {
	amqp_lacks=
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || amqp_lacks='rabbitmq-server is not installed'
	"$amqp_python" -c 'import pika' 2>/dev/null || amqp_lacks='python3-pika is not installed'
	[[ $("$wherry" relay x: y: 2>&1) == *amqp:* ]] || amqp_lacks='built without librabbitmq'
	[ -z "$amqp_lacks" ]
}

start_rabbit() {
	local port tls_port

	mkfifo "$tmp/rabbit.in" "$tmp/rabbit.out"
	bash "$source_dir/tests/amqp/server.sh" <"$tmp/rabbit.in" >"$tmp/rabbit.out" 2>"$tmp/rabbit.err" &
	pids+=($!)
	disown $!
	exec 5>"$tmp/rabbit.in" 3<"$tmp/rabbit.out"
	read -r -t 120 port tls_port amqp_folder <&3 || {
		cat "$tmp/rabbit.err" >&2
		return 1
	}
	amqp=amqp://127.0.0.1:$port
	amqps=amqps://127.0.0.1:$tls_port
}

# The server's own process ends, with its folder.
stop_rabbit() {
	exec 5>&- # it ends when its standard input does
	until_true 20 test ! -e "$amqp_folder"
}

# rabbit WORD...: see server.sh.
rabbit() {
	local answer=
	echo "$*" >&5
	read -r -t 120 answer <&3
	[ "$answer" = ok ]
}

# amqp_do STATEMENT: of Python, with a channel c.
amqp_do() {
	"$amqp_python" - "$amqp" "$1" <<'END'
import json, sys
import pika
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1] + "/%2f"))
c = connection.channel()
exec(sys.argv[2])
connection.close()
END
}

# read_queue NAME: take its messages, each a line of JSON, until none came for half a second.
read_queue() {
	amqp_do "
for method, p, body in c.consume('$1', auto_ack=True, inactivity_timeout=0.5):
    if not method:
        break
    m = {k: v for k, v in vars(p).items() if v is not None}
    m['body'] = json.loads(body)
    m['routing_key'] = method.routing_key
    print(json.dumps(m))"
}
