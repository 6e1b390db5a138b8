#!/bin/bash
#
# Each public header compiles alone, in C99 and in C++17.

. "$(dirname "$0")/tap.bash"

# The declaration is there because a file of nothing but an include is an empty
# translation unit.
c99() { # ROOT HEADER
	printf '#include <wherry/%s>\nextern int wherry_header_test;\n' "$2" |
		gcc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -I "$1/include" -xc -
}

cpp17() { # ROOT HEADER
	printf '#include <wherry/%s>\nextern int wherry_header_test;\n' "$2" |
		g++ -std=c++17 -pedantic -Wall -Wextra -Werror -fsyntax-only \
			-I "$1/include" -xc++ -
}

for file in "$source"/include/wherry/*.h; do
	header=${file##*/}
	silent "$header compiles alone in C99" c99 "$source" "$header"
	silent "$header compiles alone in C++17" cpp17 "$source" "$header"
done

guards() {
	local file word

	for file in "$source"/include/wherry/*.h; do
		word=WHERRY_$(basename "$file" .h | tr '[:lower:]' '[:upper:]')_H
		grep -q "^#ifndef $word\$" "$file" || echo "$file is not guarded by $word"
		[[ $file == */export.h ]] || ! grep -nE '^ *#(if|ifdef)\b' "$file" ||
			echo "$file has a condition: that belongs to export.h"
		! grep -n 'static inline' "$file" || echo "$file has an inline function"
	done
}
silent 'headers are guarded, have no conditions and no inline functions' guards

mkdir -p "$scratch/include/wherry"
echo 'size_t f(void);' >"$scratch/include/wherry/a.h"
says 'a header that lacks an include is noticed in C' error c99 "$scratch" a.h
says 'a header that lacks an include is noticed in C++' error cpp17 "$scratch" a.h
echo 'int f(int class);' >"$scratch/include/wherry/b.h"
silent 'what only C takes passes in C' c99 "$scratch" b.h
says 'what only C takes is noticed in C++' error cpp17 "$scratch" b.h
finish
