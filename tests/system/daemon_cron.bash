# Entries of cron in wherry.yaml, run by real daemons on any database.  The script that includes
# this defines:
#
#     url         of the database
#     ask SQL     prints the answer, one row a line
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/system/daemon.bash
declare -F start_daemon >/dev/null || . "$source_dir/tests/system/daemon.bash"

# run_daemon NAME: on NAME.yaml; its log is NAME.log.  Sets daemon and port.
run_daemon() {
	: >"$1.log"
	ln -sf "$PWD/$1.log" "$tmp/log" # which metrics shows
	"$wherry" run "$1.yaml" 2>"$1.log" &
	daemon=$!
	pids+=("$daemon")
	until_true 20 grep -q 'event=start\|cannot-start\|bad-file' "$1.log"
	port=$(sed -n 's/.*event=http.* port=\([0-9]*\).*/\1/p' "$1.log")
}

end_daemon() { # PID
	kill -TERM "$1"
	wait "$1"
	status=$?
}

# file NAME [ENTRY...]: NAME.yaml with these entries.
file() {
	local name=$1
	shift
	echo 'http: {listen: 127.0.0.1:0}' >"$name.yaml"
	echo 'cron:' >>"$name.yaml"
	printf "  - {database: '$url', catch_up: all, %s}\n" "$@" >>"$name.yaml"
}

# ids COLUMN TABLE NAME: the times of an entry's messages, in microseconds, ascending.
ids() {
	ask "SELECT $1 FROM $2 WHERE $1 LIKE '$3/%' ORDER BY 1"
}

at_least() { # N COLUMN TABLE NAME
	[ "$(ids "$2" "$3" "$4" | wc -l)" -ge "$1" ]
}

# gapless MS COLUMN TABLE NAME: each tick of the period is there once, from the first to the last.
gapless() {
	local period=$1
	shift
	ids "$@" | python3 -c '
import datetime, sys
times = []
for line in sys.stdin:
    day, fraction = line.strip().rsplit("/", 1)[1].split(".")
    at = datetime.datetime.strptime(day + "+0000", "%Y%m%d-%H%M%S%z")
    times.append(round(at.timestamp()) * 1000 + int(fraction) // 1000000)
period = int(sys.argv[1])
assert len(times) > 1, times
assert times == list(range(times[0], times[-1] + 1, period)), times' "$period" 2>"$tmp/.err"
	status=$? out='' err=$(cat "$tmp/.err")
	return $status
}

every_once() { # SENTENCE MS COLUMN TABLE NAME
	local sentence=$1
	shift
	gapless "$@"
	result $? "$sentence" "a tick is missing, or there twice"
}

logged() { # FILE TEXT...: a line with all of them
	local lines file=$1
	shift
	lines=$(cat "$file")
	for text in "$@"; do
		lines=$(grep -F -- "$text" <<<"$lines") || return 1
	done
}

health() { # STATUS: of /readyz
	get /readyz
	[ "$status" = "$1" ]
}

# ---- two daemons with one file ----

daemon_cron_together() {
	local first second before
	"$wherry" create "$url" --unique-ids >/dev/null 2>&1
	"$wherry" create --kind queue "$url#jobs" >/dev/null 2>&1
	"$wherry" create --kind delayed "$url" >/dev/null 2>&1
	file both "name: box, at: '@every 50ms', outbox: {topic: t, key: k, headers: {a: b}, body: '{\"x\":1}'}" \
		"name: work, at: '@every 50ms', queue: {name: jobs, headers: {c: d}, body: '[2]'}" \
		"name: later, at: '@every 50ms', delayed: {name: jobs, body: three}" \
		"name: one, at: '@every 50ms', delayed: {name: single, key: the-one}"
	w check both.yaml
	expect "check reads entries of cron" 0 "is:both.yaml: 0 relays, 4 entries of cron, fine"
	run_daemon both
	first=$daemon
	until_true 20 logged both.log event=failed cron=box
	get /readyz
	expect "an entry needs the table that remembers its ticks" 503 \
		"out:cron box not ready: there is no cron 'cron'" "out:wherry create --kind cron"
	"$wherry" create --kind cron "$url" >/dev/null
	check "it goes on when the table is there" until_true 60 at_least 2 message_id outbox box
	cp both.yaml two.yaml
	run_daemon two
	second=$daemon
	until_true 20 logged two.log event=tick cron=box
	check "two daemons share the ticks" until_true 20 logged both.log event=tick cron=box
	before=$(ids message_id outbox box | wc -l)
	kill -KILL "$second"
	wait "$second" 2>/dev/null
	check "one goes on when the other is killed" \
		until_true 60 at_least $((before + 20)) message_id outbox box
	run_daemon two
	second=$daemon
	until_true 60 at_least $((before + 40)) message_id outbox box
	until_true 60 at_least $((before + 40)) message_id jobs work
	until_true 60 at_least $((before + 40)) '"pKey"' delayed later
	until_true 20 health 200
	get /readyz
	expect "/readyz says when the next tick is due" 200 "out:cron box ready: next tick in 0 s"
	metrics "/metrics count ticks, and say when the next is due" \
		'v("wherry_cron_ticks_total", cron="box") > 0 and v("wherry_cron_up", cron="box") == 1
		 and v("wherry_cron_last_tick_seconds", cron="box") >= 0
		 and 0 <= v("wherry_cron_next_tick_seconds", cron="box") <= 0.05
		 and v("wherry_cron_errors_total", cron="box", **{"class": "INVALID"}) == 0'
	end_daemon "$second"
	out='' err=$(cat two.log)
	expect "SIGTERM ends a daemon that has entries only, with 0" 0 "err:event=ended cron=box" \
		"no:Sanitizer"
	end_daemon "$first"
	expect "and the other" 0
	every_once "each tick is in the outbox once" 50 message_id outbox box
	every_once "each tick is in the queue once" 50 message_id jobs work
	every_once "each tick is in the delayed queue once" 50 '"pKey"' delayed later
	check "with its fields" is \
		"$(ask "SELECT DISTINCT topic || ' ' || partition_key || ' ' || CAST(headers AS text) FROM outbox")" \
		't k {"a":"b"}'
	check "with a key of its own, a tick replaces the message before it" \
		is "$(ask "SELECT count(*) FROM delayed WHERE \"pKey\" = 'the-one'")" 1
	w cron list "$url"
	expect "cron list shows the entries" 0 "out:outbox outbox, topic t" "out:box" "out:later"
}

# ---- what is made again ----

# The memory is put back, as by a restored backup of one table: the messages are still there.
daemon_cron_again() {
	local before
	before=$(ids message_id outbox box | wc -l)
	ask "UPDATE cron SET until_ms = until_ms - 500 WHERE name = 'box'"
	run_daemon both
	until_true 60 at_least $((before + 20)) message_id outbox box
	end_daemon "$daemon"
	every_once "a tick whose message is in the outbox is not written again" 50 message_id outbox box
}

# ---- two schedules under one name ----

daemon_cron_schedules() {
	local old new
	file old "name: box, at: '@every 50ms', outbox: {topic: t}"
	file new "name: box, at: '@every 70ms', outbox: {topic: new}"
	run_daemon old
	old=$daemon old_port=$port
	until_true 20 health 200
	run_daemon new
	new=$daemon
	until_true 30 logged new.log event=tick cron=box
	check "the daemon that began last takes a name over" until_true 20 logged old.log \
		event=replaced cron=box 'at="@every 50ms"' hash= by= 'give both the same file'
	port=$old_port
	get /readyz
	expect "the other is not ready, and names both schedules" 503 \
		"out:cron box not ready: another daemon writes its messages by the schedule" \
		"out:$(sed -n 's/.*event=start cron=box.* hash=\([^ ]*\).*/\1/p' new.log)"
	kill -HUP "$old"
	check "a reload takes the name back" until_true 20 health 200
	check "from the one that had it" until_true 20 logged new.log event=replaced cron=box
	cp old.yaml new.yaml
	kill -HUP "$new"
	until_true 20 logged new.log event=reloaded relays=0 cron=1
	check "with the same schedule both write" until_true 20 logged new.log event=tick
	end_daemon "$new"
	expect "a daemon whose entry was replaced ends with 0" 0
	end_daemon "$old"
}

# The daemon that wrote is killed.  The other one takes over when the ticks of the active schedule
# were made up to a time that is 90 seconds ago: here the time in the table is put back.
daemon_cron_takeover() {
	local old old_port before
	file stays "name: heir, at: '@every 50ms', outbox: {topic: stays}"
	file goes "name: heir, at: '@every 70ms', outbox: {topic: goes}"
	run_daemon stays
	old=$daemon old_port=$port
	until_true 20 health 200
	run_daemon goes
	until_true 30 logged stays.log event=replaced cron=heir
	kill -KILL "$daemon"
	wait "$daemon" 2>/dev/null
	port=$old_port
	before=$(topics stays)
	get /readyz
	expect "a daemon that was replaced does not take over at once" 503 "out:cron heir not ready"
	ask "UPDATE cron SET until_ms = until_ms - 91000 WHERE name = 'heir' AND active"
	check "it takes over when the other has made no tick for 90 seconds" until_true 60 logged stays.log \
		event=resumed cron=heir
	check "and writes messages again" until_true 20 more_topics stays "$before"
	check "and is ready" until_true 20 health 200
	end_daemon "$old"
}

topics() { # TOPIC: how many messages of the outbox have it
	ask "SELECT count(*) FROM outbox WHERE topic = '$1'"
}

more_topics() { # TOPIC N
	[ "$(topics "$1")" -gt "$2" ]
}

# ---- reloads ----

has_topic() { # TOPIC: a message in the outbox has it
	[ "$(ask "SELECT count(*) FROM outbox WHERE topic = '$1'")" -gt 0 ]
}

daemon_cron_reload() {
	file live "name: stays, at: '@every 50ms', outbox: {topic: t}"
	run_daemon live
	until_true 20 health 200
	file live "name: stays, at: '@every 50ms', outbox: {topic: t}" \
		"name: added, at: '@every 50ms', outbox: {topic: t}" \
		"name: daily, at: '@daily', zone: Europe/Berlin, outbox: {topic: t}" \
		"name: late, at: '0 0 1 1 *', delayed: {name: jobs, table: not_there}"
	kill -HUP "$daemon"
	check "a reload starts an entry" until_true 20 at_least 2 message_id outbox added
	until_true 20 logged live.log event=failed cron=late
	get /readyz
	expect "an error of one is found at once, and the others go on" 503 \
		"out:cron late not ready: there is no delayed queue 'not_there'" \
		"out:cron stays ready" "out:cron added ready"
	metrics "/metrics count its failures" \
		'v("wherry_cron_up", cron="late") == 0
		 and v("wherry_cron_errors_total", cron="late", **{"class": "NOTFOUND"}) > 0
		 and v("wherry_cron_restarts_total", cron="late") > 0
		 and v("wherry_cron_last_tick_seconds", cron="late") is None
		 and 0 < v("wherry_cron_next_tick_seconds", cron="daily") <= 90000'
	check "an entry that did not change went on" \
		is "$(grep -c 'event=start cron=stays' live.log)" 1
	printf 'cron: [{name: x}]\n' >live.yaml
	kill -HUP "$daemon"
	check "a file that cannot be used changes nothing" \
		until_true 20 logged live.log event=reload-refused
	file live "name: stays, at: '@every 50ms', outbox: {topic: other}"
	kill -HUP "$daemon"
	check "a changed entry begins again" until_true 20 has_topic other
	end_daemon "$daemon"
	err=$(cat live.log) out=''
	expect "and removed ones have ended" 0 "err:event=ended cron=added" "no:Sanitizer"
	every_once "no tick was lost, and none written twice" 50 message_id outbox stays
}

# next_tick ENTRY: in seconds from now.
next_tick() {
	curl -s -m 20 "http://127.0.0.1:$port/metrics" | sed -n "s/^wherry_cron_next_tick_seconds{.*cron=\"$1\".*} //p"
}

hour_earlier() { # ENTRY BEFORE: its next tick, or the one of a day before
	python3 -c 'import sys; sys.exit(not 3540 < (float(sys.argv[1]) - float(sys.argv[2] or "nan")) % 86400 < 3660)' "$2" "$(next_tick "$1")"
}

daemon_cron_zone() {
	local before
	mkdir -p zones/Here
	cp /usr/share/zoneinfo/Etc/GMT-2 zones/Here/There
	file zone "name: dawn, at: '0 6 * * *', zone: Here/There, outbox: {topic: t}"
	TZDIR=$PWD/zones run_daemon zone
	until_true 20 health 200
	before=$(next_tick dawn)
	cp /usr/share/zoneinfo/Etc/GMT-3 zones/Here/There
	kill -HUP "$daemon"
	check "a reload takes the new rules of a zone" until_true 20 hour_earlier dawn "$before"
	end_daemon "$daemon"
}
