#!/bin/bash
#
# Every statement of a .sql file asks or changes something.  A layout that lacks a group of statements
# has none of them (src/store/groups.h), instead of one that selects a constant or no row.

. "$(dirname "$0")/tap.bash"

check() { # ROOT
	(
		cd "$1" || exit
		find src -name '*.sql' -print0 | LC_ALL=C sort -z | xargs -0 perl -0777 -ne '
			sub report {
				my ($at, $what) = @_;
				my $line = 1 + (substr($_, 0, $at) =~ tr/\n//);
				print "$ARGV:$line: $what: leave the group out, and let the C code ask whether it is there\n";
			}
			# Comments become blanks: lines and offsets stay.  A line "-- name:" begins a statement.
			s{^--\s+(?:name|part):.*$(*SKIP)(*FAIL)|(\x27(?:[^\x27]|\x27\x27)*\x27)|--.*$}{$1 // " " x length $&}gme;
			my $literal = qr{(?:NULL|true|false|[-+]?\d[\d.]*|N?\x27(?:[^\x27]|\x27\x27)*\x27)(?:::\w+)?};
			my $column = qr{$literal(?:\s+AS\s+\w+)?}i;
			while (/^--\s+name:\s+(\S+).*\n((?:(?!--\s+(?:name|part):).*(?:\n|\z))*)/gm) {
				my ($name, $at, $text) = ($1, $-[0], $2);
				report($at, "\"$name\" selects a constant")
					if $text =~ /^\s*SELECT\s+$column(?:\s*,\s*$column)*\s*(?:;\s*|)$/i;
			}
			s{\x27(?:[^\x27]|\x27\x27)*\x27}{"\n" x ($& =~ tr/\n//)}ge;
			while (/\b(?:WHERE|AND)\s+\(?\s*(?:0\s*=\s*1|1\s*=\s*0|1\s*<>\s*1|false|NULL|0(?=\s*(?:[;)]|\z)))(?!\s*[+*\/-])\b/gi) {
				report($-[0], "a condition that is always false");
			}
		'
	)
}

plant() { # LINE...
	rm -rf "$scratch/src"
	mkdir -p "$scratch/src/cron/sql/parts"
	printf '%s\n' '-- layout: name=native' '' '-- name: first' 'SELECT id FROM {table};' '' "$@" \
		>"$scratch/src/cron/sql/parts/a.sql"
}

silent 'every statement asks something' check "$source"
says 'the statements were found' "$(printf 'src/cron/sql/native.sqlite.sql:%s:' \
	"$(grep -n -- '-- name: schema-exists' "$source/src/cron/sql/native.sqlite.sql" | cut -d: -f1)")" \
	eval 'mkdir -p "$scratch/src/cron/sql" &&
	sed "/-- name: schema-exists/,/^$/s/{has_schema}/SELECT 1/" "$source/src/cron/sql/native.sqlite.sql" \
		>"$scratch/src/cron/sql/native.sqlite.sql" && check "$scratch"'

while IFS= read -r text; do
	plant '-- name: a' '-- Why.' "$text" '' '-- name: b' 'DELETE FROM {table};'
	says "a constant is noticed: $text" 'a.sql:6: "a" selects a constant' check "$scratch"
done <<-'END'
	SELECT 0;
	SELECT 1
	select 0::bigint;
	SELECT N'bytea';
	SELECT NULL, 'it''s' AS name;
	SELECT 1; -- why
END
plant '-- name: a' 'SELECT' '  1,' '  2;'
says 'across lines' '"a" selects a constant' check "$scratch"
while IFS= read -r text; do
	plant '-- name: a' "$text"
	says "no row is noticed: $text" 'a.sql:7: a condition that is always false' check "$scratch"
done <<-'END'
	SELECT 1 WHERE 0 = 1;
	SELECT id FROM {table} WHERE 1=0;
	SELECT id FROM {table} WHERE false;
	SELECT id FROM {table} WHERE id > :after AND FALSE;
	SELECT NULL WHERE 0;
	DELETE FROM {table} WHERE NULL;
END
plant '-- part: a' '1' '' '-- name: b' '-- SELECT 1 WHERE 0 = 1' \
	'SELECT 1 FROM {table} WHERE status + 0 = 1 AND 0 = status;' '' '-- name: c' 'SELECT DB_NAME();' \
	'' '-- name: d' 'SELECT 1, 100 WHERE {is_there};' '' '-- name: e' "SELECT set_config('a', 'b', false);" \
	'' '-- name: f' "RAISE 'x' USING HINT = '0 and NULL mean none';" '' '-- name: g' 'SELECT {number};'
silent 'a function, a table, a condition, a part and a comment are not noticed' check "$scratch"
finish
