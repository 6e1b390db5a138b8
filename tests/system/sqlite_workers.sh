#!/usr/bin/env bash
# Workers in other languages on the functions of the SQLite extension: two at once on one file, each
# job is done once.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

cp -r "$source_dir/examples/sqlite" .
mkdir node_modules
ln -s "${build_dir%/*}/npm/node_modules"/* node_modules 2>/dev/null
preload=$(ldd "$build_dir/wherry.so" | grep -oE '/[^ ]*lib(asan|tsan)[.]so[^ ]*')

# Two workers, until the queue is empty.
run() { # NAME SCRIPT PROGRAM OPTION TEST: the test is a line of the language, with the option of the program
	local name=$1 script=$2 program=$3 workers=() i

	if ! "$program" "$4" "$5" 2>/dev/null; then
		skip "$name: workers" "it loads no extensions here, or is missing"
		return
	fi
	rm -f shop.db*
	w create --kind queue sqlite:shop.db#jobs
	for i in {1..100}; do
		echo "SELECT wherry_send('jobs', 'job $i');"
	done >jobs.sql
	{ echo "BEGIN IMMEDIATE;" && cat jobs.sql && echo "COMMIT;"; } |
		env ${preload:+LD_PRELOAD="$preload"} ASAN_OPTIONS=detect_leaks=0 \
			sqlite3 -bail -cmd ".load $build_dir/wherry" shop.db >/dev/null
	for i in 1 2; do
		env ${preload:+LD_PRELOAD="$preload"} ASAN_OPTIONS=detect_leaks=0 \
			"$program" "sqlite/$script" shop.db "$build_dir/wherry" jobs >"$i.out" 2>"$i.err" &
		workers+=("$!")
		pids+=("$!")
	done
	check "$name: workers empty the queue" until_true 60 empty
	check "$name: and run on" kill -0 "${workers[@]}"
	kill "${workers[@]}"
	wait "${workers[@]}" 2>/dev/null
	check "$name: each job was done once" is "$(sort 1.out 2.out)" "$(printf 'job %s\n' {1..100} | sort)"
	check "$name: without an error" is "$(grep -v Warning 1.err 2.err | grep -v trace-warnings)" ""
}
empty() {
	[ "$(sqlite3 shop.db 'SELECT count(*) FROM jobs')" = 0 ]
}

python=python3
"$python" -c 'import sqlite3; sqlite3.connect(":memory:").enable_load_extension(True)' 2>/dev/null || python=/usr/bin/python3
run Python worker.py "$python" -c 'import sqlite3; sqlite3.connect(":memory:").enable_load_extension(True)'
node=${WHERRY_TEST_NODE:-node}
run node:sqlite worker.mjs "$node" -e 'new (require("node:sqlite").DatabaseSync)(":memory:", {allowExtension: true}).enableLoadExtension(true)'
run better-sqlite3 better.mjs "$node" -e 'new (require("better-sqlite3"))(":memory:")'

finish
