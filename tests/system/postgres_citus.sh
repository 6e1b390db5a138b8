#!/usr/bin/env bash
# A server that looks like a node of Citus: its settings, its catalog, the trigger that it gives each of its tables.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server

sql "CREATE TABLE ddl(command text, propagated text, managed text);
	CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS \$\$ BEGIN
		INSERT INTO public.ddl VALUES (tg_tag, current_setting('citus.enable_ddl_propagation', true),
			current_setting('citus.use_citus_managed_tables', true));
	END \$\$;
	CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note()"
w create "$url"
expect "an outbox is made on a server without Citus" 0
check "whose sessions get no settings of Citus" answers \
	"SELECT count(*) FILTER (WHERE propagated IS NULL AND managed IS NULL) = count(*) AND count(*) > 10 FROM ddl" t
w drop "$url" --yes
sql "TRUNCATE ddl"
export PGOPTIONS="-c citus.enable_ddl_propagation=on -c citus.use_citus_managed_tables=on"
w create "$url"
expect "an outbox is made on a node of Citus" 0
check "and nothing of it on other nodes" answers \
	"SELECT count(*) FILTER (WHERE propagated = 'off' AND managed = 'off') = count(*) AND count(*) > 10 FROM ddl" t
unset PGOPTIONS

sql "SET allow_system_table_mods = on; CREATE TABLE pg_catalog.pg_dist_schema(schemaid oid);
	CREATE SCHEMA \"tenant.a\"; CREATE SCHEMA plain;
	INSERT INTO pg_catalog.pg_dist_schema VALUES ('\"tenant.a\"'::regnamespace)"
for kind in outbox queue delayed inbox "outbox --layout eventferry" "queue --layout nservicebus" \
	"delayed --layout funfix"; do
	# shellcheck disable=SC2086
	w create "$url#\"tenant.a\".t" --kind $kind
	expect "$kind: a distributed schema is refused by its name" 1 'err:Citus distributes the schema "tenant.a"'
	check "$kind: nothing is made in it" answers \
		"SELECT count(*) FROM pg_class WHERE relnamespace = '\"tenant.a\"'::regnamespace" 0
done
w create "$url#plain.t"
expect "another schema is not" 0

w doctor "$url"
check "doctor finds nothing of Citus" test -z "$(grep citus <<<"$out")"
sql "CREATE FUNCTION citus_truncate_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER truncate_trigger_1 AFTER TRUNCATE ON outbox FOR EACH STATEMENT
	EXECUTE FUNCTION citus_truncate_trigger();
	INSERT INTO outbox(id, topic, payload) VALUES (281474976710657, 't', '{}')"
w doctor "$url"
expect "doctor names a table that Citus has made its own" 1 "out:bad   citus               table public.outbox"
w status "$url"
expect "status, too" 0 "out:belongs to Citus"
check "and does not advise to lift its sequence" test -z "$(grep setval <<<"$out")"

# What the planner of Citus says of a statement with numbers of transactions on such a table.
sql "CREATE FUNCTION no_plan() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
		RAISE 'could not create distributed plan' USING ERRCODE = 'XX000';
	END \$\$;
	CREATE TRIGGER no_plan BEFORE INSERT OR UPDATE ON wherry_lease FOR EACH STATEMENT EXECUTE FUNCTION no_plan()"
w relay "$url" null: --until-empty
expect "a relay that ends there says whom to ask" 1 'err:distributed plan: a table belongs to Citus' \
	'err:(docs/guide/citus.md): run `wherry doctor'
sql "DROP TRIGGER no_plan ON wherry_lease"

sql "CREATE TABLE events(id bigserial PRIMARY KEY, type text, body jsonb);
	CREATE TRIGGER truncate_trigger_2 AFTER TRUNCATE ON events FOR EACH STATEMENT
	EXECUTE FUNCTION citus_truncate_trigger()"
for more in '' --yes; do
	w adopt "$url#events" --topic type $more
	expect "such a table is not adopted${more:+ with $more}" 1 "err:table 'events' belongs to Citus"
done
check "and gets no column" answers \
	"SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = 'events'::regclass AND attnum > 0" id,type,body

stop_server
finish
