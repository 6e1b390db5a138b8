#!/bin/bash
#
# Statements on SQL Server that change rows which others may hold.  A plan that scans the table takes an
# update lock on each row that it reads, those of open producers too, and waits for them.  So a statement
# names its row by the key, or finds ids first and joins the table to them: ids first, in a plan that
# does not depend on statistics, with a seek.  OUTPUT without INTO fails (error 334) where somebody has put a
# trigger on the table.  And "inspect" prints SQL as one line, of which a comment would leave nothing.

. "$(dirname "$0")/tap.bash"

# What is wrong with the statements of each layout, once each: "FILE: STATEMENT: …".
check() { # ROOT
	(
		cd "$1" || exit
		find src -path 'src/*/sql/*.mssql.sql' | grep -vE '/parts/|^src/cron/' | LC_ALL=C sort |
			MSSQL=$source/tests/rules/mssql.pl perl -e '
	use strict;
	require $ENV{MSSQL};
	my %seen;
	for my $layout (map { chomp; $_ } <STDIN>) {
		my @blocks = blocks($layout);
		my %raw = map { $_->[0] => $_->[4] } @blocks;
		for my $inspect (grep { $_->[0] eq "inspect" } @blocks) {
			$raw{$1} =~ / -- / and print "$layout: a comment inside of what inspect prints\n"
				while $inspect->[2] =~ /\{\x27(\w+)\}/g;
		}
		for (statements($layout)) {
			my ($name, $file, $text) = @$_;
			while ($text =~ /\b((?:UPDATE|DELETE(?: FROM)?|INSERT INTO) ([{@"\w][^\s(]*)[ (].*?)(?:;|$)/g) {
				my ($all, $who) = ($1, $2);
				pos($text) = $-[1] + 6;
				next if $all =~ /^UPDATE \S+ (?!SET|WITH)/ || $who =~ /^(?:ON|OUTPUT|STATISTICS|ISNULL)$/;
				my $hints = $all =~ /^(?:UPDATE|DELETE FROM) \S+ WITH \(([^)]*)\)/ ? $1 : "";
				my $alias = $who;
				($who, $hints) = ($1, $2 // "")
					if $who =~ /^\w+$/ && $all =~ /(\S+) AS $who\b(?: WITH \(([^()]*(?:\([^)]*\))?[^()]*)\))?/;
				next if $who !~ /^\{table[._\w]*\}$/;
				my @wrong;
				push @wrong, "OUTPUT without INTO a variable fails where a table has a trigger"
					if $all =~ / OUTPUT (.*)/ && $1 !~ / INTO @/;
				my $joined = $all =~ / FROM .* JOIN / || $all =~ /\bIN \((?!\d)/;
				my $keyed = $all =~ /\b(?:id|consumer_hash) = (?:[:@]|HASH)/;
				my $seeks = $hints =~ /ROWLOCK/ && $hints =~ /FORCESEEK/;
				if ($all =~ /^INSERT/) {
					push @wrong, "what it locks needs FORCESEEK" if !$keyed && $all =~ / JOIN / &&
						grep { /UPDLOCK/ && !/READPAST|HOLDLOCK|FORCESEEK/ } $all =~ /WITH \(([^)]*)\)/g;
				} elsif ($joined) {
					push @wrong, "finds its rows by a scan: join it to their ids" if $all !~ / FROM .* JOIN /;
					push @wrong, "its target needs WITH (ROWLOCK, FORCESEEK)" if !$seeks;
					push @wrong, "needs OPTION (LOOP JOIN, FORCE ORDER)"
						unless $all =~ /OPTION \(LOOP JOIN, FORCE ORDER\)/;
					push @wrong, "its target stands before the ids"
						if $all =~ /\bFROM \Q$who\E AS \Q$alias\E\b/ && $all !~ / \Q$alias\E\.id BETWEEN /;
				} elsif (!$keyed && !$seeks) {
					push @wrong, "finds its rows by a scan: join it to their ids";
				}
				print "$file: $name: ", substr($all, 0, 40), "...: ", join(", ", @wrong), "\n"
					if @wrong && !$seen{"$layout $all"}++;
			}
		}
	}'
	)
}

# Statements that no server runs: a block is empty, an aggregate is of a subquery (error 130), or a variable has no type
# anywhere.  A name before " =" may be that of a parameter in EXEC.
unsound() { # ROOT
	(
		cd "$1" || exit
		find src -path 'src/*/sql/*.mssql.sql' | grep -v /parts/ | LC_ALL=C sort |
			MSSQL=$source/tests/rules/mssql.pl perl -e '
	use strict;
	require $ENV{MSSQL};
	my $type = qr/N?VARCHAR|(?:VAR)?BINARY|(?:BIG|SMALL|TINY)?INT|BIT|DATETIME\w*|UNIQUEIDENTIFIER|TABLE|\{/;
	for my $layout (map { chomp; $_ } <STDIN>) {
		for (statements($layout)) {
			my ($name, $file, $text) = @$_;
			my %seen;
			while ($text =~ /\b(?:MIN|MAX|SUM|AVG|COUNT|COUNT_BIG)(\((?:[^()]++|(?1))*+\))/g) {
				print "$file: $name: an aggregate of a subquery\n" if $1 =~ /\(SELECT\b/;
			}
			print "$file: $name: an empty block\n" if $text =~ /\bBEGIN END\b/;
			for my $v (grep { !$seen{$_}++ } $text =~ /(?<!@)@(\w+)\b(?!@)/g) {
				print "$file: $name: \@$v is not declared\n"
					if $text =~ /(?<!@)@\Q$v\E\b(?! =)/ && $text !~ /@\Q$v\E (?:AS )?$type/;
			}
		}
	}'
	)
}

plant() { # STATEMENT
	rm -rf "$scratch/src"
	mkdir -p "$scratch/src/outbox/sql/parts"
	printf -- '-- part: by_seek\nWITH (ROWLOCK, FORCESEEK)\n\n-- part: loop\nOPTION (LOOP JOIN, FORCE ORDER)\n' \
		>"$scratch/src/outbox/sql/parts/a.mssql.sql"
	printf -- '-- layout: name=native\n\n-- include: a.mssql.sql\n\n-- name: x\n%s\n' "$1" >"$scratch/src/outbox/sql/native.mssql.sql"
}

silent 'statements on SQL Server wait for no rows but their own' check "$source"
silent 'and have no empty block, no aggregate of a subquery and no variable that is not declared' unsound "$source"
plant 'IF @@TRANCOUNT = 0 BEGIN END; DECLARE @a INT = 1; SELECT @a;'
says 'noticed: an empty block' 'an empty block' unsound "$scratch"
plant 'SELECT MIN(CASE WHEN 1 = 1 THEN (SELECT 2) END) FROM {table};'
says 'noticed: an aggregate of a subquery' 'an aggregate of a subquery' unsound "$scratch"
plant 'DECLARE @limit BIGINT = 1; SELECT TOP (@limit - @fresh) 1;'
says 'noticed: a variable that is not declared' '@fresh is not declared' unsound "$scratch"

plants 18 <<'END'
-|UPDATE {table} SET status = 2 WHERE id = :id AND status = 1;
-|UPDATE t SET status = 2 FROM @ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id {loop};
-|DELETE l FROM @l AS l JOIN @b AS b ON b.k = l.k;
-|DELETE FROM {wherry_lease} WHERE outbox = N{name};
-|INSERT INTO {table}(a) OUTPUT inserted.id INTO @new VALUES (1);
-|DELETE t FROM {table} AS t {by_seek} LEFT JOIN @ids AS i ON i.id = t.id WHERE t.id BETWEEN :first AND :last {loop};
-|DELETE t FROM (SELECT TOP (9) id FROM {table} WITH (READPAST) ORDER BY id) AS d JOIN {table} AS t {by_seek} ON t.id = d.id {loop};
needs WITH (ROWLOCK, FORCESEEK)|UPDATE t SET a = 2 FROM @ids AS i JOIN {table} AS t WITH (ROWLOCK) ON t.id = i.id {loop};
needs WITH (ROWLOCK, FORCESEEK)|UPDATE t SET a = 2 FROM @ids AS i JOIN {table} AS t ON t.id = i.id {loop};
needs OPTION|UPDATE t SET status = 2 FROM @ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id;
stands before the ids|DELETE t FROM {table} AS t {by_seek} JOIN @ids AS i ON i.id = t.id {loop};
by a scan|UPDATE {table} SET status = 0 WHERE status = 1 AND claimed_at < @then;
by a scan|DELETE FROM {table} WHERE status = 4 AND id IN (SELECT id FROM {table} WHERE message_hash = @h);
needs OPTION|SET @sql = N'DELETE t FROM @ids AS i JOIN ' + @box + N' AS t {by_seek} ON t.id = i.id; SET @n = 1;';
needs OPTION|DELETE a FROM @ids AS i JOIN {table_archive} AS a {by_seek} ON a.id = i.id;
OUTPUT without INTO|INSERT INTO {table}(a) OUTPUT inserted.id VALUES (1);
OUTPUT without INTO|DELETE t OUTPUT deleted.a INTO {table}(a) FROM @ids AS i JOIN {table_received} AS t {by_seek} ON t.id = i.id {loop};
needs FORCESEEK|INSERT INTO {table_dead}(a) SELECT t.a FROM @ids AS i JOIN {table} AS t WITH (UPDLOCK, ROWLOCK) ON t.id = i.id {loop};
END
finish
