#!/bin/bash
#
# The relay does not know which engine it runs: outside src/relay/engine/ and src/relay/hold/ no code
# names an engine, a hold or their states.

. "$(dirname "$0")/tap.bash"

engines='exclusive|partitioned|partitions|competing|streaming|stream|unmarked'
holds='noted|claimed|memory'
# "FILE CODE": lines that may name one, each with its reason.
allowed=(
	# Whether an outbox is made for key-strict is checked when it is opened.
	'open.c #include "relay/engine/strict.h"'
)

is_allowed() { # FILE CODE
	local entry

	for entry in "${allowed[@]}"; do
		[[ "$1 $2" != "$entry" ]] || return 0
	done
	return 1
}

check() { # ROOT
	local file line code

	for file in "$1"/src/relay/*.[ch]; do
		[ -e "$file" ] || continue
		while IFS=: read -r line code; do
			is_allowed "$(basename "$file")" "$code" ||
				echo "$file:$line: names an engine or a hold; make it a function of engine/engine.h: $code"
		done < <(without_comments "$file" | grep -nE \
			-e "\bwh_(engine_)?($engines)(_[a-z_]+)?\b|\bwh_(hold_)?($holds)_[a-z_]+\b" \
			-e '\bWH_(EXCLUSIVE|PARTITIONED|COMPETING|STREAM|STREAM_KEEP)\b' \
			-e '\bset\.(competing|stream|keep)\b|\bengine *[!=]=|\bengine->id *[!=]=' \
			-e '^#include "relay/(engine|hold)/' |
			grep -vE '#include "relay/(engine/engine|hold/hold)\.h"$')
	done
}

plant() { # FILE LINE
	rm -rf "$scratch/src"
	mkdir -p "$scratch/$(dirname "$1")"
	printf '%s\n' "$2" >"$scratch/$1"
}

silent 'the relay names no engine outside engine/ and hold/' check "$source"

plant src/relay/a.c 'if (r->set.competing)'
says 'a setting that names an engine is noticed' 'names an engine' check "$scratch"
plant src/relay/a.c 'wh_streaming_on(r);'
says "an engine's function is noticed" 'names an engine' check "$scratch"
plant src/relay/a.c 'if (r->engine == &wh_engine_stream)'
says 'a comparison of engines is noticed' 'names an engine' check "$scratch"
plant src/relay/a.c 'if (r->engine->id == other)'
says 'a comparison of their numbers is noticed' 'names an engine' check "$scratch"
plant src/relay/a.c '#include "relay/engine/reader.h"'
says "an engine's header is noticed" 'names an engine' check "$scratch"
plant src/relay/engine/a.c 'wh_streaming_on(r);'
silent 'an engine may name itself' check "$scratch"
plant src/relay/a.c '/* as wh_streaming_on(r) */ #include "relay/engine/engine.h"'
silent 'comments may name engines' check "$scratch"
finish
