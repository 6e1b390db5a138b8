#!/bin/bash
#
# Every setting, command and exit code has its item in wherry(1), every public function
# in libwherry(3).

. "$(dirname "$0")/tap.bash"

program=$build/wherry
manual=$source/docs/man/wherry.1
library=$source/docs/man/libwherry.3

settings() {
	sed -nE 's/^[[:space:]]*\[WH_[A-Z_]+\] = \{"([a-z_.]+)".*/\1/p' \
		"$source/src/config/settings.c"
}

commands() {
	grep -oE 'wh_cmd_[a-z_]+' "$source/src/cli/commands.c" | sed 's/^wh_cmd_//' |
		LC_ALL=C sort -u
}

exits() {
	sed -nE 's/^[[:space:]]*X\([A-Z]+, *([0-9]+),.*/\1/p' "$source/src/cli/cli.h"
}

functions() {
	grep -v '^#' "$source/tests/rules/symbols.txt"
}

# lacking FILE MACROS WORD...: the words that no line of those macros names.
lacking() {
	local file=$1 macros=$2 word quoted

	shift 2
	if [ ! -r "$file" ]; then
		echo "$file is missing"
		return
	fi
	for word; do
		quoted=${word//./\\.}
		grep -Eq "^\.($macros)( .*)?[ \"]$quoted([ \",()]|\$)" "$file" ||
			echo "$(basename "$file") has no .${macros%%|*} for $word"
	done
}

mapfile -t keys < <(settings)
mapfile -t words < <(commands)
mapfile -t codes < <(exits)
mapfile -t names < <(functions)

count() { # NAME LEAST LIST...
	local name=$1 least=$2

	shift 2
	if [ $# -ge "$least" ]; then
		result ok "$name: $#"
	else
		result 'not ok' "$name: $#, at least $least are expected"
	fi
}
count 'settings were found' 20 "${keys[@]}"
count 'commands were found' 10 "${words[@]}"
count 'exit codes were found' 5 "${codes[@]}"
count 'functions were found' 40 "${names[@]}"

silent 'every setting has its item in wherry(1)' lacking "$manual" 'It' "${keys[@]}"
silent 'every command has its item in wherry(1)' lacking "$manual" 'It|Ss|Sh' "${words[@]}"
silent 'every exit code has its item in wherry(1)' lacking "$manual" 'It' "${codes[@]}"
silent 'every public function has its place in libwherry(3)' \
	lacking "$library" 'Fn|Fo|It|Nm' "${names[@]}"

# The other way round: what the manual describes must be there.
invented() {
	local key

	sed -nE 's/^\.It (Cm|Va|Li|Ic|Sy) ([a-z]+\.[a-z_]+).*/\2/p' "$manual" | while read -r key; do
		[[ " ${keys[*]} " == *" $key "* ]] || echo "wherry(1) describes $key, which is no setting"
	done
	grep -oE 'wherry_[a-z0-9_]+' "$library" | sort -u | while read -r key; do
		[[ " ${names[*]} " == *" $key "* ]] ||
			grep -rqw "$key" "$source/include" ||
			echo "libwherry(3) names $key, which is not in the headers"
	done
}
silent 'the manual invents nothing' invented

settings_shown() {
	local text key

	text=$("$program" help settings) || echo "wherry help settings failed"
	for key in "${keys[@]}"; do
		grep -qF -- "$key" <<<"$text" || echo "wherry help settings lacks $key"
	done
}
silent 'wherry help settings shows every setting' settings_shown

commands_shown() {
	local text word

	text=$("$program" help) || echo "wherry help failed"
	for word in "${words[@]}"; do
		grep -qw -- "$word" <<<"$text" || echo "wherry help lacks $word"
		"$program" help "$word" >/dev/null || echo "wherry help $word failed"
		"$program" "$word" --help >/dev/null || echo "wherry $word --help failed"
	done
}
silent 'every command is in the overview and has help of its own' commands_shown

standards() {
	local key standard

	while read -r key standard; do
		grep -A 12 -E "^\.It .*[ \"]${key//./\\.}([ \",]|\$)" "$manual" |
			grep -qF -- "$standard" ||
			echo "wherry(1) does not give the default of $key, $standard"
	done < <(sed -nE 's/^[[:space:]]*\[WH_[A-Z_]+\] = \{"([a-z_.]+)", [A-Z]+, "([^"]+)".*/\1 \2/p' \
		"$source/src/config/settings.c")
}
silent 'the manual gives the default of each setting' standards

# unknown_tests ROOT: names of tests that no test has.  A name of six words in a page is a test's, and
# one of four in parentheses in a comment of SQL.
unknown_tests() {
	cd "$1" || return
	find tests -type f -exec grep -hoE '[a-z0-9]+(_[a-z0-9]+){3,}' {} + | sort -u >"$scratch/tests"
	{
		grep -oHE '`[a-z0-9]+(_[a-z0-9]+){5,}`' docs/internals/*.md
		find src -name '*.sql' -exec grep -HE '^[[:space:]]*--' {} + |
			perl -ne 'my ($page) = /^([^:]+):/; print "$page:$1\n" while /[(,] ?([a-z0-9]+(?:_[a-z0-9]+){3,})(?=[),])/g'
	} | tr -d '`' | sort -u | while IFS=: read -r page name; do
		grep -qxF "$name" "$scratch/tests" || echo "$page: no test $name"
	done
}
silent 'the tests that pages and comments of SQL name are there' unknown_tests "$source"

mkdir -p "$scratch/r/tests" "$scratch/r/docs/internals" "$scratch/r/src"
echo 'static void a_row_that_is_there(void);' >"$scratch/r/tests/a.c"
echo 'It is `a_test_that_is_not_there`.' >"$scratch/r/docs/internals/a.md"
printf '%s\n' '-- One (a_row_that_is_gone).' '-- Two (a_row_that_is_there).' >"$scratch/r/src/a.sql"
says 'a test of a page that is missing is noticed' 'a.md: no test a_test_that_is_not_there' unknown_tests "$scratch/r"
says 'and one of a comment' 'a.sql: no test a_row_that_is_gone' unknown_tests "$scratch/r"

# unlisted ROOT: pages of the guide that an index does not name, and pages that llms.txt names and that are not there.
unlisted() {
	local page

	cd "$1" || return
	for page in docs/guide/*.md; do
		grep -qF "($page)" llms.txt || [ "$page" = docs/guide/README.md ] || echo "llms.txt does not name $page"
		grep -qE "\\(${page##*/}(#[^)]*)?\\)" docs/guide/README.md || [ "$page" = docs/guide/README.md ] ||
			echo "docs/guide/README.md does not name $page"
	done
	grep -oE '\]\([^)#]+' llms.txt | cut -c 3- | while read -r page; do
		[ -e "$page" ] || echo "llms.txt names $page, which is missing"
	done
}
silent 'each page of the guide is in both indexes' unlisted "$source"

mkdir -p "$scratch/l/docs/guide"
echo '[a](docs/guide/a.md) [b](docs/guide/gone.md)' >"$scratch/l/llms.txt"
echo '[c](c.md#part)' >"$scratch/l/docs/guide/README.md"
touch "$scratch/l/docs/guide/a.md" "$scratch/l/docs/guide/c.md"
says 'a page that no index names is noticed' 'README.md does not name docs/guide/a.md' unlisted "$scratch/l"
says 'and one that programs would not find' 'llms.txt does not name docs/guide/c.md' unlisted "$scratch/l"
says 'and a name that leads nowhere' 'docs/guide/gone.md, which is missing' unlisted "$scratch/l"

printf '.Sh SETTINGS\n.It Cm relay.lease Ar duration\n.It 3\n.Fn wherry_db_open "x"\n' >"$scratch/a.1"
silent 'an item that is there is found' lacking "$scratch/a.1" It relay.lease 3
silent 'a function that is there is found' lacking "$scratch/a.1" Fn wherry_db_open
says 'a setting without its item is noticed' 'relay.leas' lacking "$scratch/a.1" It relay.leas
says 'a command without its item is noticed' 'no .It for SETTINGS' \
	lacking "$scratch/a.1" It SETTINGS
says 'a function without its place is noticed' 'wherry_db' lacking "$scratch/a.1" Fn wherry_db
says 'a page that is missing is noticed' 'is missing' lacking "$scratch/b.1" It x
finish
