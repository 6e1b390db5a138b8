#!/bin/bash
#
# The base name of a .c file stands once in src/, so that it alone names the file.

. "$(dirname "$0")/tap.bash"

check() { # ROOT
	find "$1/src" -name '*.c' -printf '%f %p\n' | LC_ALL=C sort | awk '
		$1 == name { print $2 ": " path " has this base name too: rename one of them" }
		{ name = $1; path = $2 }'
}

plant() { # FILE...
	local file

	rm -rf "$scratch/src"
	for file; do
		mkdir -p "$scratch/$(dirname "$file")"
		touch "$scratch/$file"
	done
}

silent 'each base name stands once' check "$source"

plant src/publish/kafka/jobs.c src/publish/webhook/jobs.c
says 'a base name that stands twice in a layer is found' 'jobs.c has this base name too' \
	check "$scratch"
plant src/publish/stream.c src/db/postgres/stream.c
says 'so is one that stands in two layers' 'stream.c has this base name too' check "$scratch"
plant src/publish/kafka/jobs.c src/publish/webhook/jobs.h
silent 'a header may be called as a file elsewhere' check "$scratch"
finish
