#!/bin/bash
#
# libwherry.so exports what the headers declare and symbols.txt lists: no more, no less.

. "$(dirname "$0")/tap.bash"

declared() { # ROOT
	local file

	for file in "$1"/include/wherry/*.h; do
		without_comments "$file" | sed '/^[[:space:]]*#/d'
	done | tr '\n' ' ' | tr ';{}' '\n\n\n' | grep -v typedef |
		sed -nE 's/^[^(]*[ *](wherry_[a-z0-9_]+)[[:space:]]*\(([^*].*)?$/\1/p' | LC_ALL=C sort -u
}

unmarked() { # ROOT
	local file

	for file in "$1"/include/wherry/*.h; do
		without_comments "$file" | sed '/^[[:space:]]*#/d'
	done | tr '\n' ' ' | tr ';{}' '\n\n\n' | grep -v typedef |
		grep -E '[ *]wherry_[a-z0-9_]+[[:space:]]*\(([^*]|$)' | grep -v WHERRY_API
}

exported() { # LIBRARY
	nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
		LC_ALL=C sort
}

same() { # FILE FILE
	diff "$1" "$2"
}

declared "$source" >"$scratch/declared"
exported "$build/libwherry.so" >"$scratch/exported" || result 'not ok' 'the library can be read'
grep -v '^#' "$source/tests/rules/symbols.txt" >"$scratch/listed"

silent 'symbols.txt lists what the headers declare' same "$scratch/listed" "$scratch/declared"
silent 'the library exports what symbols.txt lists' same "$scratch/listed" "$scratch/exported"
silent 'symbols.txt is in order' env LC_ALL=C sort -c "$scratch/listed"
none() { ! unmarked "$source"; }
silent 'every declaration is marked WHERRY_API' none
if [ "$(wc -l <"$scratch/declared")" -gt 40 ]; then
	result ok 'the headers were understood'
else
	result 'not ok' 'the headers were understood'
fi

sed 1d "$scratch/listed" >"$scratch/less"
says 'a symbol that is missing is noticed' 'wherry_' same "$scratch/listed" "$scratch/less"
mkdir -p "$scratch/include/wherry"
echo 'int wherry_new_thing(void); typedef int (*wherry_fn)(int); /* int wherry_no(void); */' \
	>"$scratch/include/wherry/a.h"
says 'a new declaration is noticed' wherry_new_thing declared "$scratch"
says 'one without WHERRY_API too' wherry_new_thing unmarked "$scratch"
finish
