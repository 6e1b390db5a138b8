#!/bin/bash
#
# The .c files of a folder call each other in one direction: A calls B, and B calls nothing that leads
# back to A.  Calls are read from the objects of the build: a function that one file defines and another
# one names.

. "$(dirname "$0")/tap.bash"

# "CALLER CALLEE REASON": calls that close a circle, each with the reason why they stay.
allowed=(
	'daemon/http.c daemon/run.c /healthz and /readyz ask the daemon for its health'
	'db/postgres/postgres_wait.c db/postgres/postgres_open.c another connection asks whether a silent server works'
	'db/postgres/postgres_watch.c db/postgres/postgres_exec.c LISTEN is a statement, whose answer may bring notifications'
	'db/postgres/postgres_stream_open.c db/postgres/postgres_stream.c a row of the snapshot is read as one of the log'
	'publish/custom.c publish/publish.c a scheme that is built in cannot be registered'
	'publish/handlers/handlers_pool.c publish/handlers/handlers.c a thread finds its function, and the last one frees all'
	'publish/kafka/kafka_guard.c publish/kafka/kafka_url.c a warning is about the whole URL, which must be read'
	'publish/kafka/kafka_verdict.c publish/kafka/kafka_report.c a verdict on the destination breaks off'
	'relay/leadership.c relay/open.c a lease is taken only for an outbox that the engine can work on'
	'relay/dead_letters.c relay/settle.c a message whose dead letter is delivered is settled as dead'
	'relay/settle.c relay/dispatch.c the destination goes on while the database acknowledges'
	'relay/settle.c relay/leadership.c an acknowledgement may find the lease lost'
	'relay/settle.c relay/settle_alone.c what the database refuses to write together is written one by one'
	'relay/engine/reader.c relay/engine/read_ahead.c the table of the engine exclusive, which reads ahead'
	'relay/engine/streaming_connection.c relay/engine/streaming.c a new connection looks up the transactions in memory, which streaming.c keeps'
	'relay/engine/streaming_intake.c relay/engine/streaming.c a row that arrives is counted to its transaction, which streaming.c keeps'
	'relay/engine/streaming_intake.c relay/engine/unmarked.c a row of the log is met as the engine does it'
)

# The calls within folders, as "CALLER CALLEE".
calls() { # ROOT BUILD
	find "$2" -name '*.c.o' -path '*.dir/src/*' | while read -r object; do
		file=${object##*.dir/src/}
		[ ! -e "$1/src/${file%.o}" ] || printf '%s\0' "$object"
	done | xargs -0 nm -A -P | sed -nE \
		-e 's#^.*\.dir/src/([^ ]+)\.o: ([^ ]+) [TW] .*#defines \2 \1#p' \
		-e 's#^.*\.dir/src/([^ ]+)\.o: ([^ ]+) U.*#names \2 \1#p' |
		LC_ALL=C sort -u | awk '
		function folder(file) { sub(/\/[^\/]*$/, "", file); return file }
		$1 == "defines" { where[$2] = $3; next }
		$2 in where && where[$2] != $3 && folder(where[$2]) == folder($3) { print $3, where[$2] }' |
		LC_ALL=C sort -u
}

# Circles among these calls.
circles() { # FILE
	tsort "$1" 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: //' |
		awk '/loop/ { print "a circle of calls, of which one is to go:"; next } { print "  src/" $0 }'
}

listed() {
	local entry

	for entry in ${allowed[@]+"${allowed[@]}"}; do
		echo "$entry" | cut -d' ' -f1,2
	done | LC_ALL=C sort -u
}

check() { # ROOT BUILD
	calls "$1" "$2" >"$scratch/all"
	listed | LC_ALL=C comm -23 "$scratch/all" - >"$scratch/rest"
	circles "$scratch/rest"
}

is_built() { # ROOT BUILD FILE: a build may leave out a database or a destination
	[ ! -e "$1/src/$3" ] || [ -n "$(find "$2" -path "*.dir/src/$3.o" -print -quit)" ]
}

# Entries of the list that are of no use: without them there is no circle, either.
needless() { # ROOT BUILD
	calls "$1" "$2" >"$scratch/all"
	listed >"$scratch/listed"
	LC_ALL=C comm -23 "$scratch/all" "$scratch/listed" >"$scratch/rest"
	while read -r call; do
		is_built "$1" "$2" "${call% *}" || continue
		grep -qxF "$call" "$scratch/all" || echo "no such call is left: $call"
		[ -n "$(circles <(cat "$scratch/rest" - <<<"$call"))" ] ||
			echo "this call closes no circle: $call"
	done <"$scratch/listed"
}

plant() { # FILE CODE
	local object=$scratch/planted/build/x.dir/src/$1.o

	mkdir -p "$(dirname "$object")" "$scratch/planted/src/$(dirname "$1")"
	printf '%s\n' "$2" >"$scratch/planted/src/$1"
	"${CC:-cc}" -c -o "$object" "$scratch/planted/src/$1"
}
planted() { check "$scratch/planted" "$scratch/planted/build"; }

if [ "$(calls "$source" "$build" | wc -l)" -gt 100 ]; then
	result ok 'the objects of the build were understood'
else
	result 'not ok' 'the objects of the build were understood'
fi
silent 'the files of a folder call each other in one direction' check "$source" "$build"
silent 'each call that is listed closes a circle' needless "$source" "$build"

plant db/a.c 'int b(void); int a(void); int a(void) { return b(); }'
plant db/b.c 'int c(void); int b(void); int b(void) { return c(); }'
plant db/c.c 'int c(void); int c(void) { return 1; }'
silent 'files may call each other in one direction' planted
plant db/c.c 'int a(void); int c(void); int c(void) { return a(); }'
says 'a circle is found' 'a circle of calls' planted
says 'with the files in it' 'src/db/b.c' planted
allowed=('db/c.c db/a.c because')
silent 'a call that is listed closes none' planted
allowed=('db/c.c db/a.c because' 'db/a.c db/d.c because')
says 'a listed call that is gone is found' 'no such call is left: db/a.c db/d.c' \
	needless "$scratch/planted" "$scratch/planted/build"
allowed=()
plant db/c.c 'extern int a_table; int c(void); int c(void) { return a_table; }'
plant db/a.c 'int b(void); int a_table; int a(void); int a(void) { return b(); }'
silent 'a table is not a call' planted
plant db/deep/c.c 'int a(void); int c(void); int c(void) { return a(); }'
plant db/c.c 'int d(void); int d(void) { return 1; }'
silent 'what another folder calls is not looked at' planted
finish
