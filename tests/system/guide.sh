#!/usr/bin/env bash
# The commands, SQL, files and programs of the guide work, in the order of each page, with the
# output that the page shows.  languages.md, clients.md and c.md have tests of their own (client_python.sh, examples_orders.sh,
# examples_receivers.sh, readme.sh).
#
# Writes TAP.
# shellcheck disable=SC2154

# shellcheck source=tests/system/postgres.bash
. "$(dirname "$0")/postgres.bash"
# shellcheck source=tests/kafka/broker.bash
. "$source_dir/tests/kafka/broker.bash"
# shellcheck source=tests/webhook/server.bash
. "$source_dir/tests/webhook/server.bash"
# shellcheck source=tests/amqp/amqp.bash
. "$source_dir/tests/amqp/amqp.bash"

export NO_PROXY='*'
blocks=$source_dir/tests/system/guide.py
guide=$source_dir/docs/guide

# ---- where the pages' names lead ----

make_certificate broker DNS:localhost
start_broker --topic orders 4
plain=$broker
amqp='' amqps='' amqp_folder=''
export RABBITMQ_PASSWORD=guest
start_secure() {
	mkfifo secure.in
	exec 4<>secure.in
	python3 "$source_dir/tests/kafka/broker.py" --tls broker.pem broker.key \
		--sasl shop sesame token --topic orders 1 <secure.in >secure.out 2>secure.err &
	pids+=($!)
	disown $!
	until_true 20 test -s secure.out
	secure=$(cat secure.out)
}
start_secure
export KAFKA_PASSWORD=sesame NATS_PASSWORD=sesame REDIS_PASSWORD=sesame
receive --log received
start_server wal_level=logical max_replication_slots=10 max_wal_senders=10
for role in web relay ops; do
	sql "CREATE ROLE $role LOGIN"
done
http=$(free_port)
refusing=$http # until the daemon listens there
mkdir -p bin shop
declare -A page_of

# The program as the pages run it.  A relay ends when all is delivered, after a message is there
# for it; a daemon runs in the background; nobody is asked.
cat >bin/wherry <<END
#!/usr/bin/env bash
case \$1 in
relay)
	[[ \$2 == *#jobs || \$2 == *#delayed/* || \$3 == *#invoices ]] || bash before_relay "\$@" >&2
	exec '$wherry' "\$@" --until-empty --timeout 60s
	;;
run)
	'$wherry' "\$@" >run.out 2>&1 </dev/null 9>&- &
	echo \$! >run.pid
	for ((i = 0; i < 400; i++)); do
		curl -s http://127.0.0.1:$http/readyz >ready.out
		! grep -q leading ready.out || exit 0
		grep -q 'not ready' ready.out || ! grep -q 'next tick' ready.out || exit 0
		sleep 0.05
	done
	cat run.out >&2
	exit 1
	;;
discard)
	for id in "\${@:2}"; do
		[ "\$id" = --yes ] ||
			sqlite3 shop/shop.db "INSERT INTO outbox(id, topic, payload) VALUES (\$id, 'orders', '{}')"
	done
	[[ " \$* " == *' --yes '* ]] || set -- "\$@" --yes
	exec '$wherry' "\$@"
	;;
reconcile)
	'$wherry' "\$@" || [ \$? -eq 6 ]
	;;
drop)
	exec '$wherry' "\$@" --yes
	;;
doctor)
	'$wherry' "\$@" || [ \$? -eq 1 ]
	;;
status)
	[[ " \$* " != *' --watch '* ]] || {
		timeout 1 '$wherry' "\$@" || [ \$? -eq 124 ]
		exit
	}
	exec '$wherry' "\$@"
	;;
top)
	timeout 1 '$wherry' "\$@" || [ \$? -eq 124 ]
	;;
*)
	exec '$wherry' "\$@"
	;;
esac
END
chmod +x bin/wherry

# place FILE: with this test's servers, files and messages in place of the page's.
place() {
	sed -E -e "s#postgres://(shop|owner)[^ @]*@db.example.org/shop#postgres://wherry@/$page?host=$folder#g" \
		-e "s#broker1:9092,broker2:9092#$plain#g; s#broker1:9092#$plain#g" \
		-e "s#amqp://rabbit.example.org#$amqp#g; s#/etc/shop/rabbit.pem#$amqp_folder/ca.pem#g" \
		-e "s#amqps://shop@rabbit.example.org/shop#amqps://guest@${amqps#*//}#g" \
		-e "s#amqps://rabbit.example.org/shop#$amqps#g; s#/etc/shop/shop\\.(pem|key)#$amqp_folder/guest.\\1#g" \
		-e "s#broker1:9093#$secure#g; s#/etc/shop/ca.pem#$tmp/broker.pem#g" \
		-e "s#localhost:4222#${nats-}#g" \
		-e "s#localhost:6379#${redis-}#g; s#/etc/shop/redis.pem#$tmp/broker.pem#g" \
		-e "s#https://hooks.example.org#http://127.0.0.1:$refusing#g" \
		-e "s#https://example.com/#http://127.0.0.1:$port/#g" \
		-e "s#/var/lib/shop#$tmp/shop#g; s#/var/lib/wherry#$tmp/shop#g; s#/var/log#$tmp/shop#g" \
		-e "s#/etc/wherry/#$tmp/shop/#g; s#127.0.0.1:9464#127.0.0.1:$http#g; s#MESSAGE_ID#order-7-paid#g" "$1"
}

# page NAME: run what it shows.  before_relay and the databases are there already.
try() { # NAME SQL-COMMAND [SQLITE-COMMAND]
	local name=$1

	page=${page_of[$name]:-$name}
	python3 "$blocks" script "$guide/$name.md" "$2" "${3:-}" >"$name.raw" || {
		result 1 "$name.md: it can be read"
		return
	}
	{
		printf 'write_yaml() { cat >wherry.yaml; wherry check; }\n'
		place "$name.raw"
	} >"$name.sh"
	place before_relay >before_relay.placed && mv before_relay.placed before_relay
	out=$(PATH=$tmp/bin:$PATH WHERRY_URL='' bash "$name.sh" 2>"$tmp/.err" </dev/null 9>&- 6>&- 4>&-)
	status=$?
	cp "$tmp/.err" "$name.err"
	err=$(tail -n 12 "$name.err")
	expect "$name.md: its commands work" 0
	err=$(not_printed "$name")
	check "$name.md: they print what it shows" is "$err" ''
}

# Lines of output that the page shows and the commands did not print; … stands for anything.
not_printed() {
	local line

	python3 "$blocks" texts "$guide/$1.md" | place /dev/stdin | while IFS= read -r line; do
		line=$(sed 's/[][\\.*^$]/\\&/g; s/…/.*/g' <<<"$line")
		[ -z "$line" ] || grep -qx -- "$line" <<<"$out"$'\n'"${out//\'/}"$'\n'"$(cat "$1.err")" ||
			echo "not printed: $line"
	done
}

postgres() { # DATABASE
	sql "CREATE DATABASE $1"
	server_sql="psql -X -q -v ON_ERROR_STOP=1 postgres://shop@db.example.org/shop"
}

on_server() { # DATABASE SQL
	psql -X -q -A -t -h "$folder" -U wherry "$1" -v ON_ERROR_STOP=1 -c "$2"
}

# Each relay gets a message by wherry enqueue, in the table that it relays.
send_before_relay() {
	cat >before_relay <<-'END'
		echo '{"order": 7, "state": "paid"}' | wherry enqueue --lines "$2" --topic orders
	END
}

# ---- PostgreSQL ----

send_before_relay
postgres kafka
"$wherry" create "postgres://wherry@/kafka?host=$folder" >/dev/null
try kafka "$server_sql"

if has_rabbit && command -v amqp-get >/dev/null && start_rabbit; then
	postgres amqp
	"$wherry" create "postgres://wherry@/amqp?host=$folder" >/dev/null
	try amqp "$server_sql"
	stop_rabbit
else
	result 0 "amqp.md: its commands work # SKIP ${amqp_lacks:-amqp-tools is not installed}"
fi

if PATH=$PATH:/usr/sbin:/usr/local/bin command -v nats-server >/dev/null; then
	start_piped nats
	nats=127.0.0.1:$piped
	printf true >before_relay
	try nats "$server_sql"
	exec 5>&-
	send_before_relay
else
	result 0 "nats.md: its commands work # SKIP nats-server is not installed"
fi

rm -f shop.db*
"$wherry" create sqlite:shop.db >/dev/null
try large-bodies ''
try opentelemetry ''

printf true >before_relay
rm -f shop.db*
try formats ''
send_before_relay

if command -v redis-server >/dev/null; then
	start_piped redis
	redis=127.0.0.1:$piped
	printf true >before_relay
	rm -f shop.db*
	try redis "$server_sql"
	exec 5>&-
	send_before_relay
else
	result 0 "redis.md: its commands work # SKIP redis-server is not installed"
fi

postgres webhooks
"$wherry" create "postgres://wherry@/webhooks?host=$folder" >/dev/null
try webhooks "$server_sql"
check "webhooks.md: the receiver got the message" \
	grep -q '"request": "POST /hooks/orders' received

postgres stream
on_server stream "CREATE TABLE outboxevent(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
	aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)"
cat >before_relay <<-'END'
	case " $* " in
	*' outboxevent '*)
		psql -q postgres://shop@db.example.org/shop -c "INSERT INTO outboxevent VALUES
			(gen_random_uuid(), 'orders', '7', 'paid', '{}')" ;;
	*) psql -q postgres://shop@db.example.org/shop -c "INSERT INTO outbox(topic, payload) VALUES ('orders', '{}')" ;;
	esac
END
try stream "$server_sql"
send_before_relay

postgres adopt
echo : >before_relay
try adopt "$server_sql"
send_before_relay

postgres eventferry
"$wherry" create "postgres://wherry@/eventferry?host=$folder" --layout eventferry >/dev/null
cat >bin/eventferry_sql <<-END
	#!/usr/bin/env bash
	input=\$(cat)
	[[ \$input != *RENAME* ]] || psql -q -h $folder -U wherry eventferry -c "INSERT INTO outbox
		(message_id, aggregate_type, aggregate_id, topic, payload)
		VALUES (gen_random_uuid(), 'order', '8', 'orders', '{\"order\": 8}')"
	exec psql -X -q -v ON_ERROR_STOP=1 -h $folder -U wherry eventferry <<<"\$input"
END
chmod +x bin/eventferry_sql
try eventferry eventferry_sql
check "eventferry.md: the open event has moved" is "$(on_server eventferry \
	"SELECT count(*) FROM outbox WHERE partition_key = '8'")" 1

cat >before_relay <<-'END'
	echo '{"order": 7}' | wherry enqueue --lines "$2" --topic orders --key 7
END
sql 'CREATE DATABASE postgres_page'
page_of[postgres]=postgres_page
on_server postgres_page "CREATE TABLE orders(id bigint, state text); INSERT INTO orders VALUES (7, 'paid')"
try postgres "$server_sql"

postgres add_an_outbox
page_of[add-an-outbox]=add_an_outbox
printf true >before_relay
try add-an-outbox "$server_sql"
send_before_relay

postgres queues
on_server queues "CREATE TABLE accounts(id bigint, balance bigint)"
rm -f shop.db*
try queues "$server_sql" 'sqlite3 -bail shop.db'

# The columns as the packages pg-boss 10.4.2 and graphile-worker 0.17.3 make them, and River's.
postgres job_queues
page_of[job-queues]=job_queues
on_server job_queues "CREATE SCHEMA pgboss; CREATE SCHEMA graphile_worker;
	CREATE TYPE pgboss.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
	CREATE TABLE pgboss.job(id uuid NOT NULL DEFAULT gen_random_uuid(), name text NOT NULL, data jsonb,
		state pgboss.job_state NOT NULL DEFAULT 'created', start_after timestamptz NOT NULL DEFAULT now(),
		created_on timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (name, id)) PARTITION BY LIST (name);
	CREATE TABLE pgboss.mail PARTITION OF pgboss.job FOR VALUES IN ('mail');
	INSERT INTO pgboss.job(name, data, state, start_after) VALUES ('mail', '{\"to\": \"a\"}', 'created', now()),
		('mail', NULL, 'retry', now() + interval '1 hour'), ('mail', '{}', 'active', now());
	CREATE TABLE graphile_worker._private_tasks(id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, identifier text NOT NULL);
	CREATE TABLE graphile_worker._private_jobs(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id integer NOT NULL,
		payload json NOT NULL DEFAULT '{}', run_at timestamptz NOT NULL DEFAULT now(), attempts smallint NOT NULL DEFAULT 0,
		max_attempts smallint NOT NULL DEFAULT 25, key text, locked_at timestamptz,
		is_available boolean NOT NULL GENERATED ALWAYS AS (locked_at IS NULL AND attempts < max_attempts) STORED);
	INSERT INTO graphile_worker._private_tasks(identifier) VALUES ('mail'), ('other');
	INSERT INTO graphile_worker._private_jobs(task_id, run_at, locked_at) VALUES (1, now(), NULL),
		(1, now() + interval '1 hour', NULL), (1, now(), now()), (2, now(), NULL);
	CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
	CREATE TABLE river_job(id bigserial PRIMARY KEY, state river_job_state NOT NULL DEFAULT 'available', args jsonb NOT NULL DEFAULT '{}',
		kind text NOT NULL, queue text NOT NULL DEFAULT 'default', scheduled_at timestamptz NOT NULL DEFAULT now());
	INSERT INTO river_job(state, kind, queue, scheduled_at) VALUES ('available', 'send', 'mail', now()),
		('scheduled', 'send', 'mail', now() + interval '1 hour'), ('running', 'send', 'mail', now()),
		('available', 'send', 'default', now())"
try job-queues "$server_sql"
check "job-queues.md: jobs that run, and those of other queues, stay" is "$(on_server job_queues "SELECT
	(SELECT count(*) FROM pgboss.job) || ' ' || (SELECT count(*) FROM graphile_worker._private_jobs)
	|| ' ' || (SELECT count(*) FROM river_job)")" '1 2 2'

postgres nservicebus
on_server nservicebus "CREATE TABLE orders(Id uuid NOT NULL PRIMARY KEY, Expires TIMESTAMP,
	Headers TEXT NOT NULL, Body BYTEA, Seq serial NOT NULL UNIQUE)"
try nservicebus "$server_sql"

postgres delayed
rm -f shop.db*
try delayed "$server_sql" 'sqlite3 -bail shop.db'

postgres inbox
on_server inbox "CREATE TABLE shipments(order_id bigint)"
rm -f shop.db*
sqlite3 shop.db 'CREATE TABLE shipments(order_id)'
ln -s "$build_dir/examples/inbox" inbox
try inbox "$server_sql" 'sqlite3 -bail shop.db'
check "inbox.md: each message took effect once" is \
	"$(sqlite3 shop.db 'SELECT order_id FROM shipments ORDER BY 1' | tr '\n' ' ')" '7 8 9 '
"$wherry" create --kind inbox "postgres://wherry@/inbox?host=$folder" --grant web=consumer >/dev/null
check "inbox.md: a consumer may accept" is \
	"$(psql -X -q -A -t -h "$folder" -U web inbox -c "SELECT wherry_accept('order-8-paid')" \
		-c "SELECT wherry_accept('order-8-paid')" | tr -d '\n')" tf

sql 'CREATE DATABASE doctor'
"$wherry" create "postgres://wherry@/doctor?host=$folder" >/dev/null
on_server doctor "INSERT INTO outbox(id, message_id, topic, payload) OVERRIDING SYSTEM VALUE
	VALUES (42, 'order-7-paid', 'orders', '{}');
	SELECT setval('outbox_id_seq', 42)" >setval.out
try doctor "$server_sql"

# ---- SQLite ----

send_before_relay
"$wherry" create sqlite:app.db#outbox_events --layout event-bus >/dev/null
cat >bin/event_bus_sql <<-END
	#!/usr/bin/env bash
	echo '{}' | wherry enqueue --lines sqlite:app.db#outbox_events --topic moves >&2
	exec sqlite3 -bail app.db
END
chmod +x bin/event_bus_sql
try event-bus event_bus_sql
check "event-bus.md: the open event has moved" is \
	"$(sqlite3 app.db "SELECT count(*) FROM outbox WHERE topic = 'moves'")" 1

rm -f shop.db*
cat >before_relay <<-'END'
	echo '{"order": 7}' | wherry enqueue --lines @outbox --topic orders.paid
END
try subscriptions 'sqlite3 -bail shop.db'
check "subscriptions.md: its relay delivers" grep -q '"order": 7' audit.ndjson
send_before_relay

rm -f shop.db*
"$wherry" create sqlite:shop.db >/dev/null
"$build_dir/tests/system_delayed_main" sqlite:shop.db
# The tables of Quartz 2.3 and of pg_cron 1.6.
postgres cron_page
page_of[cron]=cron_page
"$wherry" create --kind delayed "postgres://wherry@/cron_page?host=$folder" >/dev/null
on_server cron_page "CREATE TABLE qrtz_job_details(sched_name varchar(120) NOT NULL, job_name varchar(200) NOT NULL, job_group varchar(200) NOT NULL,
		description varchar(250), job_class_name varchar(250) NOT NULL, is_durable boolean NOT NULL, is_nonconcurrent boolean NOT NULL,
		is_update_data boolean NOT NULL, requests_recovery boolean NOT NULL, job_data bytea, PRIMARY KEY (sched_name, job_name, job_group));
	CREATE TABLE qrtz_triggers(sched_name varchar(120) NOT NULL, trigger_name varchar(200) NOT NULL, trigger_group varchar(200) NOT NULL,
		job_name varchar(200) NOT NULL, job_group varchar(200) NOT NULL, description varchar(250), next_fire_time bigint,
		prev_fire_time bigint, priority integer, trigger_state varchar(16) NOT NULL, trigger_type varchar(8) NOT NULL,
		start_time bigint NOT NULL, end_time bigint, calendar_name varchar(200), misfire_instr smallint, job_data bytea,
		PRIMARY KEY (sched_name, trigger_name, trigger_group),
		FOREIGN KEY (sched_name, job_name, job_group) REFERENCES qrtz_job_details);
	CREATE TABLE qrtz_simple_triggers(sched_name varchar(120) NOT NULL, trigger_name varchar(200) NOT NULL, trigger_group varchar(200) NOT NULL,
		repeat_count bigint NOT NULL, repeat_interval bigint NOT NULL, times_triggered bigint NOT NULL,
		PRIMARY KEY (sched_name, trigger_name, trigger_group),
		FOREIGN KEY (sched_name, trigger_name, trigger_group) REFERENCES qrtz_triggers);
	CREATE TABLE qrtz_cron_triggers(sched_name varchar(120) NOT NULL, trigger_name varchar(200) NOT NULL, trigger_group varchar(200) NOT NULL,
		cron_expression varchar(120) NOT NULL, time_zone_id varchar(80), PRIMARY KEY (sched_name, trigger_name, trigger_group),
		FOREIGN KEY (sched_name, trigger_name, trigger_group) REFERENCES qrtz_triggers);
	INSERT INTO qrtz_job_details VALUES ('s', 'remind', 'mail', NULL, 'c', true, false, false, false, NULL);
	INSERT INTO qrtz_triggers SELECT 's', 't' || i, 'mail', 'remind', 'mail', NULL, 4000000000000, -1, 5,
		CASE i WHEN 3 THEN 'ACQUIRED' ELSE 'WAITING' END, CASE WHEN i < 5 THEN 'SIMPLE' ELSE 'CRON' END, 0, 0, NULL, 0, 'x'
		FROM generate_series(1, 6) AS i;
	INSERT INTO qrtz_simple_triggers SELECT 's', 't' || i, 'mail', CASE i WHEN 4 THEN -1 ELSE 0 END, 0, 0 FROM generate_series(1, 4) AS i;
	INSERT INTO qrtz_cron_triggers VALUES ('s', 't5', 'mail', '0 15 10 ? * 2-6', 'Europe/Berlin'), ('s', 't6', 'mail', '0 0 12 L * ?', NULL);
	CREATE SCHEMA cron; CREATE TABLE cron.job(jobid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, schedule text NOT NULL,
		command text NOT NULL, nodename text NOT NULL DEFAULT 'localhost', nodeport integer NOT NULL DEFAULT 5432,
		database text NOT NULL DEFAULT 'shop', username text NOT NULL DEFAULT 'shop', active boolean NOT NULL DEFAULT true, jobname text);
	INSERT INTO cron.job(schedule, command, jobname, active) VALUES ('0 6 * * *', 'CALL report(''daily'')', 'report', true),
		('30 seconds', 'CALL poll()', NULL, true), ('0 0 * * *', 'VACUUM', 'old', false)"
try cron "$server_sql"
check "cron.md: triggers that fire or repeat stay, and others wait on the delayed queue" is "$(on_server cron_page "SELECT
	(SELECT string_agg(trigger_name, ' ' ORDER BY trigger_name) FROM qrtz_triggers) || ' '
	|| (SELECT string_agg(\"pKey\", ' ' ORDER BY \"pKey\") FROM delayed)")" 't3 t4 t5 t6 mail.t1 mail.t2'
daemon=$(cat run.pid)
kill "$daemon"
check "cron.md: its daemon ends" until_true 20 ended "$daemon"
rm run.pid

rm -f shop.db*
try sqlite 'sqlite3 -bail shop.db'

# The extension is where SQLite finds it by its name.
if /usr/bin/python3 -c 'import sqlite3
sqlite3.connect(":memory:").enable_load_extension(True)' 2>/dev/null; then
	rm -f shop.db*
	preload=$(ldd "$build_dir/wherry.so" | grep -oE '/[^ ]*libasan[.]so[^ ]*')
	for program in /usr/bin/python3 "$(command -v sqlite3)"; do
		printf '#!/bin/sh\nLD_LIBRARY_PATH=%q LD_PRELOAD=%q ASAN_OPTIONS=detect_leaks=0 exec %q "$@"\n' \
			"$build_dir" "$preload" "$program" >"bin/${program##*/}"
		chmod +x "bin/${program##*/}"
	done
	try sqlite-functions 'sqlite3 -bail -cmd ".load wherry" shop.db'
	check "sqlite-functions.md: two orders were sent" is \
		"$(sqlite3 shop.db 'SELECT group_concat(partition_key) FROM outbox')" 7,8
	rm bin/python3 bin/sqlite3
else
	result 0 "sqlite-functions.md: its commands work # SKIP Python loads no extensions of SQLite"
fi

# A broker has lost the second of three messages.
rm -f shop.db* receiver.db*
printf true >before_relay
"$wherry" create sqlite:shop.db >/dev/null
"$wherry" create --kind inbox sqlite:receiver.db#inbox >/dev/null
sqlite3 shop.db "INSERT INTO outbox(topic, partition_key, payload, created_at)
	SELECT 'orders', 'customer-' || column1, '{}', 1000 * (unixepoch() - 60) FROM (VALUES (7), (8), (9))"
sqlite3 shop.db "UPDATE outbox_progress SET high = 3; INSERT INTO outbox_exception(subscription, id) VALUES ('relay', 1), ('relay', 3)"
"$wherry" relay sqlite:shop.db "kafka://$plain" --until-empty --timeout 60s 2>lost.err
try reconcile ''

rm -f shop.db*
"$wherry" create sqlite:shop.db >/dev/null
sqlite3 shop.db "INSERT INTO outbox(id, topic, payload) VALUES (42, 'orders', '{}');
	INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 42, 4)"
try dead-letters ''

"$wherry" create sqlite:shop/shop.db >/dev/null
"$wherry" create sqlite:shop/shop.db#billing_outbox >/dev/null
sqlite3 shop/shop.db "INSERT INTO outbox(id, message_id, topic, payload) VALUES
	(1, 'order-7-paid', 'orders', '{}'), (2, 'a', 'orders', '{}');
	INSERT INTO outbox_exception(subscription, id, state) VALUES ('relay', 2, 4); UPDATE outbox_progress SET high = 2"
# A relay of another outbox finds its destination down.
"$wherry" create sqlite:shop/shop.db#mail_outbox >/dev/null
echo '{}' | "$wherry" enqueue --lines sqlite:shop/shop.db#mail_outbox --topic orders
"$wherry" relay sqlite:shop/shop.db#mail_outbox "http://127.0.0.1:$refusing" >down.out 2>&1 &
down=$!
pids+=("$down")
refused() {
	"$wherry" status sqlite:shop/shop.db#mail_outbox | grep -q 'destination refuses'
}
check "status says that a destination is down" until_true 20 refused
cat >before_relay <<-'END'
	echo '{"order": 7, "state": "paid"}' | wherry enqueue --lines "${2%/audit}" --topic orders.paid
END
try operating ''
kill -KILL "$down"
wait "$down" 2>/dev/null

# ---- the daemon ----

sql 'CREATE DATABASE daemon'
"$wherry" create "postgres://wherry@/daemon?host=$folder" >/dev/null
echo hush >shop/password
echo "whsec_$(head -c 32 /dev/urandom | base64 -w 0)" >shop/hook-secret
try daemon ''
[ ! -e run.pid ] || kill "$(cat run.pid)"

# ---- programs, and what no test runs ----

for name in handlers destinations inbox; do
	out=$(python3 "$blocks" programs "$guide/$name.md" "$source_dir/examples")
	check "$name.md: its C is that of an example" is "$out" ''
done
others() {
	local name

	for name in "$guide"/*.md; do
		[[ $name == */languages.md || $name == */clients.md || $name == */c.md || $name == */deploying.md || $name == */scaling.md ]] || python3 "$blocks" others "$name"
	done
}
out=$(others)
check "every other block is run, but the installation of the service and the WAL" is "$out" \
	"openssl rand -hex 32 | sudo install -m 600 /dev/stdin /etc/wherry/secrets/http-token
sudo systemctl enable --now wherry
wherry relay postgres://shop@db.example.org/shop https://example.org/hook --set relay.source=wal"
untried() {
	local name

	for name in "$guide"/*.md; do
		name=$(basename "$name" .md)
		grep -Eq "^\s*try $name " "$source_dir/tests/system/guide.sh" ||
			[ -z "$(python3 "$blocks" script "$guide/$name.md" true | sed 1d)" ] ||
			echo "$name"
	done
}
check "the commands of every page are run" is "$(untried)" 'clients
languages'

stop_server
finish
