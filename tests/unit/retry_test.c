/*
 * What errors of databases mean, and retries without a connection.  Retries on a connection are in
 * tests/conformance/delayed_retry_suite.c.
 */
#include "wherry_test.h"

#include <sqlite3.h>

#include <wherry/retry.h>

#include "db/driver.h"

typedef struct known {
	const char *scheme;
	int native;
	const char *state;
	wherry_code code;
} known;

static void classify(const known *k)
{
	wherry_code code = wherry_error_class(k->scheme, k->native, k->state);

	if (code != k->code)
		print_error("%s %d %s is %s\n", k->scheme, k->native,
			    k->state ? k->state : "", wherry_code_name(code));
	assert_int_equal(code, k->code);
}

WHERRY_TEST(errors_of_sqlite_have_their_classes)
{
	static const known all[] = {
		{"sqlite", SQLITE_BUSY, NULL, WHERRY_BUSY},
		{"sqlite", SQLITE_BUSY_RECOVERY, NULL, WHERRY_BUSY},
		{"sqlite", SQLITE_BUSY_SNAPSHOT, NULL, WHERRY_CONFLICT},
		{"sqlite", SQLITE_LOCKED, NULL, WHERRY_BUSY},
		{"sqlite", SQLITE_LOCKED_SHAREDCACHE, NULL, WHERRY_BUSY},
		{"sqlite", SQLITE_CONSTRAINT_UNIQUE, NULL, WHERRY_DUPLICATE},
		{"sqlite", SQLITE_CONSTRAINT_PRIMARYKEY, NULL, WHERRY_DUPLICATE},
		{"sqlite", SQLITE_CONSTRAINT_CHECK, NULL, WHERRY_INVALID},
		{"sqlite", SQLITE_FULL, NULL, WHERRY_FULL},
		{"sqlite", SQLITE_IOERR_NOMEM, NULL, WHERRY_NOMEM},
		{"sqlite", SQLITE_INTERRUPT, NULL, WHERRY_INTERRUPTED},
		{"sqlite", SQLITE_ERROR, NULL, WHERRY_INVALID},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		classify(&all[i]);
}

WHERRY_TEST(errors_of_servers_have_their_classes)
{
	static const known all[] = {
		{"postgres", 0, "40001", WHERRY_CONFLICT},
		{"postgres", 0, "40P01", WHERRY_CONFLICT},
		{"postgresql", 0, "55P03", WHERRY_BUSY},
		{"postgres", 0, "53300", WHERRY_BUSY},
		{"postgres", 0, "57P01", WHERRY_CLOSED},
		{"postgres", 0, "57P02", WHERRY_CLOSED},
		{"postgres", 0, "57P03", WHERRY_CLOSED},
		{"postgres", 0, "08006", WHERRY_CLOSED},
		{"postgres", 0, "23505", WHERRY_DUPLICATE},
		{"postgres", 0, "23514", WHERRY_INVALID},
		{"mssql", 1205, "40001", WHERRY_CONFLICT},
		{"mssql", 1222, "HYT00", WHERRY_BUSY},
		{"mssql", 2627, "23000", WHERRY_DUPLICATE},
		{"mssql", 2601, "23000", WHERRY_DUPLICATE},
		{"mssql", 547, "23000", WHERRY_INVALID},
		{"mssql", 3960, "", WHERRY_CONFLICT},
		{"mssql", 3961, "", WHERRY_CONFLICT},
		{"mssql", 3971, "",
		 WHERRY_CONFLICT}, /* failed to resume the transaction */
		{"mssql", 40197, "", WHERRY_CLOSED},
		{"mssql", 40501, "", WHERRY_BUSY},
		{"mssql", 40613, "", WHERRY_CLOSED},
		{"mssql", 49918, "", WHERRY_BUSY},
		{"mssql", 49919, "", WHERRY_BUSY},
		{"mssql", 49920, "", WHERRY_BUSY},
		{"mssql", 10928, "", WHERRY_BUSY},
		{"mssql", 10929, "", WHERRY_BUSY},
		{"mssql", 10053, "", WHERRY_CLOSED},
		{"mssql", 10054, "", WHERRY_CLOSED},
		{"mssql", 233, "", WHERRY_CLOSED},
		{"mssql", -2, "", WHERRY_TIMEOUT},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (wh_db_scheme(wh_view_of(all[i].scheme)))
			classify(&all[i]);
}

WHERRY_TEST(an_unknown_database_has_no_classes)
{
	assert_int_equal(wherry_error_class("oracle", 60, ""), WHERRY_INVALID);
	assert_int_equal(wherry_error_class(NULL, 5, NULL), WHERRY_INVALID);
}

typedef struct opening {
	int calls;
	wherry_code code;
} opening;

static wherry_code fail_once(void *ctx, wherry_error *err)
{
	opening *o = ctx;

	return o->calls++ ? WHERRY_OK : wherry_error_set(err, o->code, NULL);
}

WHERRY_TEST(without_a_connection_a_lost_one_is_tried_again)
{
	const wherry_retry_policy policy = WHERRY_RETRY_POLICY(.initial_us = 1),
				  timed = WHERRY_RETRY_POLICY(.per_try_us = 1000);
	wherry_error err = WHERRY_ERROR_INIT;
	opening lost = {0, WHERRY_CLOSED}, doubtful = {0, WHERRY_INDOUBT};

	WHERRY_PASS(wherry_retry(NULL, &policy, fail_once, &lost, NULL, &err));
	assert_int_equal(lost.calls, 2);
	WHERRY_FAILS(WHERRY_INDOUBT,
		     wherry_retry(NULL, &policy, fail_once, &doubtful, NULL, &err));
	assert_int_equal(doubtful.calls, 1);
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_retry(NULL, &timed, fail_once, &lost, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_retry(NULL, NULL, NULL, NULL, NULL, &err));
}

static wherry_code fail_silently(void *ctx, wherry_error *err)
{
	return WHERRY_STALE;
}

WHERRY_TEST(a_failure_without_a_text_gets_that_of_its_code)
{
	const wherry_retry_policy policy =
		WHERRY_RETRY_POLICY(.retries = WHERRY_NO_RETRIES);
	wherry_retry_report none = {.size = 0}, report = WHERRY_RETRY_REPORT();
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_STALE,
		     wherry_retry(NULL, &policy, fail_silently, NULL, &report, &err));
	assert_string_equal(report.errors[0].message, wherry_code_text(WHERRY_STALE));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_retry(NULL, &policy, fail_silently, NULL, &none, &err));
	assert_non_null(strstr(err.message, "WHERRY_RETRY_REPORT"));
}

WHERRY_TEST_MAIN
