/*
 * The table of the JVM library DelayedQueue on SQLite.
 */
#include "delayed_funfix.h"
#include "outbox_sqlite.h"

static int make(void **state)
{
	*state = delayed_fixture_make(&outbox_sqlite_file, "funfix");
	return 0;
}

static void an_index_that_is_missing_is_made(void **state)
{
	delayed_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(f, "DROP INDEX later__KindPlusScheduledAtIndex");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	delayed_raw(f, "DROP INDEX later__KindPlusScheduledAtIndex");
}

int main(void)
{
	static const struct CMUnitTest more[] = {
		FUNFIX_CASES(make) FUNFIX_CASE(an_index_that_is_missing_is_made, make)};
	static const char *const lacks[] = {FUNFIX_LACKS, DELAYED_SQLITE_LACKS, NULL};
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};

	return delayed_suite_run("funfix", lacks, backends, 3, more,
				 sizeof(more) / sizeof(*more));
}
