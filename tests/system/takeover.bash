# What the scripts about a killed relay share.
# shellcheck shell=bash disable=SC2154

# A relay with a lease of an hour, whose process is $relay_pid; its output is out.ndjson.
start_leader() { # URL [OPTION...]
	: >"$tmp/relay.log" # what the leader before it wrote
	"$wherry" relay "$1" file:out.ndjson --lease 1h "${@:2}" 2>"$tmp/relay.log" &
	relay_pid=$!
	pids+=("$relay_pid")
	until_true "${patience:-20}" grep -q 'event=leading' "$tmp/relay.log"
}

is_acknowledged() { # URL
	"$wherry" status "$1" | grep -q '^pending  *0$'
}

kill_leader() {
	kill -KILL "$relay_pid"
	wait "$relay_pid" 2>/dev/null
}

# takes_over URL [OPTION...]: the checks; OPTIONs are for all relays.
takes_over() {
	local url=$1
	shift
	rm -f out.ndjson
	seq 1 2000 | sed 's/.*/{"n":&}/' >many.ndjson
	head -1 many.ndjson >one.ndjson

	w enqueue --lines "$url" --topic t --from one.ndjson
	start_leader "$url" "$@"
	until_true "${patience:-20}" lines out.ndjson 1
	until_true "${patience:-20}" is_acknowledged "$url"
	kill_leader
	w enqueue --lines "$url" --topic t --from one.ndjson
	w status "$url"
	expect "$url: status knows that the relay is gone, whatever its lease has left" 0 \
		"out:warning     no relay is running" "out:none; the last was " \
		"out:it ended without releasing its lease" "no:all is well" "no:lease for "
	w doctor "$url"
	expect "$url: and so does doctor" 1 "out:bad   relay" "out:whose process has ended"
	w relay "$url" file:out.ndjson --lease 1h --until-empty --timeout "${patience:-60}s" "$@"
	expect "$url: the next relay takes over from an idle one without waiting" 0 \
		"err:event=leader-gone" "err:1 delivered"

	start_leader "$url" "$@"
	w enqueue --lines "$url" --topic t --from many.ndjson
	kill_leader
	w relay "$url" file:out.ndjson --lease 1h --until-empty --timeout "${patience:-60}s" "$@"
	expect "$url: and from a busy one" 0 "err:event=leader-gone" "no:suspects=1" "err:0 dead in"

	start_leader "$url" "$@"
	"$wherry" relay "$url" file:out.ndjson --lease 1h "$@" 2>standby.log &
	standby_pid=$!
	pids+=("$standby_pid")
	until_true "${patience:-20}" grep -q 'event=standby' standby.log
	kill_leader
	check "$url: one that stands by notices" until_true "${patience:-20}" grep -q 'event=leader-gone' standby.log
	check "$url: and leads" until_true "${patience:-20}" grep -q 'event=leading' standby.log

	kill -STOP "$standby_pid"
	w relay "$url" file:out.ndjson --lease 1h --until-empty --timeout 2s "$@"
	expect "$url: a relay that only stands still keeps its lease" 0 "err:event=standby"
	kill -CONT "$standby_pid"
	kill -TERM "$standby_pid"
	wait "$standby_pid" 2>/dev/null
}
