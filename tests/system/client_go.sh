#!/usr/bin/env bash
# The client for Go against PostgreSQL and SQLite: clients/go/test, as TAP.
#
# With Debian's packages alone it runs on lib/pq; with the modules pgx 5 and mattn/go-sqlite3, which must be
# in the cache of modules, on these.  In `./dev test deep` also the runs that kill workers.
#
# Writes TAP.

# shellcheck source=tests/system/languages.bash
. "$(dirname "$0")/languages.bash"

command -v go >/dev/null || {
	printf '1..1\nok 1 - the client for Go # SKIP no Go\n'
	exit 0
}
start_shop_server
export WHERRY_TEST_PROGRAM=$wherry WHERRY_TEST_EXTENSION=$build_dir/wherry
export WHERRY_TEST_URL=postgres://wherry@127.0.0.1:$server_port/postgres?sslmode=disable
export GOCACHE=${build_dir%/*}/go-cache GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
clients=$source_dir/clients/go

# Sanitizers must come first in a program that was built without them.
preload=$(ldd "$build_dir/wherry.so" | grep -oE '/[^ ]*lib(asan|tsan)[.]so[^ ]*')

# run_tests NAME ARGUMENT...: the tests of a program that is built, each as a line.
run_tests() {
	local name=$1 word sentence
	shift
	env ${preload:+LD_PRELOAD="$preload"} ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" "$@" -test.v >tests.out 2>&1 </dev/null 9>&-
	status=$?
	while read -r word sentence; do
		[ "$word" = PASS: ]
		result $? "$name: ${sentence% (*}" "see below"
	done < <(sed -nE 's/^ *--- ((PASS|FAIL): .*)/\1/p' tests.out)
	[ "$status" = 0 ]
	result $? "$name: all passed" "$(grep -v "^=== " tests.out | tail -n 40)"
}

if (cd "$clients/test" && GOPROXY=off go test -c -o "$tmp/modules.test" .) 2>build.err; then
	run_tests modules ./modules.test

	# The program of the README, with the modules of the tests.
	cp -R "$clients" clients
	mkdir clients/test/worker
	awk '/^```/ { inside = $0 == "```go" && !n++ } inside && !/^```/' "$clients/README.md" >clients/test/worker/main.go
	out=$(cd clients/test && GOPROXY=off go vet ./worker 2>&1 && GOPROXY=off go build -o "$tmp/worker" ./worker 2>&1)
	status=$?
	expect "the program of the README is built" 0
	in_database postgres 'CREATE TABLE mails(order_id bigint)'
	w create --kind queue "postgres://wherry@127.0.0.1:$server_port/postgres#jobs"
	WHERRY_URL=$WHERRY_TEST_URL ./worker >worker.out 2>worker.err </dev/null 9>&- &
	pids+=($!)
	check "the program of the README handles its message" until_true 20 answers_in postgres \
		"SELECT (SELECT count(*) FROM mails) || ' ' || (SELECT count(*) FROM jobs)" '1 0'
	kill -TERM "${pids[-1]}"
	wait "${pids[-1]}"
	status=$? out=$(cat worker.out) err=$(cat worker.err)
	expect "and stops at SIGTERM" 0 "is:order 7"
elif grep -qE 'module lookup disabled|requires go >=|unknown directive|invalid go version' build.err; then
	skip "the client for Go on pgx 5 and SQLite" "its modules are not in the cache, or Go is too old"
else
	out=$(cat build.err) err='' status=1
	expect "the client for Go is built with modules" 0
fi

if [ -d /usr/share/gocode/src/github.com/lib/pq ]; then
	mkdir -p path/src/wherry.dev
	cp -R "$clients" path/src/wherry.dev/go
	if (cd path/src/wherry.dev/go/test && GO111MODULE=off GOPATH=$tmp/path:/usr/share/gocode \
		go test -tags debian -c -o "$tmp/debian.test" .) 2>build.err; then
		run_tests "Debian's packages" ./debian.test
	else
		out=$(cat build.err) err='' status=1
		expect "the client for Go is built with Debian's packages" 0
	fi
else
	skip "the client for Go with Debian's packages" "no lib/pq"
fi

unformatted=$(gofmt -l "$clients")
check "the client for Go is formatted" is "$unformatted" ""

stop_server
finish
