#!/usr/bin/env bash
# An outbox of the layout log on PostgreSQL: wherry_enqueue(), roles, unique message ids, status and doctor.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

sql "CREATE ROLE producer LOGIN; CREATE ROLE enqueuer LOGIN; CREATE ROLE relay LOGIN; CREATE ROLE operator LOGIN; CREATE ROLE consumer LOGIN"
as() { echo "postgres://$1@/postgres?host=$folder"; }
w create "$url" --grant producer=producer --grant enqueuer=enqueuer --grant relay=relay \
	--grant operator=operator --grant consumer=consumer
expect "create --grant gives each role its rights" 0

# ---- each role can do its work ----

run() { # ROLE SQL
	psql -X -q -A -t -v ON_ERROR_STOP=1 "$(as "$1")" -c "$2"
}
check "a producer writes with plain SQL" run producer "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
for type in text bytea json jsonb; do
	check "an enqueuer calls wherry_enqueue() with $type" run enqueuer \
		"SELECT wherry_enqueue('t', '{}'::$type, key => 'k', lock_key => true, message_id => 'same')"
done
w_in '{"id":1}' enqueue --lines "$(as enqueuer)" --topic t --id /id
expect "and enqueues" 0 "is:1 enqueued, 0 duplicates"
check "message ids may be there twice" is "$(sql "SELECT count(*) FROM outbox WHERE message_id = 'same'")" 4
w status "$(as operator)"
expect "status knows that no relay is running" 0 "out:no relay is running" "out:pending     6"
w doctor "$(as relay)"
expect "and so does the doctor" 1 "out:bad   relay" "no:bad   rights"
w relay "$(as relay)" stdout: --until-empty --timeout 60s
expect "a relay delivers" 0 "err:6 delivered, 0 retried, 0 dead"
sql "SELECT wherry_enqueue('t', '{}', 'k')" >/dev/null
w relay "$(as relay)" 'exec:exit 65' --until-empty --timeout 60s
expect "and buries" 3
w doctor "$(as operator)"
expect "the doctor names the dead message and why it died" 1 "out:warn  parked              message 7 (key k) is dead"
w list "$(as operator)" --state dead,done
expect "an operator lists" 0 "out: 7  dead" "out: 1  done"
w show "$(as operator)" 7
expect "shows" 0 "out:exit status 65"
w pause "$(as operator)"
expect "pauses" 0
w doctor "$(as operator)"
expect "of which the doctor speaks" 1 "out:bad   paused"
w resume "$(as operator)"
expect "resumes" 0
w retry "$(as operator)" --all
expect "and retries" 0 "out:1 message is pending again"
w doctor "$(as operator)" 7
expect "the doctor says of a message why it has not left" 1 "out:message 7" "out:no relay"
w doctor "$(as operator)" nothing
expect "and of one that is not there" 1 "out:there is no message 'nothing'" "no:archive"
w relay "$(as relay)" stdout: --until-empty --timeout 60s --set outbox.retention=1ms --set relay.purge_every=100ms
expect "a relay purges" 0 "err:1 delivered"
w_in '{}' enqueue "$(as enqueuer)" --topic t
w discard "$(as operator)" "$(sql "SELECT max(id) FROM outbox")" --yes
expect "an operator discards" 0 "out:1 message discarded"
w_in '{}' enqueue "$(as enqueuer)" --topic t
w relay "$(as relay)" stdout: --until-empty --timeout 60s
w purge "$(as operator)" --older-than 0s --yes
expect "and purges" 0 "no:^0 messages" "out:purged"

# ---- and nothing else ----

denied() { # ROLE SQL
	psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate "$(as "$1")" -c "$2" 2>&1 | grep -q 42501
}
no() { # ROLE WHAT SQL
	check "role $1 may not $2" denied "$1" "$3"
}
for role in producer enqueuer; do
	no $role "choose an id" "INSERT INTO outbox(id, topic, payload) VALUES (1, 't', '{}')"
	no $role "choose a time" "INSERT INTO outbox(topic, payload, created_at) VALUES ('t', '{}', 'infinity')"
	no $role "choose a transaction" "INSERT INTO outbox(topic, payload, tx) VALUES ('t', '{}', '3')"
	no $role "change a message" "UPDATE outbox SET payload = '{}'"
	no $role "delete one" "DELETE FROM outbox"
	no $role "read one" "SELECT payload FROM outbox"
	no $role "move the position" "UPDATE outbox_progress SET high = 9"
	no $role "read what failed" "SELECT last_error FROM outbox_exception"
	no $role "bury a message" "INSERT INTO outbox_exception(subscription, id) VALUES ('relay', 1)"
done
for role in relay operator consumer; do
	no $role "change the text of a message" "UPDATE outbox SET payload = '{}'"
	no $role "empty the outbox" "TRUNCATE outbox"
	no $role "alter it" "ALTER TABLE outbox ADD COLUMN x text"
done
no relay "write a message" "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
no consumer "write a message" "INSERT INTO outbox(topic, payload) VALUES ('t', '{}')"
no consumer "delete one" "DELETE FROM outbox"
no consumer "drop a subscription" "DELETE FROM outbox_progress"
no consumer "take the lease of a relay" "UPDATE wherry_lease SET expires_at = now()"
no consumer "pause the outbox" "UPDATE wherry_outbox SET paused_at = now()"
for role in relay operator; do
	w seek "$(as $role)#outbox" now
	expect "role $role may seek" 0 "out:0 messages are pending"
done

# ---- unique message ids ----

sql "DELETE FROM outbox"
sql "SELECT wherry_enqueue('t', '{}', message_id => 'twice') FROM generate_series(1, 2)" >/dev/null
w create "$url" --unique-ids
expect "create --unique-ids names what is there twice" 1 "err:more than once: Key (message_id)=(twice)"
sql "DELETE FROM outbox"
w create "$url" --unique-ids
expect "and adds the index" 0 "out:what was missing was added"
w create "$url" --unique-ids
expect "once" 0 "out:is up to date"
check "wherry_enqueue() returns an id" is "$(run enqueuer "SELECT wherry_enqueue('t', '{}', message_id => 'a') > 0")" t
check "or NULL for a message that is there" is "$(run enqueuer "SELECT wherry_enqueue('t', '{}', message_id => 'a')")" ""
w_in $'{"id":"a"}\n{"id":"b"}' enqueue --lines "$(as enqueuer)" --topic t --id /id
expect "enqueue counts it" 0 "is:1 enqueued, 1 duplicate"
w create "$url#plain"
check "other outboxes are as they were" is \
	"$(sql "SELECT count(wherry_enqueue('t', '{}', message_id => 'a', outbox => 'plain')) FROM generate_series(1, 2)")" 2
w create sqlite:eb.db --layout event-bus --unique-ids
expect "a table of another library refuses it" 2 "err:leave --unique-ids out"

# ---- relays that share the keys ----

w create "$url#shared" --partitions --grant relay=relay --grant operator=operator
expect "create prepares a log for relays that share it" 0
w create "$url#shared" --partitions
expect "once" 0 "out:is up to date"
for i in 1 2; do
	"$WHERRY_BUILD/wherry" relay "$(as relay)#shared" "file:shared.$i" --set relay.name="boat$i" \
		--set relay.idle_interval=100ms >"relay$i.log" 2>&1 &
	pids[i]=$!
done
halves() {
	answers "SELECT count(*) FROM wherry_lease WHERE outbox = 'shared' AND mask IN (-4294967296, 4294967295)" 2
}
check "two relays share it" until_true 20 halves
sql "INSERT INTO shared(topic, partition_key, payload) SELECT 't', 'k' || i % 50, '{}' FROM generate_series(1, 1000) AS i"
check "both deliver" until_true 20 eval '[ "$(cat shared.1 shared.2 | wc -l)" = 1000 ] && [ -s shared.1 ] && [ -s shared.2 ]'
w status "$(as operator)#shared"
expect "status tells who has how many" 0 "out:partitions  32 of 64: boat1, epoch 1" "out:partitions  32 of 64: boat2"
kill "${pids[@]}"
wait "${pids[@]}"
sql "UPDATE wherry_lease SET expires_at = now() + interval '1 hour', process = '', members = '', mask = mask & 16777215::bigint << 8
	WHERE outbox = 'shared'"
w doctor "$(as relay)#shared"
expect "the doctor tells how many nobody has" 1 "out:40 of 64 partitions have no relay"

stop_server
finish
