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

WHERRY_CASE(an_index_that_is_missing_is_made, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(f, "DROP INDEX later__KindPlusScheduledAtIndex");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	delayed_raw(f, "DROP INDEX later__KindPlusScheduledAtIndex");
}

/* The library makes these; of late its second index ends in the id. */
WHERRY_CASE(a_table_that_the_library_made_gets_no_index, delayed_fixture *f)
{
	static const char *const thirds[] = {"", ", id"};
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[300];

	for (int i = 0; i < 2; i++) {
		delayed_raw(f, "DROP TABLE later");
		delayed_raw(
			f,
			"CREATE TABLE later(id INTEGER PRIMARY KEY AUTOINCREMENT, pKey "
			"TEXT NOT NULL, pKind TEXT NOT NULL, payload BLOB NOT NULL, "
			"scheduledAt INTEGER NOT NULL, scheduledAtInitially INTEGER NOT "
			"NULL, lockUuid TEXT NULL, createdAt INTEGER NOT NULL)");
		delayed_raw(f, "CREATE UNIQUE INDEX later__PKindPKeyUniqueIndex ON later "
			       "(pKind, pKey)");
		(void)snprintf(
			sql, sizeof(sql),
			"CREATE INDEX later__KindPlusScheduledAtIndex ON later (pKind, "
			"scheduledAt%s)",
			thirds[i]);
		delayed_raw(f, sql);
		delayed_raw(
			f,
			"CREATE INDEX later__LockUuidPlusIdIndex ON later (lockUuid, id)");
		assert_int_equal(
			delayed_int(f, "SELECT count(*) FROM pragma_index_list('later')"),
			3);
		delayed_raw(f, "DROP TABLE IF EXISTS later_tries");
		WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
		assert_int_equal(
			delayed_int(f, "SELECT count(*) FROM pragma_index_list('later')"),
			3);
	}
}

int main(void)
{
	static const struct CMUnitTest more[] = {
		FUNFIX_CASES(make) FUNFIX_CASE(an_index_that_is_missing_is_made, make),
		FUNFIX_CASE(a_table_that_the_library_made_gets_no_index, make)};
	static const char *const lacks[] = {FUNFIX_LACKS, DELAYED_SQLITE_LACKS, NULL};
	static const outbox_backend *const backends[] = {
		&outbox_sqlite_file, &outbox_sqlite_memory, &outbox_sqlite_borrowed};

	return delayed_suite_run("funfix", lacks, backends, 3, more,
				 sizeof(more) / sizeof(*more));
}
