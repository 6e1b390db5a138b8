#!/bin/bash
#
# Only an engine knows itself: outside src/relay/engine/ and src/relay/hold/ no code names an engine, a
# hold or their states, unless it is listed here.  The rest asks the tables of functions (engine.h, hold.h)
# and src/store/engines.h.

. "$(dirname "$0")/tap.bash"

# "FILE NAME REASON": names that a file may use, each with the reason.  * is any name.
allowed=(
	'store/engines.h * the list of engines, and what others may ask of them'
	'store/engines.c * their words, and which of them work beside each other'
	'outbox/lease.c WH_POSITIONS a program with a relay of its own works alone under its lease'
	'outbox/lease.c WH_STREAM the same, on a table that is only streamed'
	'store/partitions.c WH_POSITIONS_SHARED the one engine whose relays share keys'
	'store/leases.c WH_COMPETING "join" is the statement of relays that share one lease'
	'store/claims.h wh_claimed_fn rows that are claimed, by any engine or program'
	'cli/cmd_create.c "stream" the option --stream of wherry create, which only an outbox has'
	'cli/create_outbox.c "stream" the option --stream of wherry create, which makes a slot and a publication'
	'cli/create_subscription.c "stream" the same, which a subscription does not have'
	'outbox/stream.c "stream" a .sql file, and a word in the head line of others'
	'publish/nats/nats_answer.c "stream" a member of what the server answers'
	'publish/redis/redis_settings.c "stream" a parameter of the URL'
	'publish/redis/redis_back.c "stream" a type of keys, in a command of the server'
	'db/trace.c "stream" the name of a call to the database'
	'relay/stages.c ->in_memory a property that every hold has: hold/hold.h'
	'relay/settle.c ->in_memory a property that every hold has: hold/hold.h'
)

# The words that name engines and holds: the files of their folders, and the constants of the engines.
files_of() { # FOLDER
	find "$source/src/relay/$1" -name '*.c' -printf '%f\n' | sed 's/[.]c$//; s/_.*//' |
		grep -vxE 'engine|read|in' | LC_ALL=C sort -u | paste -sd'|'
}
engines=$(files_of engine)
holds=$(files_of hold)
constants=$(sed -n '/^typedef enum wh_engine/,/^} wh_engine;/p' "$source/src/store/engines.h" |
	without_comments /dev/stdin | grep -oE '\bWH_[A-Z_]+' | grep -vx WH_ENGINES | paste -sd'|')
words=$(tr '[:upper:]_' '[:lower:]-' <<<"${constants//WH_/}")

# Words of other folders, which the relay uses for engines alone.
in_relay='partitions|stream|memory'

names() { # ROOT: "FILE:LINE:NAME: CODE"
	(
		cd "$1/src" || exit
		find . -name '*.[ch]' -not -path './relay/engine/*' -not -path './relay/hold/*' \
			-printf '%P\n' | LC_ALL=C sort >"$scratch/files"
		[ -s "$scratch/files" ] || exit 0
		xargs -a "$scratch/files" bash -c "$(declare -f without_comments); without_comments numbered \"\$@\"" bash |
			PARTS="$engines|$holds" RELAY=$in_relay CONSTANTS=$constants WORDS=$words perl -ne '
			BEGIN {
				%w = map { $_ => $ENV{$_} } qw(PARTS RELAY CONSTANTS WORDS);
				$everywhere = qr{
					\bwh_(?:engine_|hold_)?(?:$w{PARTS}|in_memory)(?:_[a-z0-9_]+)?\b
					| \bwh_(?:engine|hold)_(?:$w{RELAY})\b
					| \b(?:$w{CONSTANTS})\b
					| "(?:$w{WORDS})"
					| (?:->|\.)in_memory\b
					| \bstmt\.(?:$w{PARTS})_\w+
					| \bset\.(?:competing|stream|keep)\b
					| \bengine(?:->id)?\s*[!=]=
				}x;
				$relay = qr{\bwh_(?:$w{RELAY})_[a-z0-9_]+\b};
				$include = qr{^\s*\#include\s+"(relay/(?!(?:engine/engine|hold/hold)\.h")(?:engine|hold)/[^"]*)"};
			}
			chomp;
			my ($file, $line, $code) = split /:/, $_, 3;
			if ($code =~ /^\s*#include/) {
				print "$file:$line:$1: $code\n" if $code =~ $include;
				next;
			}
			for my $pattern ($everywhere, $file =~ m{^relay/} ? $relay : ()) {
				print "$file:$line:$&: $code\n" while $code =~ /$pattern/g;
			}'
	)
}

check() { # ROOT
	names "$1" | ALLOWED=$(printf '%s\n' "${allowed[@]}") perl -ne '
		BEGIN {
			for (split /\n/, $ENV{ALLOWED}) {
				my ($file, $name, $why) = split " ", $_, 3;
				die "no reason: $_\n" unless $why;
				$ok{"$file $name"} = 1;
			}
		}
		my ($file, $line, $name, $code) = /^([^:]*):(\d+):(.*?): (.*)/ or die;
		print "src/$file:$line: $name names an engine or a hold; make it a function of relay/engine/engine.h, " .
			"or a property in store/engines.h: $code\n" unless $ok{"$file $name"} || $ok{"$file *"};'
}

# Entries of the list that nothing needs.
needless() { # ROOT
	local entry file name

	names "$1" >"$scratch/names"
	for entry in "${allowed[@]}"; do
		read -r file name _ <<<"$entry"
		if [ "$name" = '*' ]; then
			grep -qF "$file:" "$scratch/names"
		else
			awk -v file="$file" -v name="$name" '
				index($0, file ":") == 1 && index($0, ":" name ": ") { found = 1 }
				END { exit !found }' "$scratch/names"
		fi || echo "nothing in src/$file needs '$name' any more"
	done
}

plant() { # FILE LINE
	rm -rf "$scratch/src"
	mkdir -p "$scratch/$(dirname "$1")"
	printf '%s\n' "$2" >"$scratch/$1"
}

[[ "|$engines|" == *'|competing|'* && "|$holds|" == *'|noted|'* && "|$constants|" == *'|WH_STREAM|'* ]] &&
	result ok "engines and holds were found" || result 'not ok' "engines and holds were found"
silent 'no engine is named outside engine/ and hold/' check "$source"
silent 'each name that is listed is used' needless "$source"

n=0
while IFS=$'\t' read -r file name code; do
	plant "src/$file" "$code"
	says "$file: $code" "src/$file:1: $name names an engine" check "$scratch"
	n=$((n + 1))
done <<'END'
relay/a.c	set.competing	if (r->set.competing)
relay/a.c	wh_streaming_on	wh_streaming_on(r);
daemon/a.c	wh_streaming_on	wh_streaming_on(r);
relay/a.c	wh_engine_stream	x = &wh_engine_stream;
relay/a.c	engine ==	if (r->engine == other)
relay/a.c	engine->id ==	if (r->engine->id == other)
daemon/a.c	WH_COMPETING	if (engine_of(plan) != WH_COMPETING)
store/a.h	WH_STREAM	x = WH_STREAM;
relay/a.c	relay/engine/reader.h	#include "relay/engine/reader.h"
cli/a.c	relay/hold/noted.h	#include "relay/hold/noted.h"
relay/a.c	wh_reader_of	wh_reader_of(r)->cursor = 0;
relay/a.c	wh_hold_memory	if (r->engine->hold != &wh_hold_memory)
relay/a.c	wh_hold_noted	x = &wh_hold_noted;
relay/a.c	wh_hold_claimed	x = &wh_hold_claimed;
relay/a.c	wh_partitions_take	wh_partitions_take(r);
relay/a.c	->in_memory	return r->engine->hold->in_memory;
daemon/a.c	"competing"	if (strcmp(engine, "competing") == 0)
relay/a.c	"stream"	return "stream";
END
plant src/relay/stages.c 'r->hold->in_memory; wh_streaming_on(r);'
says 'another name in a file with a listed one is noticed' 'wh_streaming_on names' check "$scratch"
plant src/relay/engine/a.c 'wh_streaming_on(r);'
silent 'an engine may name itself' check "$scratch"
plant src/relay/a.c '/* as wh_streaming_on(r) */ #include "relay/engine/engine.h"'
silent 'comments may name engines' check "$scratch"
plant src/daemon/a.c 'wh_partitions_list(s); wh_wal_open(w); help = "With the engine stream."; x.streams = wh_engine_reads_log(e);'
silent 'words of other folders, and texts, are not names' check "$scratch"
allowed+=('relay/gone.c wh_reader_of because')
says 'an entry that is not needed is noticed' 'nothing in src/relay/gone.c needs' needless "$source"
finish
