#!/usr/bin/env bash
# A server without advisory locks and notifications, and one without snapshots, as other engines of
# PostgreSQL's protocol are (docs/internals/plain.md).
#
# Writes TAP.

export WHERRY_TEST_LACKS=signals
# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/system/every_part.bash
. "$source_dir/tests/system/every_part.bash"

start_server
ask() {
	sql "$1"
}
every_part

# ---- what needs advisory locks ----

w create "$url#shared" --partitions
expect "relays cannot share keys" 1 "err:lacks advisory locks" "err:leave --partitions"
w create "$url#parts" --segments 1000
expect "there are no segments" 1 "err:lacks advisory locks"
err=$(sql "SELECT wherry_enqueue('t', '{}', key => 'k', lock_key => true)" 2>&1)
expect "no key can be locked" 1 "err:pg_advisory_xact_lock"
sql "CREATE TABLE theirs(id bigserial PRIMARY KEY, type text NOT NULL, data jsonb NOT NULL)"
w adopt "$url#theirs" --yes
expect "no table can be adopted" 1 "err:lacks advisory locks"
w create --print "$url#printed"
check "SQL that is printed for this server runs there" sql "$out"
check "and makes an outbox" sql "INSERT INTO printed(topic, payload) VALUES ('t', '{}')"
stop_server

# ---- a server without snapshots, too ----

rm "$tmp/hold" "$tmp/folder"
export WHERRY_TEST_LACKS='signals snapshots'
start_server
w create "$url"
expect "an outbox is refused, with the way out" 1 "err:lacks PostgreSQL's snapshots" "err:relay the queue"
part_of_queue
part_of_delayed
part_of_inbox
stop_server
finish
