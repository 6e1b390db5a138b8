#!/bin/bash
#
# Every public function that can fail is a row of a table in tests/fault/*operations.c, or is
# named here with the reason why not.

. "$(dirname "$0")/tap.bash"

# Those that a relay's whole life is made of: tests/fault/life_test.c; and those that a
# handler calls: tests/fault/handlers_test.c.  What needs a server is not swept yet.
elsewhere='wherry_odbc_borrow wherry_postgres_borrow wherry_relay_run wherry_relay_step wherry_call_begin wherry_call_enqueue'

can_fail() { # ROOT
	local file

	for file in "$1"/include/wherry/*.h; do
		without_comments "$file" | sed '/^[[:space:]]*#/d'
	done | tr '\n' ' ' | tr ';{}' '\n\n\n' | grep -v typedef |
		grep -E 'wherry_error \*err\)' |
		sed -nE 's/^[^(]*[ *](wherry_[a-z0-9_]+)[[:space:]]*\(([^*].*)?$/\1/p' | LC_ALL=C sort -u
}

swept() { # FILE...
	{
		sed -nE 's/^[[:space:]]*\{"([a-z0-9_]+)[" ].*/wherry_\1/p' "$@"
		tr ' ' '\n' <<<"$elsewhere"
	} | LC_ALL=C sort -u
}

same() { # FILE FILE
	diff "$1" "$2"
}

can_fail "$source" >"$scratch/can_fail"
swept "$source"/tests/fault/*operations.c >"$scratch/swept"
silent 'the table has every public function that can fail' \
	same "$scratch/swept" "$scratch/can_fail"
if [ "$(wc -l <"$scratch/can_fail")" -gt 30 ]; then
	result ok 'the headers were understood'
else
	result 'not ok' 'the headers were understood'
fi
grep -v enqueue_many "$scratch/swept" >"$scratch/less"
says 'one that is missing is noticed' wherry_outbox_enqueue_many \
	same "$scratch/less" "$scratch/can_fail"
mkdir -p "$scratch/include/wherry"
echo 'wherry_code wherry_new(int a, wherry_error *err); int wherry_safe(int a);' \
	>"$scratch/include/wherry/a.h"
says 'a new declaration is noticed' wherry_new can_fail "$scratch"
finish
