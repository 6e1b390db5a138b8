#!/usr/bin/env bash
# What README.md shows works: its commands, its C program against the installed library.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

readme=$source_dir/README.md

# blocks LANGUAGE: the text of every fenced block of that language.
blocks() {
	awk -v fence="\`\`\`$1" '
		$0 == "```" && inside { inside = 0; next }
		$0 == fence && !inside { inside = 1; next }
		inside' "$readme"
}

# ---- the commands, in order, in one folder ----

blocks sh >commands.sh
check "README.md has commands" lines commands.sh 15
ln -s "$source_dir/examples" examples
out=$(PATH=$build_dir:$PATH bash -eu commands.sh 2>"$tmp/.err" </dev/null)
status=$?
err=$(cat "$tmp/.err")
expect "its commands succeed" 0
expect "enqueue takes the earthquakes" 0 "out:1707 enqueued, 0 duplicates"
expect "status counts them" 0 "out:pending     1707"
expect "the relay delivers them" 0 "err:1707 delivered, 0 retried, 0 dead"
check "in a file, one on each line" is "$(wc -l <quakes.ndjson)" 1707
expect "plain SQL and Python send" 0 "out:paid: order 12" \
	'out:"key":"11","headers":{},"body":{"order":11,"state":"paid"}' \
	'out:"body":{"order": 12, "state": "paid"}' 'out:"body":{"order": 14, "state": "paid"}'
expect "what Python rolled back is not seen" 0 "out:rolled back: order 13" \
	'no:"order": 13,'
expect "a command is called for a message" 0 'out:{"order":21}'

# ---- the C program, built as a reader would ----

blocks c >outbox.c
check "its C program is examples/outbox.c" cmp outbox.c "$source_dir/examples/outbox.c"
check "of at most 60 lines" test "$(wc -l <outbox.c)" -le 60

cmake --install "$build_dir" --prefix "$tmp/prefix" >install.log 2>&1
check "the library is installed" test -e "$tmp/prefix/include/wherry/wherry.h"
pc=$(find "$tmp/prefix" -name wherry.pc -exec dirname {} +)
check "with its manual" test -e "$tmp/prefix/share/man/man3/libwherry.3"

cached() { # VARIABLE
	sed -nE "s/^$1:[A-Z]+=//p" "$build_dir/CMakeCache.txt"
}
library=$(dirname "$pc")

# compile COMMAND: the README's, with what an uninstalled library and sanitizers need.
compile() {
	local compiler extra

	compiler=$(cached CMAKE_C_COMPILER)
	extra=$(cached CMAKE_C_FLAGS)
	# pkg-config is told only of the prefix, beside the system's own.
	PKG_CONFIG_PATH=$pc bash -eu -c "cc() { '$compiler' -std=c17 -Wall -Wextra -Werror \
		$extra \"\$@\"; }; $1"
}
command=$(blocks console | grep '^cc ')
compile "$command" 2>"$tmp/.err"
status=$? out='' err=$(cat "$tmp/.err")
expect "it compiles with pkg-config as README.md says" 0
rm -f shop.db*
out=$(LD_LIBRARY_PATH=$library ./outbox 2>"$tmp/.err")
status=$?
err=$(cat "$tmp/.err")
expect "and delivers what it committed" 0 \
	'out:"topic":"orders","key":"7","headers":{},"body":{"order":7,"state":"paid"}' "no:error"
check "once" is "$(wc -l <<<"$out")" 1
out=$(LD_LIBRARY_PATH=$library ./outbox 2>&1)
status=$?
expect "again, with the order's next message" 0 'out:{"id":2,'
check "the business row is there" is "$(sql shop.db 'SELECT * FROM orders')" '7|paid'

# ---- what the documents point at ----

# Links that lead nowhere, and tests and scripts that are not there.
dangling() {
	local page link name

	cd "$source_dir" || return
	for page in *.md docs/*.md docs/*/*.md; do
		for link in $(grep -ohE '\]\([^)#]+\)' "$page" | sed 's/^](//; s/)$//' | grep -v '^http'); do
			[ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
		done
		for name in $(grep -ohE '`(tests|examples|src|docs)/[a-zA-Z0-9_/.-]+`' "$page" | tr -d '`' | grep -v NAME); do
			[ -e "$name" ] || echo "$page: $name"
		done
	done
	grep -oE '^\* `[a-z0-9_]+`$' docs/internals/*.md | tr -d '*` ' | while IFS=: read -r page name; do
		grep -rqw "$name" --include='*.c' tests || echo "$page: no test $name"
	done
	for page in docs/internals/*.md; do
		grep -q '^## Tests$' "$page" || echo "$page ends without its tests"
	done
}
gone=$(dangling)
out=$gone
check "the documents point at what is there" is "$gone" ""
finish
