/*
 * The table of the JVM library DelayedQueue on PostgreSQL.
 */
#include "delayed_funfix.h"
#include "postgres/backends.h"
#include "postgres/server.h"

static int make(void **state)
{
	*state = delayed_fixture_make(&outbox_postgres_own, "funfix");
	return 0;
}

/* Whatever name the library gave it. */
WHERRY_CASE(an_index_of_any_name_is_enough, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(f, "ALTER INDEX \"later__KindPlusScheduledAtIndex\" RENAME TO other");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	assert_int_equal(
		delayed_int(f,
			    "SELECT count(*) FROM pg_indexes WHERE tablename = 'later'"),
		4);
	delayed_raw(f, "DROP INDEX other");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	delayed_raw(f, "DROP INDEX \"later__KindPlusScheduledAtIndex\"");
}

/* An early plan for SQL Server had points in time and text: no release made that on PostgreSQL. */
WHERRY_CASE(a_table_with_columns_of_other_types_is_refused, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;

	delayed_raw(f, "CREATE TABLE old(LIKE later INCLUDING ALL)");
	delayed_raw(f,
		    "ALTER TABLE old ALTER \"scheduledAt\" TYPE timestamptz USING now()");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_open(f->db, "old", "q", NULL, &queue, &err));
	assert_null(queue);
}

int main(void)
{
	static const struct CMUnitTest more[] = {
		FUNFIX_CASES(make) FUNFIX_CASE(an_index_of_any_name_is_enough, make),
		FUNFIX_CASE(a_table_with_columns_of_other_types_is_refused, make)};
	static const char *const lacks[] = {FUNFIX_LACKS, DELAYED_POSTGRES_LACKS, NULL};
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};

	if (!postgres_start())
		return 0;
	return delayed_suite_run("funfix", lacks, backends, 2, more,
				 sizeof(more) / sizeof(*more));
}
