# What the scripts of the clients share.
# shellcheck shell=bash disable=SC2154

# shellcheck source=tests/system/postgres.bash
. "$(dirname "${BASH_SOURCE[0]}")/postgres.bash"

# find_python: sets python to one with psycopg, or says that there is none and ends.
find_python() {
	for python in python3 /usr/bin/python3 ''; do
		[ -z "$python" ] || ! "$python" -c 'import psycopg' 2>/dev/null || break
	done
	if [ -z "$python" ]; then
		printf '1..1\nok 1 - the package for Python # SKIP no psycopg\n'
		exit 0
	fi
}

# run_program FILE: it, and nothing between it and its signals.
run_program() {
	PYTHONPATH="$source_dir/clients/python/src" PYTHONDONTWRITEBYTECODE=1 exec "$python" "$1" </dev/null 9>&-
}

# run_python WHICH URL: the tests of that name of client_python.py.  The extension of a build with a
# sanitizer needs the sanitizer's library first.
run_python() {
	local preload
	preload=$(ldd "$build_dir/wherry.so" | grep -oE '/[^ ]*lib(asan|tsan)[.]so[^ ]*')
	env ${preload:+LD_PRELOAD="$preload"} ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" PYTHONDONTWRITEBYTECODE=1 \
		PYTHONPATH="$source_dir/clients/python/src" \
		"$python" -W error::ResourceWarning "$source_dir/tests/system/client_python_$1.py" "$wherry" "$build_dir/wherry" "$2" 9>&-
}
