#!/usr/bin/env bash
# `wherry reconcile` with Kafka: what an unclean election, a compaction, retention or a person removed from a topic.
#
# Writes TAP.

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"

start_broker --topic shop.orders 1 --topic shop.spread 3
to="kafka://$broker?topic.prefix=shop.&batch.num.messages=1&linger.ms=0"

# fill TOPIC N KEYS: messages of these keys, in turns, made an hour ago, and delivered.
fill() {
	python3 -c '
import json, sys
for i in range(int(sys.argv[1])):
    print(json.dumps({"n": i, "key": sys.argv[2][i % len(sys.argv[2])]}))' "$2" "$3" >lines
	w enqueue --lines sqlite:shop.db --topic "$1" --key /key --from lines
	sql shop.db 'UPDATE outbox SET created_at = created_at - 3600000 WHERE created_at > 1000 * unixepoch() - 1800000'
	deliver
}

deliver() {
	w relay sqlite:shop.db "$to" --until-empty --timeout 60s --set outbox.retention=30d
}

compare() { # [OPTION...]
	w reconcile sqlite:shop.db "$to" --since 1d --json "$@"
}

w create sqlite:shop.db
fill orders 20 k
fill spread 30 abc
compare
json "what is there is not missing" "d['compared'] == 50 and d['there'] == 50 and d['missing'] == 0 and
	d['expired'] == 0 and d['unknown'] == 0"
expect "its exit status says so" 0

broker cut shop.orders 0 15
broker lose shop.orders 0 3 4
compare
json "what the topic lost is named" "[m['id'] for m in d['messages']] == [4, 5, 16, 17, 18, 19, 20]"
expect "its exit status says so, too" 6
compare --yes
expect "--yes makes it pending" 0 'out:"again":7'
deliver
expect "the relay delivers it" 0 "err:7 delivered"
is "$(read_topic shop.orders | tail -n 7 | python3 -c '
import json, sys
print(*[json.loads(line)["body"]["n"] for line in sys.stdin])')" "3 4 15 16 17 18 19"
result $? "in order, and no other" "$(read_topic shop.orders | tail -n 8)"
compare
json "then nothing is missing" "d['missing'] == 0 and d['there'] == 50"

broker trim shop.orders 0 5
compare
json "what retention removed has expired" "d['missing'] == 0 and d['expired'] == 3 and d['there'] == 47"
compare --with-expired
json "and is missing if one says so" "[m['id'] for m in d['messages']] == [1, 2, 3] and d['expired'] == 3"

# Each of the three partitions has its own beginning.
offsets() { # KEY: the partition of its messages in shop.spread.
	timeout 60 kcat -b "$broker" -t shop.spread -C -e -q -o beginning -X fetch.wait.max.ms=10 -J | python3 -c '
import json, sys
print(*{m["partition"] for m in map(json.loads, sys.stdin) if m["key"] == sys.argv[1]})' "$1"
}
a=$(offsets a)
b=$(offsets b)
broker trim shop.spread "$a" 2
broker lose shop.spread "$b" 1 1
compare
json "what another partition lost is missing" "d['missing'] == (1 if '$a' != '$b' else 0) and d['expired'] >= 5"
broker lose shop.spread "$b" 0 999
broker drop shop.orders
w reconcile sqlite:shop.db "$to" --since 1d
expect "a topic that is gone has lost all" 6 "err:topic 'shop.orders' does not exist" "out:missing "
w_in '{}' enqueue --lines sqlite:shop.db --topic none
broker refuse 1 29 1000
w reconcile sqlite:shop.db "$to" --since 1d
expect "the right to read is named" 1 "err:no right to read topic 'shop.spread'" "err:kafka-acls --add"
broker accept 1

# ---- twice, and by others ----

printf '%s\n' '{"n":1}' >lines
timeout 60 kcat -b "$broker" -t shop.spread -P -p 0 -H message-id=stranger -l lines
twice=$(sql shop.db "SELECT message_id FROM outbox WHERE topic = 'spread' ORDER BY id DESC LIMIT 1")
for i in 1 2 3; do
	timeout 60 kcat -b "$broker" -t shop.spread -P -p 0 -H "message-id=$twice" -l lines
done
compare --until 6s
json "a message that is there more than once" "d['twice'] == 1"

finish
