#!/bin/bash
#
# Documents, public headers, comments and messages are in plain words: words.txt lists those
# that are not.

. "$(dirname "$0")/tap.bash"
list=$(readlink -f "$(dirname "$0")/words.txt")

# check KIND FILE...: the words in it, with their lines.
check() {
	LIST=$list perl -0777 -ne '
		BEGIN {
			$kind = shift @ARGV;
			open my $in, "<", $ENV{LIST} or die;
			local $/ = "\n";
			while (<$in>) {
				next if /^#/ || !/\S/;
				my ($word, $plain) = /^(.*?)\s{2,}(.*?)\s*$/ or die "words.txt:$.: no plain word\n";
				$word =~ s/ /\\s+/g;
				push @words, [qr/\b(?:$word)\b/i, $plain];
			}
		}
		my $text = $_;
		$text =~ s{```.*?```}{"\n" x ($& =~ tr/\n//)}gse if $kind eq "documents";
		$text =~ s{(/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27|[^\n]}{$1 // " "}gse if $kind eq "comments";
		$text =~ s{^([ \t]*--.*)|.+}{$1 // " "}gme if $kind eq "sql";
		$text =~ s/\n[ \t*]+/\n/g;
		$text =~ s/\n-- +/\n/g if $kind eq "sql";
		$text =~ s{("(?:\\.|[^"\\\n])*")|([^"\n])}{defined $1 ? $1 : " "}gse if $kind eq "strings";
		$text =~ s/"\s*\n\s*"/"\n"/g if $kind eq "strings";
		for (@words) {
			my ($pattern, $plain) = @$_;
			while ($text =~ /$pattern/g) {
				my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
				(my $found = $&) =~ s/\s+/ /g;
				print "$ARGV:$line: \"$found\": write $plain\n";
			}
		}' "$@"
}

documents() { # ROOT
	(cd "$1" && check documents ./*.md docs/*.md docs/guide/*.md docs/internals/*.md docs/man/*)
}

headers() { # ROOT
	(cd "$1" && check documents include/wherry/*.h)
}

# each KIND PATTERN: check the files of src whose names match, all at once.
each() {
	find src -name "$2" -print0 | sort -z |
		xargs -0 bash -c "$(declare -f check); list='$list'; check $1 \"\$@\"" bash
}

comments() { # ROOT
	(cd "$1" && each comments '*.[ch]' && each sql '*.sql')
}

strings() { # ROOT
	local file folder=$scratch/stripped

	cd "$1" || return
	while IFS= read -r file; do
		mkdir -p "$folder/$(dirname "$file")"
		without_comments "$file" >"$folder/$file"
	done < <(find src -name '*.c')
	cd "$folder" && each strings '*.c'
}

# subjects FILE...: comments with a sentence that begins with a word that hides who acts.
subjects() {
	perl -0777 -ne '
		my $text = $_;
		if ($ARGV =~ /sql$/) {
			$text =~ s{^([ \t]*--.*)|.+}{$1 // ""}gme;
		} else {
			$text =~ s{(/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27|[^\n]}{$1 // " "}gse;
		}
		while ($text =~ m{(?:^[ \t]*--[ ]|/\*+\s+|^[ \t]*\*[ ]+|[.][ ]+)\K(?:What|Whatever|Who|Whoever|Whose|Those)\b}gm) {
			my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
			print "$ARGV:$line: a sentence begins with \"$&\": name the subject\n";
		}' "$@"
}

all_subjects() { # ROOT
	local -a files

	cd "$1" && mapfile -t files < <(find src include \( -name '*.sql' -o -name '*.[ch]' \) | sort) &&
		subjects "${files[@]}"
}

silent 'documents are in plain words' documents "$source"
silent 'so are the public headers' headers "$source"
silent 'so are the comments of src' comments "$(readlink -f "$source")"
silent 'so are messages and help texts' strings "$(readlink -f "$source")"

mkdir -p "$scratch/t"
plant() { # TEXT
	printf '%s\n' "$1" >"$scratch/t/a.md"
}
plant 'It begins anew.'
says 'a word of the list is found, with its line and the plain word' 'a.md:1: "anew": write again' \
	check documents "$scratch/t/a.md"
plant $'One.\nThis is no\nlist. There is no list, and it is no longer there.'
says 'across lines' ':2: "is no": write is not a' check documents "$scratch/t/a.md"
plant $'A dead\nletter, letters, digits and _. There is no list. Lapsing is another word.'
silent 'what is plain is not' check documents "$scratch/t/a.md"
plant $'```\nanew\n```'
silent 'nor what a code block shows' check documents "$scratch/t/a.md"
printf '%s\n' 'anew(x); f("it was made anew");' >"$scratch/t/a.c"
says 'in a source file strings are looked at' '"anew": write again' check strings "$scratch/t/a.c"
printf '%s\n' 'anew(x); f("it is not a list");' >"$scratch/t/a.c"
silent 'and nothing else' check strings "$scratch/t/a.c"
printf '%s\n' 'f("/* anew */"); /* It begins' ' * of its own accord. */' >"$scratch/t/a.c"
says 'comments are looked at, across lines' ':2: "of its own": write its own, separate' check comments "$scratch/t/a.c"
silent 'not the strings beside them' check comments <(printf '%s\n' 'f("anew"); /* again */ anew();')
printf '%s\n' '-- It begins of' '-- its own accord.' 'SELECT anew;' >"$scratch/t/a.sql"
says 'those of SQL, too' ':1: "of its own": write its own, separate' check sql "$scratch/t/a.sql"
silent 'and no statement' check sql <(echo 'SELECT anew -- f')
silent 'no comment begins with What, Who, Whose or Those' all_subjects "$(readlink -f "$source")"
printf '%s\n' '-- part: a' '-- Rows.' '-- What a claim writes.' "SELECT 'What';" >"$scratch/t/a.sql"
says 'one of SQL that does is found' 'a.sql:3: a sentence begins with "What": name the subject' subjects "$scratch/t/a.sql"
printf '%s\n' 'f("Who"); /* One row.  Those that' ' * wait. */' >"$scratch/t/a.c"
says 'and one of C, behind another sentence' 'a.c:1: a sentence begins with "Those"' subjects "$scratch/t/a.c"
printf '%s\n' '/* Those' ' * rows. */' >"$scratch/t/a.h"
says 'and one at the beginning' 'a.h:1: a sentence begins with "Those"' subjects "$scratch/t/a.h"
printf '%s\n' '/* Says what a claim writes, and who has it. */ f("What");' >"$scratch/t/a.c"
silent 'the words elsewhere in a sentence are not' subjects "$scratch/t/a.c"
finish
