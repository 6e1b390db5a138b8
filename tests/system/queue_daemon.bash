# A daemon with relays on queues, for daemon_queue.sh (SQLite) and postgres_daemon_queue.sh: they
# set db, the URL of the database, and url, that of its queue "jobs".
# shellcheck shell=bash disable=SC2154

# shellcheck source=tests/system/daemon.bash
. "$source_dir/tests/system/daemon.bash"

# The numbers of `wherry status`, as the metrics call them.
counts() {
	"$wherry" status "$url" --json | python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["ready"], d["leased"], d["waiting"], d["dead"])'
}

# counted STATUS-COUNTS: the metrics and status have these.
counted() {
	[ "$(counts)" = "$1" ] && metric "[int(v(f'wherry_outbox_{what}', relay='jobs'))
		for what in ('pending', 'processing', 'failed', 'dead')] == [int(n) for n in '$1'.split()]"
}

both_count() { # SENTENCE COUNTS
	until_true 40 counted "$2"
	status=$? out=$(counts) err=$(grep '^wherry_outbox_' "$tmp/.metrics")
	result "$status" "$1" "not $2"
}

with_daemon() {
	w create --kind queue "$db#jobs"
	for i in 1 2 3; do
		w send "$db#jobs" "{\"n\":$i}" --id "m$i"
	done
	w send "$db#jobs" '{"n":4}' --id m4 --in 1h
	cat >wherry.yaml <<-END
		http: {listen: 127.0.0.1:0}
		relays:
		  - name: jobs
		    from: '$url'
		    to: "exec:if [ -e open ]; then exit 0; fi; exit 75"
		    down_after: 2
		    retry: {base: 10ms, cap: 200ms}
	END
	w check
	expect "check knows the URL of a queue" 0 "is:wherry.yaml: 1 relay, fine"
	start_daemon wherry.yaml
	until_true 20 readyz 503
	get /readyz
	expect "/readyz says that the destination refuses what is in the queue" 503 \
		"out:jobs not ready: destination refuses: "
	until_true 20 metric 'v("wherry_destination_up", relay="jobs") == 0'
	metrics "and so do the metrics, while status counts four messages" \
		'v("wherry_destination_up", relay="jobs") == 0 and sum(
		v(f"wherry_outbox_{what}", relay="jobs") for what in ("pending", "processing", "failed")) == 4'
	w status jobs --json
	json "as the metrics do" 'd["ready"] + d["leased"] + d["waiting"] == 4 and d["dead"] == 0'
	: >open
	until_true 20 readyz 200
	get /readyz
	expect "/readyz says that it takes messages again" 200 "out:jobs ready: "
	both_count "metrics and status count the delayed message alone" "0 0 1 0"
	rm open
	w discard "$db#jobs" --all --yes
	stop_daemon
	expect "the daemon ends" 0
}

# Messages that a relay gives up are dead in both.
with_dead_ones() {
	sed -i 's/exit 75/exit 65/' wherry.yaml
	w send "$db#jobs" '{"n":5}' --id m5
	w send "$db#jobs" '{"n":6}' --id m6
	start_daemon wherry.yaml
	both_count "metrics and status count what died" "0 0 0 2"
	: >open
	w retry jobs --all
	expect "an operator makes them ready again" 0 "out:2 messages are ready again"
	both_count "and the relay delivers them" "0 0 0 0"
	stop_daemon
}
