#!/usr/bin/env bash
# The client for Node against PostgreSQL with pg, and SQLite with better-sqlite3 and node:sqlite: clients/node/test.
#
# Drivers are looked for among Debian's packages and in build/npm; what is missing is skipped.
#
# Writes TAP.

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"

# A client that is copied finds the drivers beside it, as if it was installed.
cp -R "$source_dir/clients/node" client
mkdir -p node_modules
mv client node_modules/wherry
mv node_modules/wherry/test test
for name in /usr/share/nodejs/* "${build_dir%/*}/npm/node_modules"/*; do
	[ ! -e "$name" ] || ln -sfn "$name" "node_modules/${name##*/}"
done
printf '{"type": "module"}\n' >package.json

has() { # MODULE: can Node load it?
	node -e "require('$1')" 2>/dev/null
}

# run_tests NAME FILE: the tests of a file, each as a line.
run_tests() {
	local word sentence

	node "test/$2.js" >tests.out 2>&1 </dev/null 9>&-
	status=$?
	while read -r word sentence; do
		[ "$word" = ok ]
		result $? "$1: ${sentence#* - }" "see below"
	done < <(sed -nE 's/^not (ok [0-9]+ - )/not_\1/; /^(not_)?ok /p' tests.out)
	[ "$status" = 0 ]
	result $? "$1: all passed" "$(tail -n 40 tests.out)"
}

if ! command -v node >/dev/null || [ "$(node -p 'parseInt(process.versions.node)')" -lt 18 ]; then
	printf '1..1\nok 1 - the client for Node # SKIP no Node 18 or newer\n'
	exit 0
fi
export WHERRY_TEST_PROGRAM=$wherry WHERRY_EXTENSION=$build_dir/wherry

if has pg; then
	start_shop_server
	export WHERRY_TEST_URL=postgres://wherry@127.0.0.1:$server_port/postgres
	run_tests pg suite
	run_tests pg killed

	# The programs of the README.
	awk '/^```/ { inside = $0 == "```js" ? ++n : 0 } inside == 1 && !/^```/' node_modules/wherry/README.md >worker.js
	awk '/^```/ { inside = $0 == "```js" ? ++n : 0 } inside == 2 && !/^```/' node_modules/wherry/README.md >send.js
	in_database postgres 'CREATE TABLE mails(order_id bigint)'
	w create --kind queue "$WHERRY_TEST_URL#jobs"
	WHERRY_URL=$WHERRY_TEST_URL node send.js >send.out 2>&1 </dev/null 9>&-
	WHERRY_URL=$WHERRY_TEST_URL node worker.js >worker.out 2>worker.err </dev/null 9>&- &
	pids+=($!)
	check "the program of the README handles its message" until_true 20 answers_in postgres \
		"SELECT (SELECT count(*) FROM mails) || ' ' || (SELECT count(*) FROM jobs)" '1 0'
	kill -TERM "${pids[-1]}"
	wait "${pids[-1]}"
	status=$? out=$(cat worker.out) err=$(cat worker.err)
	expect "and stops at SIGTERM" 0 "is:order 7"
	stop_server
else
	skip "the client for Node on PostgreSQL" "no pg"
fi

for driver in better-sqlite3 node:sqlite; do
	if has "$driver" && [ -e "$WHERRY_EXTENSION.so" ]; then
		export WHERRY_TEST_URL=sqlite:$tmp/${driver//:/_}.db WHERRY_TEST_DRIVER=$driver
		run_tests "$driver" suite
		run_tests "$driver" killed
	else
		skip "the client for Node with $driver" "no $driver, or no extension"
	fi
done

finish
