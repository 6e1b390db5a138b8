# The SQL for SQL Server, as statements whose parts are filled in.

use strict;

my %path;
$path{s{.*/}{}r} = $_ for glob("src/*/sql/*.sql src/*/sql/parts/*.sql");

# The blocks of a file, and of those that it includes: [name, file, text, part?, text with comments, waits?].
sub blocks {
	my ($file) = @_;
	my (@all, $block);
	open(my $in, "<", $file) or die "$file: $!";
	while (<$in>) {
		if (/^-- include: (\S+)/) { push @all, blocks($path{$1} // die "$file: no $1"); undef $block; }
		elsif (/^-- (part|name): (\S+)/) { push @all, $block = [$2, $file, "", $1 eq "part", ""]; }
		elsif ($block) { $block->[5] = 1 if /^-- waits: /; $block->[4] .= $_ if !/^--/; s/(^|\s)--(\s.*|)$/$1/; $block->[2] .= $_; }
	}
	return @all;
}

# Its statements: [name, file, text on one line, does it or a part of it wait?].  The table that a procedure is given is {table}, too.  Texts of
# procedures come last, as those of "migrate-1".
sub statements {
	my @blocks = blocks(@_);
	my %part = map { $_->[0] => $_->[2] } @blocks;
	my %waits = map { $_->[0] => $_->[5] } @blocks;
	my $late = qr/^(?:migrate|indexes|inspect|procedures)/;
	my @all;
	for (sort { ($a->[0] =~ $late) <=> ($b->[0] =~ $late) } grep { !$_->[3] } @blocks) {
		my ($name, $file, $text, undef, undef, $waits) = @$_;
		for (1 .. 12) {
			last unless $text =~ s/\{('?)([\w-]+)(?::([\w.]*))?\}/
				my ($quote, $part, $alias) = ($1, $part{$2}, $3);
				$waits ||= $waits{$2};
				defined $part ? $quote . $part =~ s<\{\.\}><defined $alias && $alias ne "." ? "$alias." : "">ger
					=~ s<:\.\}><defined $alias && $alias ne "." ? ":$alias}" : "}">ger . $quote
					: "\x01" . substr($&, 1, -1) . "\x02"/ge;
		}
		$text =~ tr/\x01\x02/{}/;
		$text =~ s/' \+ \@box \+ N'/{table}/g;
		push @all, [$name, $file, $text =~ s/\s+/ /gr, $waits];
	}
	return @all;
}

1;
