#!/usr/bin/env bash
# `wherry reconcile`: messages that are removed from a stream by hand are named and come back, and no others.
#
# Writes TAP.

# shellcheck source=tests/system/nats.bash
. "$(dirname "$0")/nats.bash"

start_nats
stream add ORDERS 'orders.>' duplicates=100

# fill DATABASE FROM TO: messages with these numbers of three keys, made an hour ago.
fill() {
	python3 -c '
import json, sys
for i in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    print(json.dumps({"n": i, "key": "abc"[i % 3]}))' "$2" "$3" >lines
	w enqueue --lines "sqlite:$1" --topic orders.made --key /key --from lines
	sql "$1" 'UPDATE outbox SET created_at = created_at - 3600000 WHERE created_at > 1000 * unixepoch() - 1800000'
}

# deliver DATABASE TO: until it is empty.
deliver() {
	w relay "sqlite:$1" "$2" --until-empty --timeout 60s --set outbox.retention=30d
}

# compare DATABASE TO [OPTION...]
compare() {
	w reconcile "sqlite:$1" "$2" --since 1d "${@:3}"
}

# bodies: the numbers in the order of the stream.
bodies() {
	read_back ORDERS | python3 -c '
import json, sys
print(*[json.loads(line)["body"]["n"] for line in sys.stdin])'
}

w create sqlite:shop.db
fill shop.db 1 30
deliver shop.db "$nats"
compare shop.db "$nats"
expect "what is there is not missing" 0 "out:compared   30 delivered" "out:there      30" \
	"out:missing    0" "no:twice" "no:expired" "no:unknown" "no:note:"

# ---- a stream that lost messages ----

stream delete ORDERS 5 6 7 20
compare shop.db "$nats"
expect "messages that the stream lost are named, and nothing is changed" 6 "out:missing    4" \
	"out:there      26" "out:orders.made" "err:--yes would make 4 messages pending again" \
	"err:nothing was changed"
is "$(printf '%s\n' "$out" | awk '$3 == "orders.made" { print $1 }' | xargs)" "5 6 7 20"
result $? "these are named, and no others" "$out"
compare shop.db "$nats" --json
json "the result as JSON" "d['missing'] == 4 and d['compared'] == 30 and d['there'] == 26 and
	[m['id'] for m in d['messages']] == [5, 6, 7, 20] and
	[m['key'] for m in d['messages']] == ['c', 'a', 'b', 'c'] and d['notes'] == [] and
	d['subscription'] == 'relay' and d['kept_since'] is None and 'again' not in d"
deliver shop.db "$nats"
expect "nothing was delivered again" 0 "err:0 delivered"

compare shop.db "$nats" --yes
expect "--yes makes them pending" 0 "out:missing    4" "out:4 messages are pending again" "err:reconcile"
compare shop.db "$nats"
expect "what is pending is not missing" 0 "out:compared   26" "out:waiting    4" "out:missing    0"
deliver shop.db "$nats"
expect "the relay delivers them" 0 "err:4 delivered"
is "$(bodies | cut -d ' ' -f 27-)" "5 6 7 20"
result $? "these came back in order, and no others" "$(bodies)"
compare shop.db "$nats" --yes
expect "to run it again finds nothing" 0 "out:missing    0" "out:there      30"

# ---- while a relay runs ----

"$wherry" relay sqlite:shop.db "$nats" --set outbox.retention=30d 2>relay.log &
relay=$!
pids+=("$relay")
stream delete ORDERS 10 11
compare shop.db "$nats" --yes
expect "a relay may be at work" 0 "out:2 messages are pending again"
came_back() { [ "$(bodies | cut -d ' ' -f 29-)" = "10 11" ]; }
until_true 20 came_back
result $? "it delivers what is missing" "$(bodies)"
kill "$relay"
wait "$relay"

# ---- what the stream removed by itself ----

stream delete ORDERS 1 2 3
compare shop.db "$nats"
expect "what is older than the first message of the stream has expired there" 0 "out:missing    0" \
	"out:expired    3: older than what is still there" "out:--with-expired counts them as missing"
compare shop.db "$nats" --with-expired --yes
expect "--with-expired sends it again" 0 "out:missing    3" "out:3 messages are pending again"
deliver shop.db "$nats"
compare shop.db "$nats"
expect "then it is there" 0 "out:missing    0" "out:there      30" "no:expired"

# ---- too early ----

w create sqlite:fresh.db
w enqueue sqlite:fresh.db '{}' --topic orders.fresh
sql fresh.db 'UPDATE outbox SET created_at = created_at + 600000' # A test must not depend on the five seconds.
deliver fresh.db "$nats"
compare fresh.db "$nats"
expect "messages of the last five seconds are said to be left out" 1 \
	"err:has delivered 1 message of that time, made in the last 5 seconds" "err:run this again in 5 seconds" "no:outbox.retention"
compare fresh.db "$nats" --until 1h
expect "if the period ends earlier, there is none of that time" 1 "err:no delivered message of that time"

# ---- messages of others, and twice ----

w create sqlite:other.db
fill other.db 100 101
deliver other.db "$nats"
compare shop.db "$nats" --until 10s
expect "messages of other programs are counted" 0 "no:missing    1" "out:there      30"
compare other.db "$nats" --json
json "so it is the other way round" "d['compared'] == 2 and d['there'] == 2 and d['missing'] == 0"

stream drop ORDERS
compare shop.db "$nats"
expect "a stream that is gone has lost all" 6 "out:missing    30" \
	"err:no stream has the subject 'orders.made'" "err:none is there: does the relay of"
stream add ORDERS 'orders.>' per_subject=4 duplicates=100
compare shop.db "$nats/orders.{key}" --yes
deliver shop.db "$nats/orders.{key}"
compare shop.db "$nats/orders.{key}"
expect "a stream that keeps some messages of each subject" 0 "out:missing    0" "out:there      12" \
	"out:compacted  18: a later message"
stream add LATER 'later.>' duplicates=3600000
w create sqlite:new.db
w enqueue sqlite:new.db '{}' --topic later.x --key k
w enqueue sqlite:new.db '{}' --topic later.x --key k
sql new.db 'UPDATE outbox SET created_at = created_at - 60000'
deliver new.db "$nats"
stream delete LATER 2
compare new.db "$nats" --yes
expect "a message whose id the stream still knows is not sent now" 6 "out:missing    1" \
	"out:0 messages are pending again" "err:run this again later"

stream add WORK 'work.>' work
w enqueue sqlite:new.db '{}' --topic work.x
sql new.db 'UPDATE outbox SET created_at = created_at - 60000'
deliver new.db "$nats"
compare new.db "$nats"
expect "a stream that deletes what was acknowledged cannot be read back" 1 \
	"err:stream 'WORK' deletes messages when they are acknowledged" "err:--inbox"

# ---- rights ----

kill "$nats_pid"
wait "$nats_pid"
run_nats 'authorization { users: [
	{ user: shop, password: sesame, permissions: { publish: ["later.>", "$JS.API.STREAM.NAMES"], subscribe: "_INBOX.>" } } ] }'
export NATS_PASSWORD=sesame
w reconcile sqlite:new.db "$nats" --since 1d --until 30s --set nats.user=shop --set nats.password=env:NATS_PASSWORD --set nats.stream=LATER
expect "the rights that it needs are named" 1 "err:no right to read the stream back" "err:JS.API.STREAM.*"

finish
