#!/usr/bin/env bash
# The functions of the SQLite extension, called from Python.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"

# A Python whose sqlite3 loads extensions: some are built without that.
for python in python3 /usr/bin/python3 ''; do
	[ -z "$python" ] || ! "$python" -c 'import sqlite3
sqlite3.connect(":memory:").enable_load_extension(True)' 2>/dev/null || break
done
if [ -z "$python" ]; then
	printf '1..1\nok 1 - the extension # SKIP no Python here loads extensions of SQLite\n'
	exit 0
fi

# Sanitizers must come first in a program that was built without them.
preload=$(ldd "$build_dir/wherry.so" | grep -oE '/[^ ]*lib(asan|tsan)[.]so[^ ]*')
export preload
env ${preload:+LD_PRELOAD="$preload"} ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" \
	"$python" "$source_dir/tests/system/sqlite_extension.py" "$wherry" "$build_dir/wherry" "$source_dir"
