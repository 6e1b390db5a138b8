#!/usr/bin/env bash
# A private nats-server with JetStream and its files in a temporary folder.  Prints its port, and
# ends when standard input is closed.

set -u
PATH=$PATH:/usr/sbin:/usr/local/bin
folder=$(mktemp -d "${TMPDIR:-/tmp}/wherry-nats.XXXXXX")
server=
trap 'kill -KILL $server 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
command -v nats-server >/dev/null || exit 1 # setpriv: it also ends if this script is killed
setpriv --pdeathsig KILL nats-server -a 127.0.0.1 -p -1 -js -sd "$folder" --ports_file_dir "$folder" >"$folder/log" 2>&1 &
server=$!
until ls "$folder"/*.ports >/dev/null 2>&1; do
	kill -0 $server 2>/dev/null || exit 1
	sleep 0.02
done
sed -E 's#.*"nats":\["nats://[^:]*:([0-9]+)".*#\1#' "$folder"/*.ports
cat >/dev/null
