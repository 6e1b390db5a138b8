#!/bin/bash
#
# No message says "1 messages", "since 3s ago" or "for 0us": a count stands before "message%s" with
# wh_plural(), or behind its noun; a time that has passed is "3s ago" or "for 3s".

. "$(dirname "$0")/tap.bash"

# wrong FILE...: the texts that would say so, as "FILE:LINE: WHY: TEXT".
wrong() {
	perl -0777 -ne '
		my $nouns = qr/(?:message|id|row|relay|queue|tick|attempt|time|schedule|connection|key|partition|line|standby|subscription|outbox|delivery|lease|claim)/;
		s{/\*.*?\*/}{ my $c = $&; $c =~ tr/\n//cd; $c }ges;
		my $piece = qr/"(?:[^"\\\n]|\\.)*"|PRI[dux]\d+/;
		while (/((?:$piece)(?:\s*(?:$piece))*)/g) {
			my ($text, $line) = ($1, 1 + (substr($_, 0, $-[0]) =~ tr/\n//));
			$text =~ s/"\s*PRI[dux]\d+\s*"/N/g;
			$text =~ s/"\s*"//g;
			my $count = qr/(?:%N|%zu|%l*[du]|\$\d)/;
			# "at most 64 relays" and "of 3 messages" have a bound, not a count.
			my $why = $text =~ /(?<!most )(?<!than )(?<!1 to )(?<!of )(?<!by )$count (?:dead |more )?${nouns}s\b/
				? "a count before a plural"
				: $text =~ /since (?:%s|~\d)( ago)?/ ? "since with a length of time" : next;
			next if $text =~ /^"\$1 relays the outbox/; # The verb.
			print "$ARGV:$line: $why: $text\n";
		}' "$@"
}

printed() { # ROOT
	cd "$1" && find src -name '*.c' ! -name 'bench*' -print0 | LC_ALL=C sort -z |
		xargs -0 bash -c "$(declare -f wrong); wrong \"\$@\"" bash
}

silent 'no message counts one thing as several, or says since with a length of time' printed "$source"

mkdir "$scratch/bad"
cat >"$scratch/bad/a.c" <<'END'
	printf("there are %" PRId64
	       " messages", n);
	printf("it is paused since %s", span);
	printf("%" PRId64 " message%s", n, wh_plural(n));
END
says 'a count before a plural is found' 'there are %N messages' wrong "$scratch/bad/a.c"
says 'and since with a length of time' 'paused since %s' wrong "$scratch/bad/a.c"
finish
