#!/usr/bin/env bash
# A private redis-server without a disk.  Prints its port, and ends when standard input is closed.
# In its own folder it keeps its log.

set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/wherry-redis.XXXXXX")
server=
trap 'kill -KILL $server 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
command -v redis-server >/dev/null || exit 1
port=$(python3 -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
# setpriv: it also ends if this script is killed
setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no \
	--dir "$folder" >"$folder/log" 2>&1 &
server=$!
until redis-cli -p "$port" PING >/dev/null 2>&1; do
	kill -0 $server 2>/dev/null || exit 1
	sleep 0.02
done
echo "$port"
cat >/dev/null
