#!/bin/bash
#
# Names in the SQL for SQL Server are written as they were made.  In a database whose collation tells cases apart
# "headers" does not find the column Headers, and in a Turkish one "id" does not find Id, and LOWER makes
# "ıd" of it.

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

	# The columns of the tables and table variables that a text makes, by the name of the table.
	sub made {
		my ($text, $of) = @_;
		while ($text =~ /(?:CREATE TABLE |DECLARE )(\{[^}]*\}(?:"\w+")?|\@\w+)(?: TABLE)? ?(\((?:[^()]++|(?2))*\))/g) {
			my ($table, $columns) = ($1, substr($2, 1, -1));
			1 while $columns =~ s/(\((?:[^()]++|(?1))*\))/ /;
			$of->{$table}{$_} = 1 for map { /^\s*"?(\w+)"?/ ? $1 : () } split /,/, $columns;
		}
		while ($text =~ /ALTER TABLE (\{[^}]*\}) ADD "?(\w+)"?/g) { $of->{$1}{$2} = 1; }
	}

	# Does a column have the name, but for its case?
	sub otherwise {
		my ($name, @tables) = @_;
		my @like = grep { lc $_ eq lc $name } map { keys %$_ } @tables;
		return @like && !(grep { $_ eq $name } @like) ? $like[0] : undef;
	}

	my (%statements, %tables, %named);
	for my $layout (map { chomp; $_ } <STDIN>) {
		$statements{$layout} = [statements($layout)];
		made($_->[2], $tables{$layout} //= {}) for grep { $_->[0] =~ /^(?:migrate|add)/ } @{$statements{$layout}};
		$named{$_} = 1 for map { keys %$_ } values %{$tables{$layout}};
	}
	for my $layout (sort keys %statements) {
		for (@{$statements{$layout}}) {
			my ($name, $file, $text) = @$_;
			my (%alias, %variable, %of) = ();
			%of = %{$tables{$layout}} if $tables{$layout};
			my $say = sub { print "$file: $name: $_[0]\n" unless $seen{"$file $name $_[0]"}++ };
			made($text, \%of);
			push @{$alias{$2}}, $1 while $text =~ /(\{[^}]*\}|\@\w+|\)) AS (\w+)\b/g;
			while ($text =~ /\b(\w+)\."?(\w+)\b/g) {
				my ($who, $column) = ($1, $2);
				my @known = $who =~ /^(?:inserted|deleted)$/ ? grep { /^\{/ } keys %of : grep { $of{$_} } @{$alias{$who}};
				next if !@known || grep { !$of{$_} } @{$alias{$who}};
				my $other = otherwise($column, map { $of{$_} } @known);
				$say->("$who.$column: the column is $other") if defined $other;
			}
			while ($text =~ /(?<![\w.\@:\x27"])(\w+)\b(?!\x27)/g) {
				my $other = otherwise($1, values %of);
				$say->("$1: the column is $other") if defined $other && $1 ne uc $1 && !$named{$1};
			}
			while ($text =~ /(\@\w+)(?! = \@)/g) {
				my $first = $variable{lc $1} //= $1;
				$say->("$1: elsewhere it is $first") if $first ne $1;
			}
			while ($text =~ /\b(LOWER|UPPER)(\((?:[^()]++|(?2))*\))/g) {
				my ($function, $of) = ($1, $2);
				$say->("$function$of: give it a collation")
					if $of !~ /COLLATE/ && $of !~ /^\((?:\w*CONVERT|CAST|STUFF)?\(/ && $of !~ /^\(N?\x27/ && $of !~ /UNIQUEIDENTIFIER|NVARCHAR\(36\)|VARCHAR\(36\)/;
			}
		}
	}'
	)
}

plant() { # STATEMENT
	rm -rf "$scratch/src"
	mkdir -p "$scratch/src/queue/sql"
	printf -- '-- layout: name=a\n\n-- name: migrate-1\n%s\n\n-- name: x\n%s\n' \
		'CREATE TABLE {table}(Id BIGINT NOT NULL, Headers NVARCHAR(MAX)); CREATE TABLE {table_received}(headers NVARCHAR(MAX));' \
		"$1" >"$scratch/src/queue/sql/a.mssql.sql"
}

silent 'names in the SQL for SQL Server are written as they were made' check "$source"

plants 11 <<'END'
-|SELECT t.Headers, r.headers FROM {table} AS t JOIN {table_received} AS r ON r.headers = t.Headers;
-|DECLARE @id BIGINT = :id; EXEC sp_getapplock @Id = @id; SELECT N'headers', "HEADERS" FROM {table} WHERE Id = @id;
-|SELECT LOWER(c.name COLLATE Latin1_General_BIN2), LOWER(CONVERT(NVARCHAR(36), NEWID())) FROM sys.columns AS c;
-|DECLARE @gone TABLE(ID INT); SELECT g.ID FROM @gone AS g;
the column is Headers|SELECT t.headers FROM {table} AS t;
the column is headers|DELETE t OUTPUT r.Headers FROM {table_received} AS r;
the column is Id|DELETE FROM {table} WHERE id = :id;
the column is ID|DECLARE @gone TABLE(ID INT); SELECT g.id FROM @gone AS g;
elsewhere it is @Token|DECLARE @Token INT; SET @token = 1;
give it a collation|SELECT 1 FROM sys.columns AS c WHERE LOWER(c.name) = N'id';
give it a collation|SET @sql = N'body ' + (SELECT UPPER(TYPE_NAME(c.system_type_id)) FROM sys.columns AS c);
END
finish
