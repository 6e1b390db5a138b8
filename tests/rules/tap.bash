# What the rules share: TAP, and a scratch folder.

set -uo pipefail
source=${WHERRY_SOURCE:-$(readlink -f "$(dirname "$0")/../..")}
build=${WHERRY_BUILD:-$source/build/dev}
tests=0 failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

result() { # ok|"not ok" NAME
	tests=$((tests + 1))
	echo "$1 $tests - $2"
	[ "$1" = ok ] || failures=$((failures + 1))
}

# silent NAME COMMAND...: the command succeeds and prints nothing.
silent() {
	local name=$1 out

	shift
	if out=$("$@" 2>&1) && [ -z "$out" ]; then
		result ok "$name"
	else
		result 'not ok' "$name"
		printf '%s\n' "$out" | sed 's/^/# /'
	fi
}

# says NAME TEXT COMMAND...: what the command prints has the text in it.
says() {
	local name=$1 text=$2 out

	shift 2
	out=$("$@" 2>&1)
	if [[ $out == *"$text"* ]]; then
		result ok "$name"
	else
		result 'not ok' "$name"
		printf 'wanted: %s\ngot: %s\n' "$text" "$out" | sed 's/^/# /'
	fi
}

# plants N: N lines of what is wanted, | and a statement.  Each statement is planted with plant(), and
# check() says that of it; -: nothing.
plants() {
	local n=0 wanted statement
	while IFS='|' read -r wanted statement; do
		plant "$statement"
		if [ "$wanted" = - ]; then
			silent "allowed: $statement" check "$scratch"
		else
			says "noticed: $statement" "$wanted" check "$scratch"
		fi
		n=$((n + 1))
	done
	[ "$n" -eq "$1" ] || result 'not ok' 'all plants were tried'
}

finish() {
	echo "1..$tests"
	[ "$failures" -eq 0 ]
	exit
}

# The same lines without C comments; strings too when asked.  With "numbered" each line begins
# with "FILE:NUMBER:".
without_comments() { # [numbered] [strings] FILE...
	local numbered=0 strings=0

	[ "$1" != numbered ] || { numbered=1 && shift; }
	[ "$1" != strings ] || { strings=1 && shift; }
	perl -0777 -ne '
		BEGIN { $numbered = shift @ARGV; $strings = shift @ARGV }
		s{("(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27)|/\*.*?\*/|//[^\n]*}{
			my $all = $&;
			my $text = $1;
			defined $text && !$strings ? $text : "\n" x ($all =~ tr/\n//) . " "
		}gse;
		if ($numbered) {
			my $n = 0;
			$_ = join "", map { $n++; "$ARGV:$n:$_\n" } split /\n/;
		}
		print' "$numbered" "$strings" "$@"
}
