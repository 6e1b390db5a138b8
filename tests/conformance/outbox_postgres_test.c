/*
 * The outbox on PostgreSQL, on connections of its own and on the application's; and the
 * schema that it makes there.
 */
#include "outbox_suite.h"

#include <wherry/postgres.h>

#include "db/postgres/postgres.h"
#include "outbox/outbox.h"
#include "postgres/server.h"

static void *make(void)
{
	postgres_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	postgres_make(place);
	return place;
}

static void drop(void *place)
{
	postgres_drop(place);
	free(place);
}

static wherry_db *connect(void *place)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	wherry_code code = wherry_config_new(&config, &err);

	if (code == WHERRY_OK)
		code = wherry_config_set(config, "db.busy_timeout", "30s", &err);
	if (code == WHERRY_OK)
		code = wherry_db_open(((postgres_place *)place)->url, config, &db, &err);
	if (code != WHERRY_OK)
		print_error("%s\n", err.message);
	wherry_config_free(config);
	return db;
}

static bool disconnect(wherry_db *db)
{
	wherry_db_close(db);
	return true;
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	(void)db;
	return postgres_raw(((postgres_place *)place)->url, sql, out, cap);
}

static PGconn *conn_of(wherry_db *db)
{
	return ((postgres_db *)db)->conn;
}

static void forbid_writing(wherry_db *db)
{
	assert_true(postgres_exec(conn_of(db), "SET default_transaction_read_only = on",
				  NULL, 0));
}

/* What the server answers then; a disk cannot be filled for one database alone. */
static void fill_disk(wherry_db *db, bool full)
{
	static const char sql[] =
		"CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END$$; "
		"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON outbox "
		"EXECUTE FUNCTION refuse()";

	assert_true(postgres_exec(conn_of(db),
				  full ? sql : "DROP TRIGGER refuse ON outbox", NULL, 0));
}

static const outbox_backend own = {
	.name = "own",
	.several = true,
	.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS,
	.make = make,
	.drop = drop,
	.connect = connect,
	.disconnect = disconnect,
	.raw = raw,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

/* The application's connection, with settings of its own. */
static wherry_db *connect_borrowed(void *place)
{
	PGconn *conn = PQconnectdb(((postgres_place *)place)->url);
	wherry_db *db = NULL;

	if (!postgres_exec(conn, "SET client_min_messages = warning", NULL, 0) ||
	    wherry_postgres_borrow(conn, &db, NULL) != WHERRY_OK)
		PQfinish(conn);
	return db;
}

static bool disconnect_borrowed(wherry_db *db)
{
	PGconn *conn = conn_of(db);
	char left[24] = "";
	bool idle;

	wherry_db_close(db);
	idle = PQtransactionStatus(conn) == PQTRANS_IDLE;
	idle = idle &&
	       postgres_exec(conn, "SELECT count(*) FROM pg_prepared_statements", left,
			     sizeof(left)) &&
	       strcmp(left, "0") == 0;
	PQfinish(conn);
	return idle;
}

static const outbox_backend borrowed = {
	.name = "borrowed",
	.several = true,
	.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS,
	.make = make,
	.drop = drop,
	.connect = connect_borrowed,
	.disconnect = disconnect_borrowed,
	.raw = raw,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

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

static void the_sql_of_init_makes_what_init_makes(void **state)
{
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	postgres_place first, other;
	wherry_db *db = NULL;
	char *sql = NULL;

	(void)state;
	postgres_make(&first);
	postgres_make(&other);
	WHERRY_PASS(wherry_outbox_init_sql("postgresql", "outbox", &sql, &err));
	WHERRY_PASS(wherry_db_open(first.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_init(db, "outbox", &err));
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
	wherry_outbox *box = NULL;
	postgres_place place;
	wherry_db *db = NULL;

	(void)state;
	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_init(db, "outbox", &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &box, &err));
	assert_true(postgres_exec(conn_of(db),
				  "INSERT INTO outbox(topic, payload) SELECT 't', '{}' "
				  "FROM generate_series(1, 20000); ANALYZE outbox; "
				  "SET plan_cache_mode = force_generic_plan",
				  NULL, 0));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		explain(conn_of(db), wh_sql_find(&box->store.sql, names[i]), plan,
			sizeof(plan));
		assert_non_null(strstr(plan, "outbox_open"));
		assert_null(strstr(plan, "Index Cond: (id > "));
		assert_null(strstr(plan, "Seq Scan"));
	}
	wherry_outbox_close(box);
	wherry_db_close(db);
	postgres_drop(&place);
}

int main(void)
{
	static const outbox_backend *const backends[] = {&own, &borrowed};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sql_of_init_makes_what_init_makes),
		cmocka_unit_test(a_plan_made_for_a_backlog_reads_no_rows_that_are_done),
	};

	if (!postgres_start())
		return 0;
	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends), tests,
				sizeof(tests) / sizeof(*tests));
}
