#!/usr/bin/env bash
# `wherry reconcile` on PostgreSQL: by an operator, of subscriptions, of relays that share the keys, and beside late rows.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

sql "CREATE ROLE operator LOGIN; CREATE ROLE consumer LOGIN"
operator="postgres://operator@/postgres?host=$folder"
w create "$url" --grant operator=operator --partitions
w create --kind inbox "$url" --grant operator=operator
w create "$url#outbox/audit" --topics 'audit.*'

# fill TOPIC N: messages of seven keys, made an hour ago.
fill() {
	sql "INSERT INTO outbox(topic, partition_key, payload, created_at)
		SELECT '$1', 'k' || i % 7, to_json(i), now() - interval '1 hour' FROM generate_series(1, $2) AS i"
}

# take FILE: the receiver accepts what is there.
take() {
	python3 -c '
import json, sys
for line in open(sys.argv[1]):
    print(json.loads(line)["message_id"])' "$1" >ids
	psql -X -q -h "$folder" -U wherry postgres -v ON_ERROR_STOP=1 -c 'CREATE TEMP TABLE i(id text)' -c '\copy i from ids' \
		-c 'INSERT INTO inbox(message_id) SELECT id FROM i ON CONFLICT DO NOTHING'
}

# compare NAME [OPTION...]
compare() {
	w reconcile "$operator$1" --inbox "$operator#inbox" --since 1d "${@:2}"
}

# lose WHICH: rows of the inbox, of messages that the condition names.
lose() {
	sql "DELETE FROM inbox WHERE message_id IN (SELECT message_id FROM outbox WHERE $1)"
}

# numbers FILE: the ids in it, in order.
numbers() {
	python3 -c '
import json, sys
print(*[json.loads(line)["id"] for line in open(sys.argv[1])])' "$1"
}

fill orders 2000
fill audit.x 500
w relay "$url" file:out.ndjson --until-empty --timeout 60s --set outbox.retention=30d
take out.ndjson
compare '' --json
json "what the receiver has is there" "d['compared'] == 2500 and d['there'] == 2500 and d['missing'] == 0"
lose "id IN (30, 37, 44, 2001)"
compare ''
expect "an operator lists what is missing" 6 "out:missing    4" "out:30 " "out:2001 " "err:nothing was changed"
compare '#outbox/audit'
expect "a subscription without a relay has delivered none" 0 "out:waiting    500"

# Late rows are below the position, and are not delivered.
exec 8> >(psql -X -q -h "$folder" -U wherry postgres)
echo "BEGIN; INSERT INTO outbox(topic, payload, created_at) VALUES ('orders', '{}', now() - interval '1 hour');" >&8
late_is_there() { [ "$(sql "SELECT count(*) FROM pg_locks WHERE relation = 'outbox'::regclass AND mode = 'RowExclusiveLock'")" != 0 ]; }
until_true 20 late_is_there
fill orders 3
rm out.ndjson
w relay "$url" file:out.ndjson --until-empty --timeout 60s --set outbox.retention=30d
take out.ndjson
echo "COMMIT;" >&8
exec 8>&-
late_is_committed() { [ "$(sql "SELECT count(*) FROM outbox")" = 2504 ]; }
until_true 20 late_is_committed
compare '' --json
json "a late row that no relay has read is not missing" "d['compared'] == 2503 and d['missing'] == 4 and d['waiting'] == 1"
w relay "$url" file:out.ndjson --until-empty --timeout 60s --set outbox.retention=30d
take out.ndjson

for i in 1 2; do
	"$wherry" relay "$url" "file:out$i.ndjson" --name "r$i" --set outbox.retention=30d 2>"relay$i.log" &
	pids+=($!)
	relays+=($!)
done
both() { [ "$(sql "SELECT count(*) FROM wherry_lease WHERE mask <> 0 AND expires_at > now()")" -ge 2 ]; }
until_true 30 both
compare '' --yes
expect "relays that share the keys may be at work" 0 "out:4 messages are pending again" "err:reconcile"
all_there() { cat out1.ndjson out2.ndjson >out.ndjson && [ "$(wc -l <out.ndjson)" -ge 4 ]; }
until_true 30 all_there
kill "${relays[@]}"
wait "${relays[@]}"
cat out1.ndjson out2.ndjson >out.ndjson
is "$(numbers out.ndjson | tr ' ' '\n' | sort -n | xargs)" "30 37 44 2001"
result $? "they deliver what is missing, and nothing else" "$(numbers out.ndjson)"
is "$(numbers out.ndjson | tr ' ' '\n' | sed '/2001/d' | xargs)" "30 37 44"
result $? "in the order of the key" "$(numbers out.ndjson)"
take out.ndjson
compare ''
expect "and then nothing is missing" 0 "out:compared   2504" "out:missing    0"

# ---- a subscription ----

w relay "$url#outbox/audit" file:audit.ndjson --until-empty --timeout 60s --set outbox.retention=30d
lose "topic = 'audit.x' AND id IN (2100, 2200) OR id = 77"
compare '#outbox/audit' --yes
expect "of a subscription its topics are compared" 0 "out:compared   500" "out:missing    2" "no:note:" "out:2 messages are pending again"
rm audit.ndjson
w relay "$url#outbox/audit" file:audit.ndjson --until-empty --timeout 60s --set outbox.retention=30d
is "$(numbers audit.ndjson)" "2100 2200"
result $? "and it alone delivers them again" "$(numbers audit.ndjson)"
compare ''
expect "for other subscriptions nothing changes" 6 "out:missing    3"

# ---- rights ----

w reconcile "postgres://consumer@/postgres?host=$folder" --inbox "$operator#inbox" --since 1d
expect "a role without rights learns what it lacks" 1 "err:--grant"

# ---- a table of another program ----

sql "CREATE TABLE msgs(id bigserial PRIMARY KEY, message_id uuid DEFAULT gen_random_uuid(), topic text, payload jsonb,
	created_at timestamptz, published_at timestamptz)"
w adopt "$url#msgs" --as theirs --yes
w create "$url#theirs" --grant operator=operator
sql "INSERT INTO msgs(topic, payload, created_at) SELECT 'orders', '{}', now() - interval '1 hour' FROM generate_series(1, 9)"
w relay "$url#theirs" file:theirs.ndjson --until-empty --timeout 60s
w create --kind inbox "$url#theirs_inbox" --grant operator=operator
sql "INSERT INTO theirs_inbox(message_id) SELECT message_id::text FROM msgs WHERE id <> 5"
w reconcile "$operator#theirs" --inbox "$operator#theirs_inbox" --since 1d --yes
expect "an adopted table is compared" 0 "out:compared   9" "out:missing    1" "out:1 message is pending again"
rm theirs.ndjson
w relay "$url#theirs" file:theirs.ndjson --until-empty --timeout 60s
is "$(numbers theirs.ndjson)" 5
result $? "and its missing row is delivered again" "$(numbers theirs.ndjson)"

# ---- a message that a purge deletes ----

sql "UPDATE outbox_exception SET state = state; DELETE FROM outbox WHERE id = 77"
compare '' --json
json "what is gone is not compared" "d['missing'] == 2 and d['compared'] == 2503"

finish
