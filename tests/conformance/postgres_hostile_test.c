/*
 * Other roles' operators and functions in the search path: none of them is ever used, on
 * connections that Wherry borrowed either, where it may not change the path.
 */
#include "outbox_suite.h"

#include <wherry/postgres.h>

#include "db/postgres/postgres.h"
#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "outbox/stream.h"
#include "postgres/server.h"
#include "queue/queue.h"

/* The application's connection: its own schema, then one where others may create. */
static PGconn *arrive(const char *schema, wherry_db **out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[200], sql[200];
	PGconn *conn;

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s",
		       postgres_folder());
	conn = PQconnectdb(url);
	(void)snprintf(sql, sizeof(sql),
		       "SET client_min_messages = warning; CREATE SCHEMA %s; "
		       "SET search_path = %s, lobby",
		       schema, schema);
	assert_true(postgres_exec(conn, sql, NULL, 0));
	WHERRY_PASS(wherry_postgres_borrow(conn, out, &err));
	return conn;
}

/* What the hostile role made, in the words of the server: what depends on it, from outside. */
static void nothing_depends_on_it(const char *what)
{
	static const char sql[] =
		"SELECT coalesce(string_agg(DISTINCT pg_describe_object(classid, objid, "
		"objsubid) || ' uses ' || pg_describe_object(refclassid, refobjid, 0), '; '),"
		" '') FROM pg_depend AS d WHERE deptype = 'n' AND (refclassid = "
		"'pg_operator'::regclass AND refobjid IN (SELECT oid FROM pg_operator WHERE "
		"oprnamespace = 'lobby'::regnamespace) OR refclassid = 'pg_proc'::regclass AND "
		"refobjid IN (SELECT oid FROM pg_proc WHERE pronamespace = "
		"'lobby'::regnamespace)) AND NOT (classid = 'pg_operator'::regclass AND objid "
		"IN (SELECT oid FROM pg_operator WHERE oprnamespace = 'lobby'::regnamespace)) "
		"AND classid NOT IN ('pg_trigger'::regclass, 'pg_cast'::regclass)";
	char found[2000] = "", url[160];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s",
		       postgres_folder());
	assert_true(postgres_raw(url, sql, found, sizeof(found)));
	if (*found)
		print_error("%s: %s\n", what, found);
	assert_string_equal(found, "");
}

static void nothing_of_it_ran(PGconn *conn)
{
	char ran[8] = "";

	assert_true(postgres_exec(conn,
				  "SELECT is_called::pg_catalog.text FROM lobby.ran", ran,
				  sizeof(ran)));
	assert_string_equal(ran, "false");
}

/* The server notes what the body of a function uses. */
static bool is_clean(PGconn *conn, const wh_stmt *stmt)
{
	wh_buf text = WH_BUF_INIT(128 * 1024);
	char found[400] = "", kind[16], *body = strdup(stmt->text), *end;
	PGresult *res, *types;

	assert_non_null(body);
	res = PQprepare(conn, "", body, 0, NULL);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		print_error("%s: %s", stmt->name, PQerrorMessage(conn));
	PQclear(res);
	res = PQdescribePrepared(conn, "");
	wh_buf_puts(&text, "CREATE FUNCTION probe(");
	for (int i = 0; i < PQnparams(res); i++) {
		(void)snprintf(kind, sizeof(kind), "%u", PQparamtype(res, i));
		types = PQexecParams(conn, "SELECT $1::oid::regtype::text", 1, NULL,
				     (const char *const[]){kind}, NULL, NULL, 0);
		wh_buf_printf(&text, "%s%s", i ? ", " : "", PQgetvalue(types, 0, 0));
		PQclear(types);
	}
	end = strrchr(body, ';');
	if (end)
		*end = 0;
	wh_buf_printf(&text, ") RETURNS void LANGUAGE sql BEGIN ATOMIC %s; END", body);
	PQclear(res);
	free(body);
	assert_true(postgres_exec(conn, wh_buf_str(&text), NULL, 0));
	wh_buf_clear(&text);
	assert_true(postgres_exec(
		conn,
		"SELECT coalesce(string_agg(DISTINCT pg_describe_object(refclassid, "
		"refobjid, 0), '; '), '') FROM pg_depend WHERE objid = "
		"(SELECT oid FROM pg_proc WHERE proname = 'probe') AND refclassid IN "
		"('pg_operator'::regclass, 'pg_proc'::regclass) AND refobjid NOT IN "
		"(SELECT oid FROM pg_proc WHERE proname IN ('wherry_unreadable', 'wherry_consume', 'outbox_segments') AND pronamespace = "
		"current_schema()::regnamespace)",
		found, sizeof(found)));
	assert_true(postgres_exec(conn, "DROP FUNCTION probe", NULL, 0));
	if (*found)
		print_error("%s uses %s\n", stmt->name, found);
	return !*found;
}

static int count_unclean(PGconn *conn, const wh_sql *sql)
{
	/* The last is of logs alone. */
	static const char *const scripts[] = {"migrate-",  "add-", "publish",
					      "tables",    "drop", "try-drop",
					      "leave-done"};
	int unclean = 0;

	for (size_t i = 0; i < sql->n; i++) {
		bool script =
			sql->stmts[i].part || strncmp(sql->stmts[i].text, "DO ", 3) == 0;

		for (size_t k = 0; k < sizeof(scripts) / sizeof(*scripts); k++)
			script |= strncmp(sql->stmts[i].name, scripts[k],
					  strlen(scripts[k])) == 0;
		if (!script)
			unclean += !is_clean(conn, &sql->stmts[i]);
	}
	return unclean;
}

/* Those of a relay that stands for many schemas. */
static int count_unclean_matched(PGconn *conn, const char *schema)
{
	const wh_sql_names names = {.dialect = "postgres",
				    .schema = schema,
				    .table = "outbox",
				    .payload = "bytea",
				    .topic = WH_SUBSCRIPTION_OF_RELAYS};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_sql sql;
	int unclean;

	WHERRY_PASS(wh_sql_parse_as(wh_sql_embedded("outbox", "matched", "postgres"),
				    &names, &sql, &err));
	unclean = count_unclean(conn, &sql);
	wh_sql_clear(&sql);
	return unclean;
}

static wherry_outbox *made(wherry_db *db, const wh_make *how)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wh_outbox_make(db, how, "outbox", &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	return outbox;
}

WHERRY_TEST(no_statement_uses_what_another_role_made)
{
	static const char *const layouts[] = {"log", "eventferry", "debezium"};
	wherry_error err = WHERRY_ERROR_INIT;
	int unclean = 0;

	for (int i = 0; i < 3; i++) {
		const wh_make how = {.layout = layouts[i],
				     .segments = 10,
				     .extras =
					     i ? 0u : WH_PARTITIONS_SHARED | WH_SEGMENTS};
		wherry_outbox *outbox;
		wh_wal *wal = NULL;
		wherry_db *db;
		char schema[24];
		PGconn *conn;

		(void)snprintf(schema, sizeof(schema), "plain%d", i);
		conn = arrive(schema, &db);
		outbox = made(db, &how);
		unclean += count_unclean(conn, &outbox->store.sql);
		if (i == 0) {
			WHERRY_PASS(wh_wal_open_log(outbox, "", &wal, &err));
			unclean += !is_clean(conn, wh_sql_find(&wal->sql, "leave-done"));
			wh_wal_close(wal);
			unclean += count_unclean_matched(conn, schema);
		}
		if (i == 2) {
			WHERRY_PASS(wh_wal_open(outbox, "", "", &wal, &err));
			WHERRY_PASS(wh_wal_tables(wal, &err));
			unclean += count_unclean(conn, &wal->sql);
			wh_wal_close(wal);
		}
		nothing_depends_on_it("what create made");
		nothing_of_it_ran(conn);
		wherry_outbox_close(outbox);
		wherry_db_close(db);
		PQfinish(conn);
	}
	assert_int_equal(unclean, 0);
}

WHERRY_TEST(a_borrowed_connection_runs_nothing_of_another_role)
{
	const wherry_message m =
		WHERRY_MESSAGE(.topic = "t", .key = "k", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	char got[24] = "";
	wherry_outbox *outbox;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("guest", &db);
	outbox = made(db, &(wh_make){.layout = "log"});
	assert_true(postgres_exec(conn, "BEGIN", NULL, 0));
	WHERRY_PASS(wherry_outbox_enqueue(outbox, &m, WHERRY_LOCK_KEY, NULL, &err));
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_enqueue('t', '{}'::text, key => 'k', lock_key => true); "
		"SELECT wherry_enqueue('t', '{}'::json, headers => '{\"a\":\"b\"}'); "
		"SELECT wherry_enqueue('t', '{}'::jsonb, aggregate_type => 'a', "
		"aggregate_id => 'b', lock_key => true); "
		"SELECT wherry_enqueue('t', '{}'::bytea, message_id => 'm'); "
		"SELECT wherry_enqueue_many('{t,t}', '{1,2}'::text[], '{k,l}', headers => "
		"ARRAY['{\"a\":\"b\"}', NULL]::json[], lock_key => true); COMMIT; "
		"SELECT count(*) FROM outbox",
		got, sizeof(got)));
	assert_string_equal(got, "7");
	nothing_of_it_ran(conn);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	PQfinish(conn);
}

/* A type, operator and function beside each of those in pg_catalog, with the same name and arguments.  Where
 * pg_catalog comes last, they are found first. */
static bool make_rivals(void)
{
	static const char sql[] =
		"CREATE SCHEMA rivals; GRANT USAGE ON SCHEMA rivals TO PUBLIC; "
		"CREATE FUNCTION rivals.seen() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM "
		"pg_catalog.nextval('lobby.ran'); RAISE 'hostile: a type'; END$$; "
		"DO $do$ DECLARE r record; n integer := 0; "
		"body CONSTANT text := 'BEGIN PERFORM pg_catalog.nextval(''lobby.ran''); RAISE ''hostile: %s''; END'; BEGIN "
		"FOR r IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' "
		"AND typcategory <> 'A' LOOP "
		"EXECUTE format('CREATE DOMAIN rivals.%I AS pg_catalog.%I CHECK (rivals.seen())', r.typname, r.typname); "
		"END LOOP; "
		"FOR r IN SELECT oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS res "
		"FROM pg_operator AS o JOIN pg_type AS a ON a.oid = oprleft JOIN pg_type AS b ON b.oid = oprright "
		"WHERE a.typtype = 'b' AND b.typtype = 'b' AND oprnamespace = 'pg_catalog'::regnamespace LOOP "
		"n := n + 1; EXECUTE format('CREATE FUNCTION rivals.op%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', n, r.l, "
		"r.r, r.res, format(body, 'an operator')); EXECUTE format('CREATE OPERATOR rivals.%s (leftarg = %s, "
		"rightarg = %s, function = rivals.op%s)', r.oprname, r.l, r.r, n); END LOOP; "
		"FOR r IN SELECT DISTINCT proname, oidvectortypes(proargtypes) AS args, prorettype::regtype AS res FROM pg_proc "
		"AS p WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset AND "
		"(SELECT typtype FROM pg_type WHERE oid = prorettype) IN ('b', 'p') AND prorettype NOT IN "
		"('internal'::regtype, 'trigger'::regtype, 'event_trigger'::regtype) AND NOT EXISTS (SELECT 1 FROM "
		"unnest(proargtypes) AS a(t) JOIN pg_type AS y ON y.oid = a.t WHERE y.typtype <> 'b') LOOP BEGIN "
		"EXECUTE format('CREATE FUNCTION rivals.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', r.proname, r.args, r.res, "
		"format(body, r.proname)); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $do$";
	char url[160];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s",
		       postgres_folder());
	return postgres_raw(url, sql, NULL, 0);
}

/* Where pg_catalog comes last, what others made goes before all of it.  Begins. */
static void put_catalog_last(PGconn *conn, const char *schema)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql),
		       "SET search_path = %s, rivals, lobby, pg_catalog; BEGIN", schema);
	assert_true(postgres_exec(conn, sql, NULL, 0));
}

WHERRY_TEST(enqueueing_is_safe_though_pg_catalog_comes_last)
{
	const wherry_message m =
		WHERRY_MESSAGE(.topic = "t", .key = "k", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("last", &db);
	outbox = made(db, &(wh_make){.layout = "log"});
	put_catalog_last(conn, "last");
	WHERRY_PASS(wherry_outbox_enqueue(outbox, &m, WHERRY_LOCK_KEY, NULL, &err));
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_enqueue('t', '{}'::pg_catalog.text, key => 'k', lock_key => true); "
		"SELECT wherry_enqueue('t', '{}'::pg_catalog.json, headers => '{\"a\":\"b\"}'); "
		"SELECT wherry_enqueue('t', '{}'::pg_catalog.jsonb, aggregate_type => 'a', "
		"aggregate_id => 'b', lock_key => true); "
		"SELECT wherry_enqueue('t', '{}'::pg_catalog.bytea, message_id => 'm'); "
		"SELECT wherry_enqueue('t', '{}'::pg_catalog.text, key => 7::numeric); "
		"SELECT wherry_enqueue('t', '{}'::pg_catalog.jsonb, key => "
		"'018f0000-0000-7000-8000-000000000000'::pg_catalog.uuid); "
		"SELECT wherry_enqueue_many(ARRAY['t', 't'], ARRAY['1', '2']::pg_catalog.text[], ARRAY['k', 'l'], headers => "
		"ARRAY['{\"a\":\"b\"}', NULL]::pg_catalog.json[], lock_key => true); "
		"SELECT wherry_enqueue_many(ARRAY['t'], ARRAY['1']::pg_catalog.jsonb[], message_ids => ARRAY['n'], "
		"aggregate_types => ARRAY['a'], aggregate_ids => ARRAY['b'], lock_key => true); COMMIT",
		NULL, 0));
	nothing_of_it_ran(conn);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	PQfinish(conn);
}

WHERRY_TEST(accepting_is_safe_though_pg_catalog_comes_last)
{
	static const char *const ids[] = {"m1", "m2"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *inbox = NULL;
	bool new[2] = {false};
	wherry_db *db;
	PGconn *conn;

	conn = arrive("accepting", &db);
	WHERRY_PASS(wherry_inbox_create(db, NULL, &err));
	WHERRY_PASS(wherry_inbox_open(db, NULL, &inbox, &err));
	put_catalog_last(conn, "accepting");
	WHERRY_PASS(wherry_inbox_accept(inbox, NULL, "m1", new, &err));
	assert_true(*new);
	WHERRY_PASS(wherry_inbox_accept_many(inbox, NULL, ids, 2, new, &err));
	assert_true(!new[0] && new[1]);
	WHERRY_PASS(wherry_inbox_forget(inbox, NULL, "m1", &err));
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_accept('m3', 'c'); SELECT wherry_accept_many(ARRAY['m3', 'm4'], 'c'); COMMIT",
		NULL, 0));
	nothing_of_it_ran(conn);
	wherry_inbox_close(inbox);
	wherry_db_close(db);
	PQfinish(conn);
}

/* ---- crons ---- */

static wherry_code no_tick(void *ctx, int64_t at_us, wherry_error *err)
{
	return WHERRY_OK;
}

WHERRY_TEST(firing_is_safe_though_pg_catalog_comes_last)
{
	const wherry_tick tick = {.at_us = 1, .body = "{}", .body_len = 2};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wherry_schedule *schedule = NULL;
	wherry_cron *cron = NULL;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("firing", &db);
	WHERRY_PASS(wherry_delayed_create(db, NULL, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(db, NULL, "q", NULL, &queue, &err));
	WHERRY_PASS(wherry_cron_create(db, NULL, &err));
	WHERRY_PASS(wherry_cron_open(db, NULL, &cron, &err));
	WHERRY_PASS(wherry_schedule_parse("@every 1h", NULL, &schedule, &err));
	put_catalog_last(conn, "firing");
	WHERRY_PASS(wherry_cron_install(cron, queue, "p", "A", &tick, 1, NULL, &err));
	WHERRY_PASS(wherry_cron_install(cron, queue, "p", "B", &tick, 1, NULL, &err));
	WHERRY_PASS(wherry_cron_uninstall(cron, queue, "p", "B", NULL, &err));
	WHERRY_PASS(wherry_cron_fire(cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
				     no_tick, NULL, NULL, NULL, &err));
	assert_true(postgres_exec(conn, "COMMIT", NULL, 0));
	nothing_of_it_ran(conn);
	wherry_schedule_free(schedule);
	wherry_cron_close(cron);
	wherry_delayed_close(queue);
	wherry_db_close(db);
	PQfinish(conn);
}

/* ---- queues ---- */

static wherry_queue *made_queue(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	return queue;
}

WHERRY_TEST(no_statement_of_a_queue_uses_what_another_role_made)
{
	wherry_queue *queue;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("jobs1", &db);
	queue = made_queue(db);
	assert_int_equal(count_unclean(conn, &queue->store.sql), 0);
	nothing_depends_on_it("a queue");
	nothing_of_it_ran(conn);
	wherry_queue_close(queue);
	wherry_db_close(db);
	PQfinish(conn);
}

typedef struct leased {
	char token[64];
	int64_t ids[4];
	size_t n;
} leased;

static wherry_code lease(void *ctx, const wherry_queue_message *msg)
{
	leased *l = ctx;

	(void)snprintf(l->token, sizeof(l->token), "%s", msg->token ? msg->token : "");
	assert_true(l->n < 4);
	l->ids[l->n++] = msg->id;
	return WHERRY_OK;
}

static void use_queue(wherry_db *db, wherry_queue *queue)
{
	const wherry_queue_message m =
		WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = 2,
				     .headers = "{\"a\":\"b\"}", .expires_us = 60000000);
	const wherry_queue_message two[] = {m, m};
	const wherry_receive_options atomic =
		WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_ATOMIC, .limit = 2);
	const wherry_nack how = WHERRY_NACK(.delay_us = 1000, .error = "later");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	leased l = {.n = 0};
	int64_t id = 0;

	WHERRY_PASS(wherry_queue_send(queue, &m, &id, &err));
	WHERRY_PASS(wherry_queue_cancel(queue, id, &err));
	WHERRY_PASS(wherry_queue_send(queue, &m, NULL, &err));
	WHERRY_PASS(wherry_queue_send_many(queue, two, 2, NULL, &err));
	WHERRY_PASS(wherry_queue_receive(queue, NULL, lease, &l, NULL, &err));
	WHERRY_PASS(wherry_queue_extend(queue, l.token, l.ids, 1, 1000000, NULL, &err));
	WHERRY_PASS(wherry_queue_ack(queue, l.token, l.ids, 1, NULL, &err));
	WHERRY_PASS(wherry_queue_receive(queue, NULL, lease, &l, NULL, &err));
	WHERRY_PASS(wherry_queue_nack(queue, l.token, &l.ids[1], 1, &how, NULL, &err));
	assert_true(wherry_db_in_transaction(db));
	WHERRY_PASS(wherry_queue_receive(queue, &atomic, lease, &l, NULL, &err));
	WHERRY_PASS(wherry_topics_open(db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "t", "jobs", &err));
	WHERRY_PASS(wherry_topics_publish(topics, "t", &m, NULL, &err));
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "t", "jobs", &err));
	wherry_topics_close(topics);
}

WHERRY_TEST(receiving_is_safe_though_pg_catalog_comes_last)
{
	static const char sql[] =
		"SELECT wherry_send('jobs', '{}'::pg_catalog.json, headers => '{\"a\":\"b\"}'); "
		"SELECT wherry_subscribe('t', 'jobs'); SELECT wherry_publish('t', '1'::pg_catalog.text); "
		"SELECT wherry_ack('jobs', id, token) FROM wherry_receive('jobs', 9); "
		"SELECT wherry_queue_length('jobs'); COMMIT";
	wherry_queue *queue;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("jobs2", &db);
	queue = made_queue(db);
	assert_true(postgres_exec(conn, "BEGIN", NULL, 0));
	use_queue(db, queue);
	assert_true(postgres_exec(conn, sql, NULL, 0));
	put_catalog_last(conn, "jobs2");
	use_queue(db, queue);
	assert_true(postgres_exec(conn, sql, NULL, 0));
	nothing_of_it_ran(conn);
	wherry_queue_close(queue);
	wherry_db_close(db);
	PQfinish(conn);
}

/* ---- delayed queues ---- */

static wherry_delayed *made_delayed(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *delayed = NULL;

	WHERRY_PASS(wherry_delayed_create(db, NULL, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &delayed, &err));
	return delayed;
}

WHERRY_TEST(no_statement_of_a_delayed_queue_uses_what_another_role_made)
{
	wherry_delayed *delayed;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("later1", &db);
	delayed = made_delayed(db);
	assert_int_equal(count_unclean(conn, &delayed->store.sql), 0);
	nothing_depends_on_it("a delayed queue");
	nothing_of_it_ran(conn);
	wherry_delayed_close(delayed);
	wherry_db_close(db);
	PQfinish(conn);
}

static wherry_code keep_token(void *ctx, const wherry_delayed_message *msg)
{
	(void)snprintf(ctx, 80, "%s", msg->token);
	return WHERRY_OK;
}

/* Poll, and copy the token. */
static const char *polled(wherry_delayed *delayed)
{
	static char token[80];
	wherry_error err = WHERRY_ERROR_INIT;

	*token = 0;
	WHERRY_PASS(wherry_delayed_poll(delayed, NULL, keep_token, token, NULL, &err));
	assert_true(*token);
	return token;
}

static void use_delayed(wherry_delayed *delayed)
{
	const wherry_delayed_message m =
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = "{}", .body_len = 2);
	const wherry_delayed_message two[] = {
		WHERRY_DELAYED_MESSAGE(.key = "a", .if_absent = true, .delay_us = 1000),
		WHERRY_DELAYED_MESSAGE(.key = "b", .if_absent = true, .at_us = 1000)};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome out;
	const char *token;
	char of_read[80];
	bool found;

	WHERRY_PASS(wherry_delayed_offer(delayed, &m, NULL, &err));
	token = polled(delayed);
	WHERRY_PASS(wherry_delayed_extend(delayed, &token, 1, 1000000, &out, &err));
	WHERRY_PASS(wherry_delayed_nack(delayed, &token, 1, 0, "later", &out, &err));
	token = polled(delayed);
	WHERRY_PASS(wherry_delayed_dead_letter(delayed, &token, 1, "no", &out, &err));
	WHERRY_PASS(wherry_delayed_offer_many(delayed, two, 2, NULL, &err));
	WHERRY_PASS(wherry_delayed_offer(delayed, &two[0], NULL, &err));
	token = polled(delayed);
	WHERRY_PASS(wherry_delayed_ack(delayed, &token, 1, &out, &err));
	WHERRY_PASS(wherry_delayed_ack(delayed, &token, 1, &out, &err));
	WHERRY_PASS(wherry_delayed_contains(delayed, "a", &found, &err));
	WHERRY_PASS(wherry_delayed_read(delayed, "a", keep_token, of_read, NULL, &err));
	WHERRY_PASS(wherry_delayed_drop_key(delayed, "a", &found, &err));
	assert_true(found);
}

WHERRY_TEST(polling_is_safe_though_pg_catalog_comes_last)
{
	wherry_delayed *delayed;
	wherry_db *db;
	PGconn *conn;

	conn = arrive("later2", &db);
	delayed = made_delayed(db);
	put_catalog_last(conn, "later2");
	use_delayed(delayed);
	assert_true(postgres_exec(
		conn,
		"SELECT wherry_offer('mail', 'k', 'x'::pg_catalog.text); SELECT wherry_done('mail', token) "
		"FROM wherry_poll('mail', 9, max_attempts => 3); COMMIT",
		NULL, 0));
	nothing_of_it_ran(conn);
	wherry_delayed_close(delayed);
	wherry_db_close(db);
	PQfinish(conn);
}

int main(void)
{
	if (!postgres_start_logical())
		return 0;
	if (!postgres_let_in() || !make_rivals()) {
		(void)printf("1..1\nnot ok 1 - a hostile role comes\n");
		return 1;
	}
	return wherry_run_tests(NULL, NULL);
}
