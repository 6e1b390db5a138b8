#!/usr/bin/env bash
# A role that may create objects in a schema of everybody's search path: whatever other roles
# do with Wherry, nothing of it runs.
#
# Writes TAP.

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"

start_server wal_level=logical
psql -X -q -h "$folder" -U wherry -v ON_ERROR_STOP=1 -f "$source_dir/tests/postgres/hostile.sql" \
	postgres || exit 1

sql "CREATE ROLE shop LOGIN REPLICATION; CREATE ROLE producer LOGIN; CREATE ROLE relay LOGIN;
	CREATE ROLE operator LOGIN; CREATE SCHEMA shop AUTHORIZATION shop"
for role in shop producer relay operator wherry; do
	sql "ALTER ROLE $role SET search_path = shop, lobby"
done
as() { echo "postgres://$1@/postgres?host=$folder"; }

quiet() { # WHAT: nothing of the hostile role's has run so far
	check "$1 runs nothing of a hostile role" answers "SELECT is_called FROM lobby.ran" f
}

w create "$(as shop)" --partitions
expect "an outbox is made in a schema of its owner" 0
check "and not in that of the hostile role" answers \
	"SELECT count(*) FROM pg_tables WHERE schemaname = 'lobby' AND tablename = 'outbox'" 0
quiet create
sql "GRANT CREATE ON DATABASE postgres TO shop"
w create "$(as shop)" --grant producer=enqueuer --grant relay=relay --grant operator=operator
expect "roles get their rights" 0

put() { # as the producer, in plain SQL
	psql -X -q -v ON_ERROR_STOP=1 "$(as producer)" >/dev/null -c \
		"INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'k', '{}')" -c \
		"SELECT shop.wherry_enqueue('t', '{}'::json, key => 'k', lock_key => true)"
}

check "a producer inserts and calls the function" put
quiet "a producer in plain SQL"
w_in '{"id":1}' enqueue --lines "$(as producer)" --topic t --id /id --key /id
expect "wherry enqueue works" 0
quiet "wherry enqueue"

put
w relay "$(as relay)" stdout: --until-empty --timeout 60s
expect "a relay delivers" 0
put
w relay "$(as relay)" 'exec:exit 65' --until-empty --timeout 60s
expect "and gives up" 3
quiet "a relay"
w retry "$(as operator)" --all
expect "what it had given up is retried" 0 "out:2 "
w relay "$(as relay)" stdout: --until-empty --timeout 60s --set outbox.retention=1ms --set relay.purge_every=100ms
expect "what was retried is delivered" 0

put
w status "$(as operator)"
expect "status works" 0
w list "$(as operator)" --state dead,done,pending
expect "list works" 0
id=$(sql "SELECT max(id) FROM shop.outbox")
w show "$(as operator)" "$id"
expect "show works" 0
w seek "$(as operator)" start
expect "seek works" 0
w relay "$(as relay)" null: --until-empty --timeout 60s
expect "and all is delivered again" 0
w pause "$(as operator)"
w resume "$(as operator)"
expect "pause and resume work" 0
w purge "$(as operator)" --older-than 0s --yes
expect "purge works" 0
quiet "an operator's command"
w doctor "$(as shop)"
check "doctor says what it found" test -n "$out"
w doctor "$(as shop)" "$id"
w doctor "$(as wherry)#shop.outbox"
quiet "doctor"

# ---- tables of Wherry's names that belong to another role ----

sql "CREATE SCHEMA open; GRANT USAGE, CREATE ON SCHEMA open TO PUBLIC;
	ALTER SCHEMA open OWNER TO shop;
	SET ROLE hostile;
	CREATE TABLE open.wherry_outbox(name text NOT NULL PRIMARY KEY, paused_at timestamptz,
		control_version bigint NOT NULL DEFAULT 0);
	CREATE TRIGGER t BEFORE INSERT ON open.wherry_outbox FOR EACH STATEMENT
		EXECUTE FUNCTION lobby.trigger();
	GRANT ALL ON open.wherry_outbox TO PUBLIC"
for role in shop wherry; do
	w create "$(as $role)#open.outbox"
	expect "create refuses a table that another role has put there ($role)" 1 \
		"err:wherry_outbox" "err:hostile"
done
quiet "create beside such a table"

# ---- names that a stranger's schema, first in the path, has as well ----

sql "CREATE SCHEMA trap AUTHORIZATION hostile; GRANT USAGE ON SCHEMA trap TO PUBLIC;
	SET ROLE hostile;
	CREATE FUNCTION trap.spring() RETURNS integer LANGUAGE plpgsql AS \$\$
	BEGIN PERFORM pg_catalog.nextval('lobby.ran'); RAISE 'hostile: sprung'; END \$\$;
	CREATE VIEW trap.wherry_schema AS SELECT model, name, trap.spring() AS version, 1 AS min_program
		FROM (VALUES ('outbox', 'nowhere'), ('queue', 'nowhere'), ('delayed', 'nowhere'),
			('inbox', 'nowhere'), ('cron', 'nowhere')) AS v(model, name);
	GRANT SELECT ON trap.wherry_schema TO PUBLIC"
for role in shop wherry; do
	sql "ALTER ROLE $role SET search_path = trap, shop"
	for command in 'status URL#nowhere' 'list URL#nowhere' 'receive URL#nowhere' 'list URL#nowhere' \
		'status URL#nowhere' 'list URL#nowhere/q' 'cron list URL#nowhere'; do
		read -ra words <<<"$command"
		w "${words[@]//URL/$(as $role)}"
		expect "$command says that there is no such table, beside a stranger's list ($role)" 1 \
			"err:there is no" no:sprung
	done
	for command in 'create URL#nowhere' 'create --kind queue URL#nowhere' 'create --kind inbox URL#nowhere' \
		'create --kind delayed URL#nowhere' 'create --kind cron URL#nowhere'; do
		read -ra words <<<"$command"
		w "${words[@]//URL/$(as $role)}"
		if [ $role = shop ]; then
			expect "$command refuses a stranger's list of tables" 1 \
				"err:wherry_schema in schema trap belongs to hostile" no:sprung
		else # The owner of a schema may have tables in it.
			expect "$command of a superuser does not read it" 2 err:wherry_schema no:sprung
		fi
	done
done
w create --kind queue "$(as shop)#shop.jobs"
sql "CREATE TABLE trap.outbox (LIKE shop.outbox); CREATE TABLE trap.jobs (LIKE shop.jobs);
	ALTER TABLE trap.outbox OWNER TO hostile; ALTER TABLE trap.jobs OWNER TO hostile;
	GRANT ALL ON trap.outbox, trap.jobs TO PUBLIC"
for command in "create URL --grant relay=relay" "create --kind queue URL#jobs --grant relay=receiver"; do
	read -ra words <<<"$command"
	w "${words[@]//URL/$(as shop)}"
	expect "$command grants on the tables that are the role's own" 0 no:trap
done
sql "CREATE TABLE shop.events(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
	aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb);
	ALTER TABLE shop.events OWNER TO shop; CREATE TABLE trap.events (LIKE shop.events);
	ALTER TABLE trap.events OWNER TO hostile; GRANT ALL ON trap.events TO PUBLIC"
w create "$(as shop)#events" --stream
expect "and they are streamed" 0
check "not those of a stranger" answers "SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'trap'" 0
quiet "a command that looks for a name"

stop_server
finish
