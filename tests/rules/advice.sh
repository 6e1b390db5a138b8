#!/bin/bash
#
# Commands in printed texts can be pasted: a command between backticks, or one that begins a
# string, has no placeholder such as ID or NAME.  `wherry help COMMAND` is the one exception,
# since a help text describes the word.

. "$(dirname "$0")/tap.bash"

# placeholders FILE...: the commands with one, as "FILE: COMMAND".
placeholders() {
	perl -0777 -ne '
		s{"\s*\n?\s*"}{}g;
		my $is_sql = $ARGV =~ /\.sql$/;
		s{--[^\n]*}{}g if $is_sql;
		my $text = $_;
		my @commands = $text =~ m{`((?:wherry\b|--)[^`]*)`}g;
		push @commands, $text =~ m{"\s*(wherry [^"]*)"}g unless $is_sql;
		push @commands, $text =~ m{"( (?:--[a-z-]+ [A-Z]{2,} ?|[A-Z]{2,})+)"}g unless $is_sql;
		for (@commands) {
			s/\\n.*//s;
			next if /^wherry help ([a-z]+ )?[A-Z]/ or /[;"]/;
			next unless /(?:^|[\s=|\x27])([A-Z]{2,})(?=$|[\s=|\x27])/;
			print "$ARGV: $_\n";
		}' "$@"
}

printed() { # ROOT
	local file

	cd "$1" || return
	while IFS= read -r file; do
		mkdir -p "$scratch/$(dirname "$file")"
		without_comments "$file" >"$scratch/$file"
	done < <(find src -name '*.c' | LC_ALL=C sort)
	(cd "$scratch" && find src -name '*.c' -print0 | sort -z | xargs -0 bash -c "$(declare -f placeholders); placeholders \"\$@\"" bash)
	find src -name '*.sql' -print0 | sort -z | xargs -0 bash -c "$(declare -f placeholders); placeholders \"\$@\"" bash
}

silent 'no command that is printed has a placeholder' printed "$source"

mkdir "$scratch/bad"
cat >"$scratch/bad/a.c" <<'END'
	warn("look: `wherry retry%s "
	     "ID`");
END
says 'a placeholder between backticks is found' 'wherry retry%s ID' placeholders "$scratch/bad/a.c"
finish
