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

# below_daemon ROOT: the commands that texts of the library name, as "FILE: TEXT".  An error says what
# repairs it, and the program which command does (src/daemon/advice.c).
below_daemon() {
	local file commands

	commands=$(sed -n 's/^\t\.name = "\([a-z]*\)[ "].*/\1/p' "$1"/src/cli/*.c | sort -u | paste -sd '|')
	while IFS= read -r file; do
		without_comments "$file" | grep -oE "\"[^\"]*\\bwherry ($commands)\\b[^\"]*\"" | sed "s|^|$file: |"
	done < <(find "$1/src" -name '*.c' -not -path '*/src/cli/*' -not -path '*/src/daemon/*' | LC_ALL=C sort)
	return 0
}

silent 'no text below the program names a command' below_daemon "$source"

mkdir -p "$scratch/low/src/db" "$scratch/low/src/cli"
printf '\t.name = "create",\n' >"$scratch/low/src/cli/a.c"
printf 'fail("run `wherry create`");\n' >"$scratch/low/src/db/a.c"
says 'a command in a text of the library is found' 'run `wherry create`' below_daemon "$scratch/low"

mkdir "$scratch/bad"
cat >"$scratch/bad/a.c" <<'END'
	warn("look: `wherry retry%s "
	     "ID`");
END
says 'a placeholder between backticks is found' 'wherry retry%s ID' placeholders "$scratch/bad/a.c"
finish
