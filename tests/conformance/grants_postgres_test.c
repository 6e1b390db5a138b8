/*
 * Rights of roles on PostgreSQL, over all models: each pair of a model and a kind with each other pair.
 */
#include "outbox_suite.h"

#include <wherry/cron.h>

#include "cron/cron.h"
#include "delayed/delayed.h"
#include "inbox/groups.h"
#include "outbox/outbox.h"
#include "outbox/stream.h"
#include "postgres/server.h"
#include "queue/queue.h"
#include "store/grants.h"

/* Tables of each model, of which each kind is granted. */
static const struct {
	const wh_model *model;
	const char *table;
	const char *kind;
	const char *layout; /* NULL: native */
} kinds[] = {
	{&wh_outbox_model, "box_a", "producer", "log"},
	{&wh_outbox_model, "box_b", "enqueuer", "log"},
	{&wh_outbox_model, "box_c", "relay", "log"},
	{&wh_outbox_model, "box_d", "operator", "log"},
	{&wh_queue_model, "queue_a", "sender", NULL},
	{&wh_queue_model, "queue_b", "receiver", NULL},
	{&wh_queue_model, "queue_c", "operator", NULL},
	{&wh_delayed_model, "later_a", "sender", NULL},
	{&wh_delayed_model, "later_b", "receiver", NULL},
	{&wh_delayed_model, "later_c", "operator", NULL},
	{&wh_cron_model, "cron_a", "operator", NULL},
	{&wh_inbox_model, "inbox_a", "consumer", NULL},
	{&wh_inbox_model, "inbox_b", "operator", NULL},
	{&wh_outbox_model, "log_a", "producer", "log"},
	{&wh_outbox_model, "log_b", "enqueuer", "log"},
	{&wh_outbox_model, "log_c", "relay", "log"},
	{&wh_outbox_model, "log_d", "operator", "log"},
	{&wh_outbox_model, "log_e", "consumer", "log"},
};

enum { N = sizeof(kinds) / sizeof(*kinds), ROOM = 64 * 1024 };

static wherry_db *enter(const char *before)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	WHERRY_PASS(wh_db_script(db, before, &err));
	for (size_t i = 0; i < N; i++) {
		const char *table = kinds[i].table;

		if (kinds[i].model == &wh_outbox_model)
			WHERRY_PASS(wherry_outbox_create(
				db, table,
				&WHERRY_OUTBOX_OPTIONS(.layout = kinds[i].layout
									 ? kinds[i].layout
									 : "native"),
				&err));
		else if (kinds[i].model == &wh_queue_model)
			WHERRY_PASS(wherry_queue_create(db, table, NULL, &err));
		else if (kinds[i].model == &wh_delayed_model)
			WHERRY_PASS(wherry_delayed_create(db, table, NULL, &err));
		else if (kinds[i].model == &wh_inbox_model)
			WHERRY_PASS(wherry_inbox_create(db, table, &err));
		else
			WHERRY_PASS(wherry_cron_create(db, table, &err));
	}
	return db;
}

static void leave(wherry_db *db, const char *after)
{
	assert_int_equal(wh_db_script(db, after, NULL), WHERRY_OK);
	wherry_db_close(db);
	postgres_leave();
}

/* The SQL of a grant to the role "bee" on the table of entry `at`. */
static void grant_sql(size_t at, const char *kind, wh_buf *to)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[80];
	const char *grant = text;
	wh_store store = {.model = kinds[at].model};

	(void)snprintf(store.layout.name, sizeof(store.layout.name), "%s",
		       kinds[at].layout ? kinds[at].layout : "native");
	(void)snprintf(text, sizeof(text), "bee=%s", kind);
	(void)snprintf(store.names.table, sizeof(store.names.table), "%s",
		       kinds[at].table);
	(void)snprintf(store.names.schema, sizeof(store.names.schema), "%s",
		       postgres_here.name);
	WHERRY_PASS(wh_store_grant_sql(&store, "postgres", &grant, 1, to, &err));
}

/* Grant to the role, as `wherry create --grant` does. */
static void grant(wherry_db *db, size_t at, const char *kind)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf sql = WH_BUF_INIT(ROOM);

	grant_sql(at, kind, &sql);
	WHERRY_PASS(wh_db_script(db, wh_buf_str(&sql), &err));
	wh_buf_clear(&sql);
}

/* All rights of the role in its database, a line each. */
static void rights(PGconn *conn, char out[ROOM])
{
	static const char sql[] =
		"SELECT coalesce(E'\\n' || string_agg(DISTINCT r.what, '' ORDER BY r.what), '') "
		"FROM (SELECT concat(c.oid::regclass, ' ', a.privilege_type, E'\\n') "
		"FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE a.grantee = "
		"'bee'::regrole UNION ALL SELECT concat(k.attrelid::regclass, '.', k.attname, "
		"' ', a.privilege_type, E'\\n') FROM pg_attribute AS k, aclexplode(k.attacl) "
		"AS a WHERE a.grantee = 'bee'::regrole UNION ALL SELECT "
		"concat(p.oid::regprocedure, ' ', a.privilege_type, E'\\n') FROM pg_proc AS p, "
		"aclexplode(p.proacl) AS a WHERE a.grantee = 'bee'::regrole UNION ALL SELECT "
		"concat(n.nspname, ' ', a.privilege_type, E'\\n') FROM pg_namespace AS n, "
		"aclexplode(n.nspacl) AS a WHERE a.grantee = 'bee'::regrole) AS r(what)";

	assert_true(postgres_exec(conn, sql, out, ROOM));
	assert_true(strlen(out) < ROOM - 1);
}

static void revoke_all(PGconn *conn)
{
	assert_true(postgres_exec(conn, "DROP OWNED BY bee", NULL, 0));
}

/* Has `all` each line of `some`? */
static void has_lines(const char *all, const char *some, const char *what)
{
	for (const char *line = some; *line && line[1]; line = strchr(line + 1, '\n')) {
		size_t len = (size_t)(strchr(line + 1, '\n') - line) + 1;
		char text[300];

		assert_true(len < sizeof(text));
		(void)snprintf(text, len + 1, "%s", line);
		if (!strstr(all, text))
			print_error("%s lacks:%s", what, text);
		assert_non_null(strstr(all, text));
	}
}

/* Does `all` or `more` have each line of `some` that is not about a function? */
static bool has_no_more(const char *all, const char *more, const char *some,
			const char *what)
{
	for (const char *line = some; *line && line[1]; line = strchr(line + 1, '\n')) {
		size_t len = (size_t)(strchr(line + 1, '\n') - line) + 1;
		char text[300];

		assert_true(len < sizeof(text));
		(void)snprintf(text, len + 1, "%s", line);
		if (strchr(text, '(') || strstr(all, text) || strstr(more, text))
			continue;
		print_error("%s is too much:%s", what, text);
		return false;
	}
	return true;
}

/* The kind with the most rights comes last. */
static const char *most_of(const wh_model *model)
{
	int n = 0;

	while (model->roles[n + 1])
		n++;
	return model->roles[n];
}

static const char create_role[] = "DROP ROLE IF EXISTS bee; CREATE ROLE bee";

/* Of another table, in any order, and after it had more rights. */
WHERRY_TEST(a_grant_leaves_what_other_tables_need_and_no_more)
{
	static char alone[N][ROOM], both[ROOM];
	wherry_db *db = enter(create_role);
	char what[100];
	PGconn *conn = PQconnectdb(postgres_here.url);
	int more = 0;

	for (size_t i = 0; i < N; i++) {
		grant(db, i, kinds[i].kind);
		rights(conn, alone[i]);
		revoke_all(conn);
	}
	for (size_t i = 0; i < N; i++)
		for (size_t j = 0; j < N; j++) {
			grant(db, j, most_of(kinds[j].model));
			grant(db, i, kinds[i].kind);
			grant(db, j, kinds[j].kind);
			rights(conn, both);
			(void)snprintf(what, sizeof(what), "%s %s, then %s %s",
				       kinds[i].table, kinds[i].kind, kinds[j].table,
				       kinds[j].kind);
			has_lines(both, alone[i], what);
			has_lines(both, alone[j], what);
			more += !has_no_more(alone[i], alone[j], both, what);
			revoke_all(conn);
		}
	assert_int_equal(more, 0);
	PQfinish(conn);
	leave(db, "DROP OWNED BY bee; DROP ROLE bee");
}

/* Functions have the rights of their caller, so a role may keep the right to call them. */
static void without_functions(char *text)
{
	char *to = text;

	while (*text) {
		size_t len = strcspn(text, "\n") + 1;
		bool is_function = memchr(text, '(', len) != NULL;

		if (!is_function)
			memmove(to, text, len);
		to += is_function ? 0 : len;
		text += len;
	}
	*to = 0;
}

WHERRY_TEST(a_grant_replaces_the_one_before_on_its_table)
{
	static char alone[ROOM], after[ROOM];
	wherry_db *db = enter(create_role);
	PGconn *conn = PQconnectdb(postgres_here.url);

	for (size_t i = 0; i < N; i++)
		for (int k = 0; kinds[i].model->roles[k]; k++) {
			const char *kind = kinds[i].model->roles[k];

			if (kinds[i].model == &wh_outbox_model && !kinds[i].layout &&
			    strcmp(kind, "consumer") == 0)
				continue; /* Of a log. */
			grant(db, i, kind);
			rights(conn, alone);
			revoke_all(conn);
			grant(db, i, kinds[i].kind);
			grant(db, i, kind);
			rights(conn, after);
			without_functions(alone);
			without_functions(after);
			assert_string_equal(after, alone);
			revoke_all(conn);
		}
	PQfinish(conn);
	leave(db, "DROP OWNED BY bee; DROP ROLE bee");
}

/* Where default privileges give PUBLIC nothing, the role can still call what it needs. */
WHERRY_TEST(who_is_granted_a_table_may_call_its_functions)
{
	wherry_db *db =
		enter("DROP ROLE IF EXISTS bee; CREATE ROLE bee; "
		      "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM "
		      "PUBLIC; ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM "
		      "PUBLIC");
	static const struct {
		size_t at;
		const char *sql, *wanted;
	} calls[] = {
		{1, "SELECT wherry_enqueue('t', '{}', outbox => 'box_b') IS NOT NULL",
		 "1"},
		{4, "SELECT wherry_send('queue_a', '{}') > 0", "1"},
		{5, "SELECT count(*) FROM wherry_receive('queue_b')", "0"},
		{6, "SELECT wherry_subscribe('t', 'queue_c')", "1"},
		{7,
		 "SELECT wherry_offer('q', 'k', '{}', delayed => 'later_a') IS NOT NULL",
		 "1"},
		{8, "SELECT count(*) FROM wherry_poll('q', delayed => 'later_b')", "0"},
		{11, "SELECT wherry_accept('m', inbox => 'inbox_a')", "1"},
		{12, "SELECT wherry_inbox_purge('1 h', inbox => 'inbox_b')", "0"},
		{14, "SELECT wherry_enqueue('t', '{}', outbox => 'log_b') IS NOT NULL",
		 "1"},
	};
	PGconn *conn = PQconnectdb(postgres_here.url);
	char got[100];

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		bool fine;

		grant(db, calls[i].at, kinds[calls[i].at].kind);
		assert_true(postgres_exec(conn, "SET ROLE bee", NULL, 0));
		fine = postgres_exec(conn, calls[i].sql, got, sizeof(got));
		if (!fine)
			print_error("%s\n", calls[i].sql);
		assert_true(fine);
		assert_string_equal(got, calls[i].wanted);
		assert_true(postgres_exec(conn, "RESET ROLE", NULL, 0));
		revoke_all(conn);
	}
	PQfinish(conn);
	leave(db,
	      "DROP OWNED BY bee; DROP ROLE bee; ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON "
	      "FUNCTIONS TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT USAGE ON TYPES TO PUBLIC");
}

WHERRY_TEST(a_function_that_is_made_later_can_be_called)
{
	wherry_db *db = enter("DROP ROLE IF EXISTS bee; CREATE ROLE bee; ALTER DEFAULT "
			      "PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC");
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *conn = PQconnectdb(postgres_here.url);
	char got[40] = "";

	grant(db, 5, "receiver");
	assert_true(
		postgres_exec(conn, "DROP FUNCTION wherry_queue_length(text)", NULL, 0));
	WHERRY_PASS(wherry_queue_create(db, "queue_b", NULL, &err));
	assert_true(postgres_exec(conn,
				  "SET ROLE bee; SELECT wherry_queue_length('queue_b')",
				  got, sizeof(got)));
	assert_string_equal(got, "0");
	assert_true(postgres_exec(conn, "RESET ROLE", NULL, 0));
	PQfinish(conn);
	leave(db,
	      "DROP OWNED BY bee; DROP ROLE bee; ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON "
	      "FUNCTIONS TO PUBLIC");
}

/* As an ordinary role, which may not use the schema pg_toast. */
WHERRY_TEST(functions_tell_an_ordinary_role_what_is_missing)
{
	static const char *const calls[] = {
		"SELECT wherry_enqueue('t', '{}', outbox => 'nowhere')",
		"SELECT wherry_send('nowhere', '{}')",
		"SELECT wherry_publish('t', '{}')",
		"SELECT * FROM wherry_receive('nowhere')",
		"SELECT wherry_ack('nowhere', 1, 'x')",
		"SELECT wherry_nack('nowhere', 1, 'x')",
		"SELECT wherry_ack_many('nowhere', '{1}', 'x')",
		"SELECT wherry_extend('nowhere', 1, 'x', '1 s')",
		"SELECT wherry_dead_letter('nowhere', 1, 'x', 'y')",
		"SELECT wherry_send_many('nowhere', ARRAY['1'])",
		"SELECT wherry_cancel('nowhere', 1)",
		"SELECT wherry_queue_length('nowhere')",
		"SELECT wherry_subscribe('t', 'nowhere')",
		"SELECT wherry_offer('q', 'k', '{}', delayed => 'nowhere')",
		"SELECT wherry_offer_many('q', '{k}', '{b}'::text[], delayed => 'nowhere')",
		"SELECT wherry_done_many('q', '{1.1.a}', delayed => 'nowhere')",
		"SELECT * FROM wherry_poll('q', delayed => 'nowhere')",
	};
	wherry_db *db = enter(create_role);
	PGconn *conn = PQconnectdb(postgres_here.url);

	for (size_t i = 0; i < N; i++)
		grant(db, i, kinds[i].kind);
	assert_true(postgres_exec(conn, "SET ROLE bee", NULL, 0));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		PGresult *res = PQexec(conn, calls[i]);
		const char *text = PQresultErrorMessage(res);

		if (strstr(text, "pg_toast") || strstr(text, "permission denied"))
			print_error("%s: %s\n", calls[i], text);
		assert_null(strstr(text, "permission denied"));
		PQclear(res);
	}
	assert_true(postgres_exec(conn, "RESET ROLE", NULL, 0));
	PQfinish(conn);
	leave(db, "DROP OWNED BY bee; DROP ROLE bee");
}

/* ---- rows of tables that all tables of a schema share ---- */

/* Each shared table, the column that names the table of a row, and values for a new row of 'X'. */
static const struct {
	const char *table, *names, *insert;
} shared[] = {
	{"wherry_lease", "outbox",
	 "(outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, suspects) VALUES ('X', 7, 'stream', "
	 "'bee', 9, 'infinity', 0, 0, 0, 0)"},
	{"wherry_outbox", "name", "(name, paused_at) VALUES ('X', 'infinity')"},
	{"wherry_stream", "outbox",
	 "(outbox, slot, position, epoch, written_at) VALUES ('X', 'bee', 1, 1, now())"},
	{"wherry_dead", "outbox",
	 "(outbox, message_id, topic, aggregate_type, aggregate_id, headers, payload, attempts, created_at, died_at) VALUES "
	 "('X', 'bee', '', '', '', '{}', '', 1, now(), now())"},
	{"wherry_subscription", "queue", "(topic, queue) VALUES ('bee', 'X')"},
};

enum { SHARED = sizeof(shared) / sizeof(*shared) };

/* Rows of all tables in the shared ones, as if relays were at work. */
static void fill_shared(PGconn *conn)
{
	static const char sql[] =
		"INSERT INTO wherry_outbox (name) SELECT name FROM wherry_schema ON CONFLICT DO NOTHING; "
		"INSERT INTO wherry_lease (outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, "
		"suspects) SELECT name, 0, 'log', 'relay', 5, now() + interval '30 s', 0, 0, 1, 0 FROM wherry_schema; "
		"INSERT INTO wherry_stream (outbox, slot, position, epoch, written_at) SELECT name, 's', 5, 5, now() "
		"FROM wherry_schema; INSERT INTO wherry_dead (outbox, message_id, topic, aggregate_type, aggregate_id, "
		"headers, payload, attempts, created_at, died_at) SELECT name, 'm', 't', '', '', '{}', '', 1, now(), now() FROM "
		"wherry_schema; INSERT INTO wherry_subscription SELECT 't', name FROM wherry_schema";

	assert_true(postgres_exec(conn, sql, NULL, 0));
}

/* A digest of the rows of other tables than this one. */
static void others(PGconn *conn, const char *own, char out[40])
{
	wh_buf sql = WH_BUF_INIT(ROOM);

	wh_buf_puts(&sql, "SELECT md5(concat(");
	for (int i = 0; i < SHARED; i++)
		wh_buf_printf(
			&sql,
			"%s(SELECT string_agg(r::text, ',' ORDER BY r::text) FROM %s "
			"AS r WHERE %s <> '%s')",
			i ? ", " : "", shared[i].table, shared[i].names, own);
	wh_buf_puts(&sql, "))");
	assert_true(postgres_exec(conn, wh_buf_str(&sql), out, 40));
	wh_buf_clear(&sql);
}

/* Run SQL as the role.  Being denied is not an error here. */
static void try_sql(PGconn *conn, const char *sql)
{
	PQclear(PQexec(conn, sql));
}

static void insert_as(PGconn *conn, int table, const char *name)
{
	const char *at = strstr(shared[table].insert, "'X'");
	char sql[700];

	(void)snprintf(sql, sizeof(sql), "INSERT INTO %s %.*s'%s'%s", shared[table].table,
		       (int)(at - shared[table].insert), shared[table].insert, name,
		       at + 3);
	try_sql(conn, sql);
}

/* Write rows of other tables with every right that the role has; how many columns it may write. */
static int attack(PGconn *conn, int table, const char *own, const char *other)
{
	static const char columns_of[] =
		"SELECT attname, CASE atttypid::regtype::text WHEN 'text' THEN '''x''' WHEN 'bytea' THEN '''x''' "
		"WHEN 'timestamp with time zone' THEN '''infinity''' WHEN 'integer' THEN '2147483647' ELSE "
		"'9223372036854775807' END FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 "
		"AND has_column_privilege('bee', attrelid, attnum, 'UPDATE')";
	const char *const params[] = {shared[table].table};
	PGresult *columns =
		PQexecParams(conn, columns_of, 1, NULL, params, NULL, NULL, 0);
	const char *names = shared[table].names;
	int n = PQntuples(columns);
	char sql[400];

	assert_int_equal(PQresultStatus(columns), PGRES_TUPLES_OK);
	assert_true(postgres_exec(conn, "SET ROLE bee", NULL, 0));
	for (int i = 0; i < n; i++) {
		(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s = %s WHERE %s <> '%s'",
			       shared[table].table, PQgetvalue(columns, i, 0),
			       PQgetvalue(columns, i, 1), names, own);
		try_sql(conn, sql);
	}
	/* A row of its own becomes one of another table. */
	(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s = 'nowhere' WHERE %s = '%s'",
		       shared[table].table, names, names, own);
	try_sql(conn, sql);
	insert_as(conn, table, other);
	insert_as(conn, table, "nowhere");
	(void)snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s <> '%s'",
		       shared[table].table, names, own);
	try_sql(conn, sql);
	assert_true(postgres_exec(conn, "RESET ROLE", NULL, 0));
	PQclear(columns);
	return n;
}

WHERRY_TEST(a_role_writes_no_row_of_another_table)
{
	wherry_db *db = enter(create_role);
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *conn = PQconnectdb(postgres_here.url);
	wherry_outbox *outbox = NULL;
	wh_wal *wal = NULL;
	int changed = 0, may = 0;

	WHERRY_PASS(wh_db_script(
		db,
		"CREATE TABLE deb(id uuid PRIMARY KEY, aggregatetype text NOT NULL, "
		"aggregateid text NOT NULL, type text NOT NULL, payload jsonb)",
		&err));
	WHERRY_PASS(wherry_outbox_create(db, "deb", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(db, "deb", &outbox, &err));
	WHERRY_PASS(wh_wal_open(outbox, "", "", &wal, &err));
	WHERRY_PASS(wh_wal_tables(wal, &err));
	fill_shared(conn);
	for (size_t i = 0; i < N; i++) {
		const char *own = kinds[i].table, *other = kinds[i ? 0 : 1].table;
		char before[40], after[40];

		grant(db, i, kinds[i].kind);
		others(conn, own, before);
		for (int t = 0; t < SHARED; t++) {
			may += attack(conn, t, own, other);
			others(conn, own, after);
			if (strcmp(before, after) == 0)
				continue;
			print_error("%s of %s wrote rows of others in %s\n",
				    kinds[i].kind, own, shared[t].table);
			changed++;
			memcpy(before, after, sizeof(before));
		}
		revoke_all(conn);
	}
	print_message("# %d columns of shared tables may be written\n", may);
	assert_int_equal(changed, 0);
	assert_true(may > 50); /* or this test tries nothing */
	wh_wal_close(wal);
	wherry_outbox_close(outbox);
	PQfinish(conn);
	leave(db, "DROP OWNED BY bee; DROP ROLE bee");
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
