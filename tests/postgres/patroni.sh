#!/bin/bash
#
# Three PostgreSQL servers under Patroni, with etcd and HAProxy, on free ports of 127.0.0.1 and in a
# temporary folder.  Prints what is where, then lives until its standard input ends.  On a line
# "start N" there it starts Patroni of node N again.
#
# usage: patroni.sh [sync|async]
#
# Nothing is made durable: what was committed outlives processes, but not a power loss.

set -euo pipefail

mode=${1:-async}
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
for program in patroni patronictl etcd haproxy "$bin/initdb" "$bin/pg_basebackup"; do
	command -v "$program" >/dev/null || PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
		echo "$program is missing: apt-get install patroni etcd-server haproxy postgresql" >&2
		exit 77
	}
done
PATH=$PATH:/usr/sbin

# PostgreSQL refuses to run as root.
as=()
if [ "$(id -u)" -eq 0 ]; then
	id postgres >/dev/null 2>&1 || {
		echo "no user 'postgres' to run servers as" >&2
		exit 77
	}
	as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi

dir=$(mktemp -d /tmp/wherry-patroni-XXXXXX)
[ ${#as[@]} -eq 0 ] || chown postgres: "$dir"
chmod 755 "$dir"
cd "$dir"
declare -a nodes # process numbers of Patroni
others=()
stop() {
	# Patroni would start its server again: it goes first, and may be frozen.
	for node in 1 2 3; do
		kill -KILL "${nodes[node]-}" || true
		kill -QUIT "$(head -n 1 "node$node/postmaster.pid")" || true
		kill -CONT "$(head -n 1 "node$node/postmaster.pid")" || true
	done
	kill "${others[@]}" || true
	wait || true
	rm -rf "$dir"
} 2>/dev/null
trap stop EXIT
trap 'exit 1' HUP INT TERM

read -ra ports < <(python3 -c '
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(10)]
print(*(s.getsockname()[1] for s in held))')
etcd=${ports[0]} etcd_peer=${ports[1]} proxy=${ports[2]} proxy_status=${ports[3]}
server_port() { echo "${ports[3 + $1]}"; } # NODE
rest_port() { echo "${ports[6 + $1]}"; }   # NODE

"${as[@]}" etcd --name etcd --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$etcd" \
	--advertise-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$etcd_peer" \
	--initial-advertise-peer-urls "http://127.0.0.1:$etcd_peer" \
	--initial-cluster "etcd=http://127.0.0.1:$etcd_peer" >etcd.log 2>&1 </dev/null &
others+=($!)

configure() { # NODE
	cat <<-END
		scope: shop
		name: node$1
		log: {level: INFO}
		restapi: {listen: '127.0.0.1:$(rest_port "$1")', connect_address: '127.0.0.1:$(rest_port "$1")'}
		etcd3: {hosts: '127.0.0.1:$etcd'}
		bootstrap:
		  dcs:
		    ttl: 20
		    loop_wait: 2
		    retry_timeout: 5
		    maximum_lag_on_failover: 1073741824
		    synchronous_mode: $([ "$mode" = sync ] && echo true || echo false)
		    slots:
		      wherry_events: {type: logical, database: postgres, plugin: pgoutput}
		    postgresql:
		      use_pg_rewind: true
		      use_slots: true
		      parameters: {wal_level: logical, hot_standby_feedback: true, max_connections: 100,
		        max_wal_senders: 20, max_replication_slots: 20, wal_keep_size: 256MB}
		  initdb: [{encoding: UTF8}, {locale: C}, data-checksums, no-sync]
		postgresql:
		  listen: 127.0.0.1:$(server_port "$1")
		  connect_address: 127.0.0.1:$(server_port "$1")
		  data_dir: $dir/node$1
		  bin_dir: $bin
		  pgpass: $dir/pgpass$1
		  authentication:
		    superuser: {username: wherry, password: wherry}
		    replication: {username: copier, password: copier}
		    rewind: {username: rewinder, password: rewinder}
		  parameters: {unix_socket_directories: '', fsync: 'off', shared_buffers: 32MB, jit: 'off',
		    log_min_messages: warning}
		  pg_hba:
		  - host all all 127.0.0.1/32 trust
		  - host replication all 127.0.0.1/32 trust
	END
}

start_node() { # NODE
	"${as[@]}" patroni "$dir/node$1.yml" >>"node$1.log" 2>&1 </dev/null &
	nodes[$1]=$!
	echo $! >"node$1.pid"
}

cat >haproxy.cfg <<-END
	defaults
	  mode tcp
	  retries 1
	  timeout connect 1s
	  timeout client 1h
	  timeout server 1h
	  timeout check 1s
	listen primary
	  bind 127.0.0.1:$proxy
	  option httpchk OPTIONS /primary
	  http-check expect status 200
	  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
	$(for node in 1 2 3; do
		echo "  server node$node 127.0.0.1:$(server_port $node) check port $(rest_port $node)"
	done)
	listen status
	  bind 127.0.0.1:$proxy_status
	  mode http
	  stats enable
	  stats uri /
END
for node in 1 2 3; do
	configure $node >node$node.yml
done
[ ${#as[@]} -eq 0 ] || chown postgres: node*.yml
haproxy -f haproxy.cfg >haproxy.log 2>&1 </dev/null &
others+=($!)

leads() { # NODE
	curl -s -o /dev/null -f -X OPTIONS "http://127.0.0.1:$(rest_port "$1")/primary"
}
replicas() {
	local n=0 node

	for node in 1 2 3; do
		! curl -s -o /dev/null -f "http://127.0.0.1:$(rest_port $node)/replica" || n=$((n + 1))
	done
	[ $n -eq 2 ]
}
await() { # COMMAND...
	for ((i = 0; i < 600; i++)); do
		! "$@" || return 0
		sleep 0.1
	done
	tail -n 20 "$dir"/*.log >&2
	return 1
}

start_node 1
await leads 1
start_node 2
start_node 3
await replicas

cat <<-END
	folder   $dir
	nodes    postgres://wherry@127.0.0.1:$(server_port 1),127.0.0.1:$(server_port 2),127.0.0.1:$(server_port 3)/postgres?target_session_attrs=read-write
	haproxy  postgres://wherry@127.0.0.1:$proxy/postgres
	patroni  $(rest_port 1) $(rest_port 2) $(rest_port 3)
	status   http://127.0.0.1:$proxy_status/
	control  patronictl -c $dir/node1.yml list
END
while read -r word node; do
	[ "$word" != start ] || start_node "$node"
done
