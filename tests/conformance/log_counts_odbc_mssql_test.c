/*
 * Counts and lists of a log on SQL Server, in random states: rows in any order of ids and row versions, topics, several
 * positions, and exceptions with and without a row.
 */
#include "log_counts.h"

#include "wherry_test.h"

#include <inttypes.h>

#include <wherry/subscription.h>
#include <wherry/wherry.h>

#include "base/buf.h"
#include "mssql/backend.h"

enum { SEEDS = 5 };

static void put_rows(wh_buf *sql, uint64_t *seed)
{
	static const char *const topics[] = {"a", "b.one", "b.two", "c"};
	int each = 1 + log_counts_random(seed, 8);
	int step = log_counts_random(seed, 2) ? 1 : 7; /* 7 and 40 have no divisor. */

	wh_buf_puts(sql, "SET IDENTITY_INSERT outbox ON; ");
	for (int i = 0; i < LOG_COUNTS_ROWS; i++) {
		int id = 1 + i * step % LOG_COUNTS_ROWS;

		if (log_counts_random(seed, 8))
			wh_buf_printf(
				sql,
				"INSERT INTO outbox(id, topic, partition_key, payload) "
				"VALUES (%d, N'%s', N'k%d', N'{}'); ",
				id, topics[log_counts_random(seed, 4)],
				log_counts_random(seed, 20));
		if (log_counts_random(seed, each) == 0)
			wh_buf_printf(
				sql,
				"INSERT INTO outbox_exception(subscription, id, state) "
				"VALUES (N'some', %d, %d); ",
				id, log_counts_random(seed, 5));
	}
	wh_buf_puts(sql, "SET IDENTITY_INSERT outbox OFF; ");
}

/* One position, or several that have all partitions together, each behind some rows. */
static void put_positions(wh_buf *sql, uint64_t *seed, const char *seen)
{
	static const char *const masks[][3] = {
		{"-1"},
		{"4294967295", "-4294967296"},
		{"6148914691236517205", "2", "-6148914691236517208"}};
	static const char *const topics[] = {"NULL", "N'b.*'", "N'a,c'"};
	int which = log_counts_random(seed, 3);
	const char *of = topics[log_counts_random(seed, 3)];

	for (int i = 0; i <= which; i++)
		wh_buf_printf(
			sql,
			"INSERT INTO outbox_progress(subscription, mask, high, seen, topics) "
			"SELECT N'some', %s, COALESCE(MAX(CAST(o.rv AS BIGINT)), 0), N'%s', %s "
			"FROM (SELECT TOP (%d) rv FROM outbox ORDER BY rv) AS o; ",
			masks[which][i], seen, of,
			log_counts_random(seed, LOG_COUNTS_ROWS + 2));
}

static void run(wherry_db *db, const char *sql, char *out, size_t cap)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(mssql_run(db, sql, out, cap, &err));
}

static void play(wherry_db *db, wherry_outbox *outbox, uint64_t number, const char *seen)
{
	uint64_t seed = number * 2654435761U;
	wh_buf sql = WH_BUF_INIT(64 * 1024);
	char name[40];

	(void)snprintf(name, sizeof(name), "seed %" PRIu64, number);
	wh_buf_puts(
		&sql,
		"DELETE FROM outbox; DELETE FROM outbox_exception; DELETE FROM outbox_progress; ");
	put_rows(&sql, &seed);
	put_positions(&sql, &seed, seen);
	run(db, wh_buf_str(&sql), NULL, 0);
	log_counts_check(outbox, &seed, name);
	wh_buf_clear(&sql);
}

static void counts_and_lists_agree_in_random_states(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_subscription_options options = WHERRY_SUBSCRIPTION_OPTIONS();
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);
	wherry_outbox *outbox = NULL;
	char seen[200];

	(void)state;
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_subscription_create(db, "outbox", "some", &options, &err));
	WHERRY_PASS(wherry_subscription_open(db, "outbox", "some", &outbox, &err));
	WHERRY_PASS(wherry_subscription_seek(outbox, "now", &err));
	run(db, "SELECT seen FROM outbox_progress WHERE subscription = N'some'", seen,
	    sizeof(seen));
	for (uint64_t i = 1; i <= SEEDS; i++)
		play(db, outbox, i, seen);
	wherry_outbox_close(outbox);
	(void)mssql_disconnect(db);
	mssql_drop(place);
}

int main(void)
{
	static const mssql_word words[] = {{NULL, NULL}};
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_and_lists_agree_in_random_states),
	};

	if (!mssql_start(words))
		return 0;
	return cmocka_run_group_tests_name("log counts", tests, NULL, NULL);
}
