# What the tests of the examples in other languages share: which languages can run here, and a
# PostgreSQL server on a loopback port, because JDBC has no Unix sockets.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/postgres.bash
. "$(dirname "${BASH_SOURCE[0]}")/postgres.bash"

page=$source_dir/docs/guide/languages.md
customer='Zoë "Zed" O'\''Hara \ 漢字'

# Why a language cannot run; empty if it can.
declare -A lacks=([Python]='' [Node]='' [Go]='' [Java]='' [PHP]='')

# The programs are copied, so that Node finds its driver beside them, as in a checkout.
find_languages() {
	local name folder at=

	mkdir -p bin node_modules
	cp -R "$source_dir/examples" .
	ln -s "$wherry" bin/wherry

	lacks[Python]='no psycopg'
	for name in python3 /usr/bin/python3; do
		! "$name" -c 'import psycopg' 2>/dev/null || at=$(command -v "$name")
	done
	[ -z "$at" ] || { ln -s "$at" bin/python3 && lacks[Python]=; }

	lacks[Node]='no pg'
	for folder in /usr/share/nodejs "${build_dir%/*}/npm/node_modules"; do
		if [ -d "$folder/pg" ]; then
			ln -sfn "$folder/pg" node_modules/pg
			export NODE_PATH=$folder
			lacks[Node]=
		fi
	done
	command -v node >/dev/null || lacks[Node]='no Node'

	export GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=${build_dir%/*}/go-cache
	[ -d "$GOPATH/src/github.com/jackc/pgx/v4" ] || lacks[Go]='no pgx'
	command -v go >/dev/null || lacks[Go]='no Go'

	[ -e /usr/share/java/postgresql.jar ] || lacks[Java]='no JDBC driver'
	command -v javac >/dev/null || lacks[Java]='no JDK'

	php -m 2>/dev/null | grep -qx pdo_pgsql || lacks[PHP]='no PDO driver'
	command -v php >/dev/null || lacks[PHP]='no PHP'
}

# Sets server_port.
start_shop_server() {
	server_port=$(python3 -c '
import random, socket
while True:
    port = random.randrange(20000, 30000)
    with socket.socket() as s:
        if s.connect_ex(("127.0.0.1", port)) != 0:
            print(port)
            break')
	export PGPORT=$server_port
	start_server listen_addresses=127.0.0.1 port="$server_port" \
		track_commit_timestamp=on
}

# example HEADING DATABASE: the commands below that heading of the page, with this test's server
# in place of the page's.
example() {
	awk -v heading="## $1" '
		/^## / { here = $0 == heading }
		here && $0 == "```" { inside = 0 }
		inside
		here && $0 == "```sh" { inside = 1 }' "$page" |
		sed -e "s#//shop@db.example.org/shop#//wherry@127.0.0.1:$server_port/$2#" \
			-e "s#//db.example.org/shop?user=shop#//127.0.0.1:$server_port/$2?user=wherry#" \
			-e "s#host=db.example.org;dbname=shop;user=shop#host=127.0.0.1;port=$server_port;dbname=$2;user=wherry#"
}

# run_example HEADING DATABASE: its commands succeed or fail as one; see w.
run_example() {
	example "$1" "$2" >commands.sh
	out=$(PATH=$tmp/bin:$PATH bash -eu commands.sh 2>"$tmp/.err" </dev/null 9>&-)
	status=$?
	err=$(cat "$tmp/.err")
}

answers_in() { # DATABASE SQL TEXT: is that the answer?
	[ "$(in_database "$1" "$2" 2>/dev/null)" = "$3" ]
}

in_database() { # DATABASE SQL; prints what it answers
	psql -X -q -A -t -h "$folder" -U wherry "$1" -v ON_ERROR_STOP=1 -c "$2"
}
