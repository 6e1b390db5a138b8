/*
 * The outbox on PostgreSQL, on connections of its own and on the application's; and the
 * schema that it makes there.
 */
#include "outbox_log_postgres.h"

#include "postgres/functions.h"

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

WHERRY_TEST(the_sql_of_create_makes_what_create_makes)
{
	static char made[32768], run[32768];
	wherry_error err = WHERRY_ERROR_INIT;
	postgres_place first, other;
	wherry_db *db = NULL;
	char *sql = NULL;

	postgres_make(&first);
	postgres_make(&other);
	WHERRY_PASS(wherry_outbox_create_sql("postgresql", "outbox", NULL, &sql, &err));
	WHERRY_PASS(wherry_db_open(first.url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
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

int main(void)
{
	outbox_backend own = outbox_postgres_of(&outbox_postgres_own),
		       borrowed = outbox_postgres_of(&outbox_postgres_borrowed),
		       functions = outbox_postgres_of(&outbox_postgres_functions);
	const outbox_backend *const backends[] = {&own, &borrowed, &functions};
	if (!postgres_start())
		return 0;
	return outbox_suite_run(backends, sizeof(backends) / sizeof(*backends),
				wherry_tests_of_file()->all, wherry_tests_of_file()->n);
}
