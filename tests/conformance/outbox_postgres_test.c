/*
 * The outbox on PostgreSQL, on connections of its own and on the application's; and the
 * schema that it makes there.
 */
#include "outbox_suite.h"

#include <wherry/postgres.h>

#include "db/postgres/postgres.h"
#include "outbox/outbox.h"
#include "postgres/backends.h"
#include "postgres/functions.h"
#include "postgres/server.h"

#define SCHEMA                                                                                                          \
	"SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("                                                          \
	"SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || "                                        \
	"is_nullable || ' ' || coalesce(column_default, '') AS line "                                                   \
	"FROM information_schema.columns WHERE table_schema = current_schema() "                                        \
	"UNION ALL SELECT replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema() " \
	"UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) "                                                 \
	"FROM pg_constraint WHERE connamespace = current_schema()::regnamespace "                                       \
	"UNION ALL SELECT 'outbox ' || name FROM wherry_outbox "                                                        \
	"UNION ALL SELECT 'schema ' || name || version FROM wherry_schema) AS lines"

static void the_sql_of_create_makes_what_create_makes(void **state)
{
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	postgres_place first, other;
	wherry_db *db = NULL;
	char *sql = NULL;

	(void)state;
	postgres_make(&first);
	postgres_make(&other);
	WHERRY_PASS(wherry_outbox_create_sql("postgresql", "outbox", NATIVE, &sql, &err));
	WHERRY_PASS(wherry_db_open(first.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	wherry_db_close(db);
	assert_true(postgres_raw(first.url, SCHEMA, made, sizeof(made)));
	for (int i = 0; i < 2; i++) {
		assert_true(postgres_raw(other.url, sql, NULL, 0));
		assert_true(postgres_raw(other.url, SCHEMA, run, sizeof(run)));
		assert_true(strlen(run) > 1000);
		assert_string_equal(run, made);
	}
	free(sql);
	postgres_drop(&first);
	postgres_drop(&other);
}

/* As the server plans it for good: EXPLAIN of the statement with all its parameters NULL. */
static void explain(PGconn *conn, const wh_stmt *stmt, char *out, size_t cap)
{
	wh_buf sql = WH_BUF_INIT(65536);
	PGresult *res;
	size_t len = 0;

	wh_buf_printf(&sql, "PREPARE it AS %s", stmt->text);
	assert_true(postgres_exec(conn, sql.ptr, NULL, 0));
	wh_buf_reset(&sql);
	wh_buf_printf(&sql, "EXPLAIN (COSTS OFF) EXECUTE it");
	for (int i = 0; i < stmt->n_params; i++)
		wh_buf_printf(&sql, i ? ", NULL" : "(NULL");
	wh_buf_printf(&sql, stmt->n_params ? ")" : "");
	res = PQexec(conn, sql.ptr);
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	for (int i = 0; i < PQntuples(res) && len < cap; i++)
		len += (size_t)snprintf(out + len, cap - len, "%s\n",
					PQgetvalue(res, i, 0));
	PQclear(res);
	assert_true(postgres_exec(conn, "DEALLOCATE it", NULL, 0));
	wh_buf_clear(&sql);
}

static void a_plan_made_for_a_backlog_reads_no_rows_that_are_done(void **state)
{
	static const char *const names[] = {"read",         "sweep",         "renew",
					    "claim-end",    "open-upto",     "last-open",
					    "claim-passed", "oldest-pending"};
	static char plan[16384];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	postgres_place place;
	wherry_db *db = NULL;

	(void)state;
	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NATIVE, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	assert_true(postgres_exec(backend_conn(db),
				  "INSERT INTO outbox(topic, payload) SELECT 't', '{}' "
				  "FROM generate_series(1, 20000); ANALYZE outbox; "
				  "SET plan_cache_mode = force_generic_plan",
				  NULL, 0));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		explain(backend_conn(db), wh_sql_find(&outbox->store.sql, names[i]), plan,
			sizeof(plan));
		assert_non_null(strstr(plan, "outbox_open"));
		assert_null(strstr(plan, "Index Cond: (id > "));
		assert_null(strstr(plan, "Seq Scan"));
	}
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	postgres_drop(&place);
}

/* ---- rows that the server cannot send ---- */

typedef struct visits {
	int64_t ids[10];
	int n;
} visits;

static wherry_code note_visit(void *ctx, const wherry_message *msg)
{
	visits *v = ctx;

	v->ids[v->n++] = msg->id;
	return WHERRY_OK;
}

/* Second rows of an outbox that are not UTF-8, or that the server cannot make text of, or does not send. */
static const struct {
	const char *payload, *row, *why;
} unreadable[] = {
	{"jsonb", "E'\\xff', '2'", "topic is not UTF-8"},
	{"jsonb", "'b', (SELECT jsonb_agg(1e131071) FROM generate_series(1, 150))",
	 "payload is over its limit "},
	{"bytea", "'b', decode(repeat('00', 20000000), 'hex')",
	 "payload is over its limit "},
};

static void dies_alone(const char *url, const char *payload, const char *row,
		       const char *why)
{
	const wherry_claim_options ten =
		WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = 60000000);
	const wh_make how = {.layout = "native", .payload = payload};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = 0};
	wherry_outbox *outbox = NULL;
	char sql[400], out[200];
	visits v = {.n = 0};
	wherry_db *db = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	WHERRY_PASS(wh_outbox_make(db, &how, "outbox", &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	(void)snprintf(sql, sizeof(sql),
		       "SET client_encoding = 'SQL_ASCII'; INSERT INTO outbox(topic, "
		       "payload) VALUES ('a', '1'), (%s), ('c', '3')",
		       row);
	assert_true(postgres_raw(url, sql, NULL, 0));
	WHERRY_PASS(wherry_outbox_join(outbox, "program", 60000000, &lease, &err));
	WHERRY_PASS(wherry_outbox_claim(outbox, &lease, &ten, note_visit, &v, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.ids[0], 1);
	assert_int_equal(v.ids[1], 3);
	assert_true(postgres_raw(url, "SELECT last_error FROM outbox WHERE status = 4",
				 out, sizeof(out)));
	assert_non_null(strstr(out, why));
	WHERRY_PASS(wherry_outbox_done(outbox, &lease, v.ids, 2, WHERRY_MARK, &n, &err));
	assert_int_equal(n, 2);
	/* one that expired, too: the attempt on record was not made */
	assert_true(postgres_raw(url,
				 "UPDATE outbox SET status = 1, next_retry_at = 'epoch', "
				 "attempts = 2 WHERE id = 2",
				 NULL, 0));
	WHERRY_PASS(wherry_outbox_claim_expired(outbox, &lease, &ten, note_visit, &v, &n,
						&err));
	assert_int_equal(n, 0);
	assert_true(postgres_raw(url,
				 "SELECT status || ' ' || attempts FROM outbox "
				 "WHERE id = 2",
				 out, sizeof(out)));
	assert_string_equal(out, "4 2");
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

/* A database without an encoding keeps any bytes. */
static void a_row_that_cannot_be_read_dies_alone_when_a_program_claims(void **state)
{
	char url[200], host[120];
	postgres_place place;

	(void)state;
	postgres_make(&place);
	(void)sscanf(strstr(place.url, "host=") + 5, "%119[^&]", host);
	(void)snprintf(url, sizeof(url), "postgresql://wherry@/bytes?host=%s", host);
	for (size_t i = 0; i < sizeof(unreadable) / sizeof(*unreadable); i++) {
		assert_true(postgres_raw(
			place.url,
			"CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' "
			"TEMPLATE template0",
			NULL, 0));
		dies_alone(url, unreadable[i].payload, unreadable[i].row,
			   unreadable[i].why);
		assert_true(postgres_raw(place.url, "DROP DATABASE bytes WITH (FORCE)",
					 NULL, 0));
	}
	postgres_drop(&place);
}

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed,
							 &outbox_postgres_functions};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sql_of_create_makes_what_create_makes),
		cmocka_unit_test(a_plan_made_for_a_backlog_reads_no_rows_that_are_done),
		cmocka_unit_test(
			a_row_that_cannot_be_read_dies_alone_when_a_program_claims),
	};

	if (!postgres_start())
		return 0;
	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends), tests,
				sizeof(tests) / sizeof(*tests));
}
