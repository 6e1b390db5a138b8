#!/bin/bash
#
# Reads on SQL Server of rows which others may hold.  Where READ_COMMITTED_SNAPSHOT is off, as it is unless somebody
# sets it, a read waits for every open transaction that has changed a row on its way, so one open producer stops
# `status`, the metrics and a relay.  So a statement finds a row by its key, or says what it does: it passes over locked
# rows (READPAST, which needs ROWLOCK, because a lock of a page is waited for, and READCOMMITTEDLOCK, without which it is
# refused where the setting is on), reads what is not committed (NOLOCK), or locks (UPDLOCK, REPEATABLEREAD).  If it is to
# wait, its comment says so: "-- waits: WHY".  The position and the exceptions of a log are read as they are: only relays and
# operators write there, for milliseconds, and what was passed over would look delivered.

. "$(dirname "$0")/tap.bash"

# "FILE: STATEMENT: …", once each.
check() { # ROOT
	(
		cd "$1" || exit
		find src -path 'src/*/sql/*.mssql.sql' | grep -v /parts/ | LC_ALL=C sort |
			MSSQL=$source/tests/rules/mssql.pl perl -e '
	use strict;
	require $ENV{MSSQL};
	my %seen;
	my $key = qr/(?:\w+\.)?"?(?:id|row_id|RowVersion|message_id|message_hash|consumer_hash)"? (?:= [:@\w(]|IN \(SELECT)/;
	my $keys = qr/(?:\w+\.)?"?(?:pKind|target)"? = \S+ AND (?:\w+\.)?"?(?:pKey|name)"? = /;
	my $ids = qr/(?:\@\w+|\(SELECT DISTINCT.*?\)) AS (\w+) ON \g{-1}\.id = \w+\./;
	for my $layout (map { chomp; $_ } <STDIN>) {
		for (statements($layout)) {
			my ($name, $file, $text, $waits) = @$_;
			my $say = sub { print "$file: $name: $_[0]\n" unless $seen{"$file $name $_[0]"}++ };
			for my $hints (grep { /READPAST/ } $text =~ /WITH \(([^)]*)\)/g) {
				$say->("READPAST needs $_") for grep { $hints !~ /\b$_\b/ } qw(READCOMMITTEDLOCK ROWLOCK);
			}
			next if $name =~ /^(?:inspect|indexes)/;
			my $waited = 0;
			while ($text =~ /\b(?:FROM|JOIN) (\{table[._\w]*\})(?: AS (\w+))?(?: WITH \(((?:[^()]|\([^)]*\))*)\))?/g) {
				my ($table, $alias, $hints, $begin, $end) = ($1, $2 // "", $3 // "", $-[0], $+[0]);
				next if $hints =~ /NOLOCK|READPAST|UPDLOCK|REPEATABLEREAD/ || $table =~ /_(?:progress|exception)\}/;
				next if substr($text, $end) =~ /^(?: ON| WHERE|(?: LEFT)? JOIN [^;]*? WHERE) \(?(?::ident IS NOT NULL AND )?(?:$key|$keys)/;
				next if substr($text, $end) =~ /^ JOIN $ids/;
				my $before = substr($text, 0, $begin);
				next if $before =~ /DELETE(?: TOP \([^)]*\))? $/;
				my ($own) = $before =~ /.*(?:^|;|BEGIN|END|THEN)(.*)$/;
				next if $alias ne "" && $own =~ /(?:UPDATE|DELETE) \Q$alias\E\b/;
				$waited++;
				$say->("reads rows of $table that others may hold: " . substr($text, $begin, 60)) if !$waits;
			}
			$say->("says that it waits, and does not") if $waits && !$waited;
		}
	}'
	)
}

plant() { # STATEMENT
	rm -rf "$scratch/src"
	mkdir -p "$scratch/src/outbox/sql"
	printf -- '-- layout: name=native\n\n-- part: unlocked\nWITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)\n\n-- name: x\n%b\n' \
		"$1" >"$scratch/src/outbox/sql/native.mssql.sql"
}

silent 'reads on SQL Server wait for nobody, or say why' check "$source"

plants 14 <<'END'
-|SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 0;
-|SELECT o.id FROM {table} AS o WITH (NOLOCK) WHERE o.status = 0;
-|SELECT 1 FROM {table} WHERE id = :id;
-|SELECT a FROM @ids AS i JOIN {table} AS t ON t.id = i.id;
-|UPDATE t SET a = 1 FROM @ids AS i JOIN {table} AS t WITH (ROWLOCK, FORCESEEK) ON t.id = i.id;
-|-- waits: it is open until then\nSELECT MAX(id) FROM {table};
-|SELECT 1 FROM {wherry_lease} WHERE outbox = :name;
others may hold|SELECT COUNT_BIG(*) FROM {table} WHERE status = 0;
others may hold|SELECT COUNT_BIG(*) FROM {table_archive};
others may hold|SELECT a.id FROM {table} AS a {unlocked} WHERE EXISTS (SELECT 1 FROM {table} AS b WHERE b.k = a.k);
others may hold|SELECT id FROM {table} WITH (READCOMMITTEDLOCK) WHERE status = 0;
READPAST needs ROWLOCK|SELECT id FROM {table} WITH (READCOMMITTEDLOCK, READPAST);
READPAST needs READCOMMITTEDLOCK|SELECT id FROM {table} WITH (READPAST, ROWLOCK);
says that it waits|-- waits: for nothing\nSELECT id FROM {table} {unlocked};
END
finish
