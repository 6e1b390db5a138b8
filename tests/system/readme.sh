#!/usr/bin/env bash
# What README.md shows works: its commands, with the output that it shows, on a PostgreSQL server;
# and the C program of docs/guide/c.md against the installed library.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

readme=$source_dir/README.md

# blocks LANGUAGE [FILE]: the text of every fenced block of that language.
blocks() {
	awk -v fence="\`\`\`$1" '
		$0 == "```" && inside { inside = 0; next }
		$0 == fence && !inside { inside = 1; next }
		inside' "${2:-$readme}"
}

# ---- the commands, in order, in one folder ----

check "README.md has at most 900 words" test "$(wc -w <"$readme")" -le 900
blocks sh >commands.sh
check "README.md has commands" lines commands.sh 12
start_server
sed -i "s|^export WHERRY_URL=.*|export WHERRY_URL='$url'|" commands.sh
sed -i 's/^wherry doctor$/& || true/' commands.sh # the test server does not sync
out=$(PATH=$build_dir:$PATH bash -eu commands.sh 2>"$tmp/.err" </dev/null)
status=$?
err=$(cat "$tmp/.err")
expect "its commands succeed" 0 "no:wherry: "
stop_server

# Every line of output that it shows, in which … stands for anything.
not_printed() {
	local line

	blocks text | while IFS= read -r line; do
		line=$(sed 's/[][\\.*^$]/\\&/g; s/…/.*/g' <<<"$line")
		grep -qx -- "$line" <<<"$out"$'\n'"$err" || echo "not printed: $line"
	done
}
check "they print what README.md shows" is "$(not_printed)" ''

# The calls that it shows are those of the examples, which tests run.
for pair in python:order.py js:order.mjs go:order.go; do
	call=$(blocks "${pair%%:*}" | grep -oE "SELECT wherry_enqueue\([^\"]*\)")
	check "the call in ${pair%%:*} is that of the example" \
		grep -qF "$call" "$source_dir/examples/postgres/${pair##*:}"
done

# ---- plain SQL ----

"$wherry" create sqlite:plain.db >/dev/null
out=$(python3 "$source_dir/examples/plain_sql.py" plain.db 2>&1 &&
	"$wherry" relay sqlite:plain.db stdout: --until-empty --quiet)
status=$? err=
expect "Python sends with a plain INSERT" 0 "out:paid: order 12" \
	'out:"body":{"order": 12, "state": "paid"}' 'out:"body":{"order": 14, "state": "paid"}'
expect "what it rolled back is not seen" 0 "out:rolled back: order 13" 'no:"order": 13,'

# ---- the C program, built as a reader would ----

guide=$source_dir/docs/guide/c.md
blocks c "$guide" >outbox.c
check "the C program of the guide is examples/outbox.c" cmp outbox.c "$source_dir/examples/outbox.c"
check "of at most 60 lines" test "$(wc -l <outbox.c)" -le 60

cmake --install "$build_dir" --prefix "$tmp/prefix" >install.log 2>&1
check "the library is installed" test -e "$tmp/prefix/include/wherry/wherry.h"
pc=$(find "$tmp/prefix" -name wherry.pc -exec dirname {} +)
check "with its manual" test -e "$tmp/prefix/share/man/man3/libwherry.3"

cached() { # VARIABLE
	sed -nE "s/^$1:[A-Z]+=//p" "$build_dir/CMakeCache.txt"
}
library=$(dirname "$pc")

# compile COMMAND: the guide's, with what an uninstalled library and sanitizers need.
compile() {
	local compiler extra

	compiler=$(cached CMAKE_C_COMPILER)
	extra=$(cached CMAKE_C_FLAGS)
	# pkg-config is told only of the prefix, beside the system's own.
	PKG_CONFIG_PATH=$pc bash -eu -c "cc() { '$compiler' -std=c17 -Wall -Wextra -Werror \
		$extra \"\$@\"; }; $1"
}
command=$(blocks console "$guide" | grep '^cc ')
compile "$command" 2>"$tmp/.err"
status=$? out='' err=$(cat "$tmp/.err")
expect "it compiles with pkg-config as the guide says" 0
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
check "the business row is there" is "$(sqlite3 shop.db 'SELECT * FROM orders')" '7|paid'

# ---- what the documents point at ----

# Links that lead nowhere, and tests and scripts that are not there.
dangling() {
	local page link name

	cd "$source_dir" || return
	for page in *.md docs/*.md docs/*/*.md; do
		for link in $(grep -ohE '\]\([^)#]+\)' "$page" | sed 's/^](//; s/)$//' | grep -v '^http'); do
			[ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
		done
		for name in $(grep -ohE '`(tests|examples|src|docs)/[a-zA-Z0-9_/.-]+`' "$page" | tr -d '`' | grep -v 'NAME\|MODEL'); do
			[ -e "$name" ] || echo "$page: $name"
		done
	done
	for page in docs/internals/*.md; do
		grep -q '^## Tests$' "$page" || echo "$page ends without its tests"
	done
}
gone=$(dangling)
out=$gone
check "the documents point at what is there" is "$gone" ""
finish
