#!/bin/bash
#
# Documents, public headers and messages are in plain words: words.txt lists those that are not.
# Comments of src are not looked at.

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
				next if $word =~ s/^documents:// && $kind eq "strings";
				push @words, [qr/\b(?:$word)\b/i, $plain];
			}
		}
		my $text = $_;
		$text =~ s{```.*?```}{"\n" x ($& =~ tr/\n//)}gse if $kind eq "documents";
		$text =~ s/\n[ \t*]+/\n/g;
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

strings() { # ROOT
	local file folder=$scratch/stripped

	cd "$1" || return
	while IFS= read -r file; do
		mkdir -p "$folder/$(dirname "$file")"
		without_comments strings "$file" >"$folder/$file"
	done < <(find src -name '*.c')
	cd "$folder" && find src -name '*.c' -print0 | sort -z | xargs -0 bash -c "$(declare -f check); list='$list'; check strings \"\$@\"" bash
}

silent 'documents are in plain words' documents "$source"
silent 'so are the public headers' headers "$source"
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
printf '%s\n' 'anew(x); f("it is no list");' >"$scratch/t/a.c"
silent 'and nothing else' check strings "$scratch/t/a.c"
finish
