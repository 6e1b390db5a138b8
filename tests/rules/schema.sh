#!/bin/bash
#
# The numbers of the status column are those of wherry_state.

. "$(dirname "$0")/tap.bash"

# "0 1 2 3 4"
states() { # HEADER
	without_comments "$1" | sed -n '/enum wherry_state/,/}/p' |
		grep -oE '= *[0-9]+' | tr -dc '0-9\n' | sort -n | xargs
}

# Written with OR: see the head of native.sqlite.sql.
allowed() { # SQL FILE
	tr '\n\t' '  ' <"$1" |
		grep -oiE 'CHECK *\( *status *= *[0-9]+( +OR +status *= *[0-9]+)* *\)' |
		grep -oE '[0-9]+' | sort -n | xargs
}

check() { # SQL FILE, HEADER
	local number wanted

	wanted=$(states "$2")
	[ "$(allowed "$1")" = "$wanted" ] ||
		echo "$1 allows the states '$(allowed "$1")'; wherry_state has '$wanted'"
	sed 's/--.*//' "$1" | grep -oiE 'status *(=|<>|IN *\() *[0-9, ]+' |
		grep -oE '[0-9]+' | sort -un | while read -r number; do
		[[ " $wanted " == *" $number "* ]] ||
			echo "$1 compares status with $number, which is no wherry_state"
	done
}

header=$source/include/wherry/message.h
count_is() {
	local n

	n=$(states "$header" | wc -w)
	grep -q "^#define WHERRY_STATE_COUNT $n\$" "$header" || echo "WHERRY_STATE_COUNT is not $n"
}
silent 'wherry_state has as many numbers as WHERRY_STATE_COUNT says' count_is

found=0
for file in "$source"/src/outbox/sql/*.sql; do
	[ -e "$file" ] || continue
	grep -q '^-- layout: name=native ' "$file" || continue # its states may be words
	silent "the states of $(basename "$file") are those of wherry_state" check "$file" "$header"
	found=$((found + 1))
done
[ "$found" -gt 0 ] || result 'not ok' 'there is a schema'

echo 'status INTEGER NOT NULL CHECK (status = 0 OR status = 1 OR
	status = 2 OR status = 3), x' >"$scratch/a.sql"
says 'a constraint that lacks a state is noticed' "allows the states '0 1 2 3'" \
	check "$scratch/a.sql" "$header"
echo 'status INTEGER NOT NULL CHECK (status = 0 OR status = 1 OR
	status = 2 OR status = 3 OR status = 4), x WHERE status = 7' \
	>"$scratch/a.sql"
says 'a comparison with another number is noticed' 'with 7' check "$scratch/a.sql" "$header"
finish
