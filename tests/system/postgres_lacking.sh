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

# ---- transactions that the server undoes ----

sql "CREATE SEQUENCE writes;
	CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN
	IF nextval('public.writes') % 3 = 0 THEN RAISE 'undone' USING ERRCODE = '40001'; END IF;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN old ELSE new END; END\$\$"
for table in wherry_lease outbox_progress outbox_exception jobs; do
	sql "CREATE TRIGGER undo BEFORE INSERT OR UPDATE OR DELETE ON $table FOR EACH ROW EXECUTE FUNCTION undo()"
done
sql "INSERT INTO outbox(topic, partition_key, payload) SELECT 'undone', (i % 7)::text, to_json(i) FROM generate_series(1, 500) AS i"
w relay "$url" file:undone.ndjson --until-empty --timeout 60s --set relay.batch=20
expect "a relay whose every third write is undone delivers all" 0
out=$(grep '"topic":"undone"' undone.ndjson)
json "in the order of each key" 'all((lambda b: b == sorted(b))([m["body"] for m in l if m["key"] == k]) for k in {m["key"] for m in l})
	and sorted({m["body"] for m in l}) == list(range(1, 501))'
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
