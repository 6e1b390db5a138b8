#!/usr/bin/env bash
# Every command as a role that has what `--grant` gives, or what a page names for the tables of other programs, in a
# database that gives PUBLIC nothing, with the names of a stranger first in the search path.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical

sql "CREATE DATABASE closed"
closed="postgres://wherry@/closed?host=$folder"
psql -X -q "$closed" -v ON_ERROR_STOP=1 <<'SQL'
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
CREATE ROLE stranger; CREATE SCHEMA strange AUTHORIZATION stranger; GRANT USAGE ON SCHEMA strange TO PUBLIC;
CREATE ROLE clerk LOGIN REPLICATION; CREATE ROLE chief LOGIN;
SET ROLE stranger;
CREATE FUNCTION strange.trap() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RAISE ''a trap''; END';
CREATE VIEW strange.wherry_schema AS SELECT 'queue'::text AS model, 'a'::text AS name, strange.trap() AS version, 1 AS min_program;
CREATE VIEW strange.wherry_lease AS SELECT strange.trap() AS outbox;
CREATE VIEW strange.wherry_outbox AS SELECT strange.trap() AS name;
CREATE VIEW strange.wherry_clock AS SELECT strange.trap()::bigint AS ms;
CREATE TABLE strange.wherry_subscription(topic text, queue text);
GRANT ALL ON ALL TABLES IN SCHEMA strange TO PUBLIC;
SQL
for name in clerk chief; do
	sql "ALTER ROLE $name IN DATABASE closed SET search_path = strange, public"
done
in_closed() { echo "postgres://$1@/closed?host=$folder"; }
clerk=$(in_closed clerk)
chief=$(in_closed chief)
w create "$closed" --grant clerk=enqueuer --grant chief=operator
expect "an outbox is made there" 0
w create "$closed#relayed" --grant clerk=relay --grant chief=operator
w create --kind queue "$closed#jobs" --grant clerk=sender --grant chief=operator
w create --kind queue "$closed#works" --grant clerk=receiver --grant chief=operator
w create --kind delayed "$closed" --grant clerk=sender --grant chief=operator
w create --kind delayed "$closed#later" --grant clerk=receiver --grant chief=operator
w create --kind inbox "$closed" --grant clerk=consumer --grant chief=operator
w create --kind cron "$closed" --grant chief=operator
expect "and tables of the other models" 0
closed_sql() { psql -X -q -A -t "$closed" -v ON_ERROR_STOP=1 -c "$1"; }
fill() {
	closed_sql "INSERT INTO relayed(topic, partition_key, payload) SELECT 't', 'k' || i, '{}'
		FROM generate_series(1, 3) AS i;
		SELECT wherry_send('works', '{}'), wherry_offer('mail', 'k', 'x', delayed => 'later')" >/dev/null
}
allowed() { # URL STATUS COMMAND...: the role may do that
	local url=$1 wanted=$2
	shift 2
	w "${@//URL/$url}"
	expect "a role of --grant may $*" "$wanted" "no:permission denied" "no:a trap" \
		"no:may not read what"
}
fill
printf "%s" "{}" >body.json
allowed "$clerk" 0 enqueue URL --topic t --from body.json
allowed "$clerk" 0 relay URL#relayed null: --until-empty --timeout 60s
fill
allowed "$clerk" 3 relay URL#relayed 'exec:exit 65' --until-empty --timeout 60s
id=$(closed_sql "SELECT min(id) FROM relayed_exception")
allowed "$chief" 0 status URL#relayed
allowed "$chief" 0 status URL#relayed --json
allowed "$chief" 0 list URL#relayed --state dead,done,pending
allowed "$chief" 0 show URL#relayed "$id"
allowed "$chief" 0 retry URL#relayed "$id"
allowed "$chief" 0 discard URL#relayed $((id + 1)) --yes
allowed "$chief" 0 seek URL#relayed start
allowed "$clerk" 0 relay URL#relayed null: --until-empty --timeout 60s --set outbox.retention=1ms --set relay.purge_every=100ms
fill
allowed "$chief" 0 pause URL#relayed
allowed "$chief" 0 resume URL#relayed
allowed "$chief" 0 purge URL#relayed --older-than 0s --yes
allowed "$chief" 1 doctor URL#relayed
allowed "$chief" 0 tables URL
allowed "$clerk" 0 send URL#jobs '{}'
allowed "$clerk" 0 receive URL#works
allowed "$clerk" 0 relay URL#works null: --until-empty --timeout 60s
fill
for command in 'list URL#works' 'status URL#works' 'list URL#works --state dead --bodies'; do
	# shellcheck disable=SC2086 # words
	allowed "$chief" 0 $command
done
allowed "$chief" 0 status URL#works
allowed "$chief" 0 pause URL#works
allowed "$chief" 0 resume URL#works
allowed "$chief" 1 doctor URL#works
allowed "$chief" 0 discard URL#works --all --yes
closed_sql "SELECT wherry_send('works', '{}'); UPDATE works SET state = 4" >/dev/null
allowed "$chief" 0 retry URL#works --all
allowed "$chief" 0 queue subscribe URL#public.works t
allowed "$chief" 0 queue publish URL t '{}' --schema public
allowed "$clerk" 0 offer URL#delayed/mail x --key k
allowed "$clerk" 0 poll URL#later/mail
allowed "$chief" 0 list URL#later/mail
allowed "$chief" 0 status URL#later/mail
allowed "$chief" 0 list URL#later/mail --state dead
allowed "$chief" 1 doctor URL#later/mail
allowed "$chief" 0 discard URL#later/mail --all --yes
allowed "$chief" 0 status URL#inbox
allowed "$chief" 0 purge URL#inbox --older-than 0s --yes
allowed "$chief" 0 cron list URL

# ---- tables of other programs, with the rights that their pages name ----

closed_sql "CREATE TABLE debezium(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
	aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb);
	CREATE TABLE ferry(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		message_id UUID NOT NULL UNIQUE DEFAULT gen_random_uuid(), topic VARCHAR(255) NOT NULL,
		aggregate_type VARCHAR(255) NOT NULL, aggregate_id VARCHAR(255) NOT NULL, \"key\" TEXT,
		payload JSONB NOT NULL, headers JSONB NOT NULL DEFAULT '{}', trace_id VARCHAR(64),
		status SMALLINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0,
		next_retry_at TIMESTAMPTZ, claimed_at TIMESTAMPTZ,
		created_at TIMESTAMPTZ NOT NULL DEFAULT now(), processed_at TIMESTAMPTZ)"
w create "$closed#debezium" --layout debezium --stream
expect "create makes what a relay keeps beside Debezium's table" 0
w create "$closed#ferry" --layout eventferry
expect "and beside eventferry's" 0
w create --kind queue "$closed#bus" --layout nservicebus
w create --kind delayed "$closed#fun" --layout funfix
expect "and tables of two other layouts" 0
closed_sql "GRANT SELECT ON debezium TO clerk; GRANT SELECT, INSERT, UPDATE, DELETE ON wherry_stream, wherry_dead TO clerk;
	GRANT SELECT, UPDATE, DELETE ON ferry TO clerk;
	GRANT SELECT, INSERT, UPDATE, DELETE ON bus, bus_received, \"bus.Delayed\" TO clerk;
	GRANT SELECT, INSERT, UPDATE, DELETE ON fun, fun_tries, fun_dead TO clerk;
	INSERT INTO debezium VALUES (gen_random_uuid(), 'order', '7', 'Made', '{}');
	INSERT INTO ferry(topic, aggregate_type, aggregate_id, payload) VALUES ('t', 'o', '7', '{}')"
allowed "$clerk" 0 relay URL#debezium null: --until-empty --timeout 60s
allowed "$clerk" 0 relay URL#ferry null: --until-empty --timeout 60s
for command in "send $clerk#bus {}" "offer $clerk#fun/mail x --key k"; do
	# shellcheck disable=SC2086 # words
	w $command
	expect "${command%% post*} names the right that is missing, and no --grant, which is not for such a table" 1 \
		"err:GRANT USAGE ON SEQUENCE" no:--grant
done
closed_sql "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk"
allowed "$clerk" 0 send URL#bus '{}'
allowed "$clerk" 0 receive URL#bus
allowed "$clerk" 0 offer URL#fun/mail x --key k
allowed "$clerk" 0 poll URL#fun/mail
for table in debezium ferry; do
	allowed "$clerk" 0 status URL#$table
	w doctor "$clerk#$table"
	expect "nor does the doctor name it ($table)" 1 no:--grant "out:grant it rights"
done
stop_server
finish
