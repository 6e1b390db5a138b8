/*
 * Counts and lists of a log on SQLite, in random states: topics, and exceptions on both sides of the position, with and
 * without a row.
 */
#include "log_counts.h"

#include "wherry_test.h"

#include <inttypes.h>

#include <sqlite3.h>

#include <wherry/sqlite.h>
#include <wherry/subscription.h>
#include <wherry/wherry.h>

#include "base/buf.h"

enum { SEEDS = 300 };

static void run(sqlite3 *handle, const char *sql)
{
	if (sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
}

static void put_rows(wh_buf *sql, uint64_t *seed)
{
	static const char *const topics[] = {"a", "b.one", "b.two", "c"};
	int each = 1 + log_counts_random(seed, 8);

	for (int id = 1; id <= LOG_COUNTS_ROWS; id++) {
		if (log_counts_random(seed, 8))
			wh_buf_printf(
				sql,
				"INSERT INTO outbox(id, topic, partition_key, payload) "
				"VALUES (%d, '%s', 'k%d', '{}'); ",
				id, topics[log_counts_random(seed, 4)],
				log_counts_random(seed, 20));
		if (log_counts_random(seed, each) == 0)
			wh_buf_printf(
				sql,
				"INSERT INTO outbox_exception(subscription, id, state) "
				"VALUES ('some', %d, %d); ",
				id, log_counts_random(seed, 5));
	}
}

static void play(wherry_db *db, wherry_outbox *outbox, uint64_t number)
{
	static const char *const topics[] = {"NULL", "'b.*'", "'a,c'"};
	uint64_t seed = number * 2654435761U;
	wh_buf sql = WH_BUF_INIT(64 * 1024);
	char name[40];

	(void)snprintf(name, sizeof(name), "seed %" PRIu64, number);
	wh_buf_puts(&sql, "DELETE FROM outbox; DELETE FROM outbox_exception; ");
	put_rows(&sql, &seed);
	wh_buf_printf(
		&sql,
		"UPDATE outbox_progress SET high = %d, topics = %s WHERE subscription = 'some'",
		log_counts_random(&seed, LOG_COUNTS_ROWS + 2),
		topics[log_counts_random(&seed, 3)]);
	run(wherry_sqlite_handle(db), sql.ptr);
	log_counts_check(outbox, &seed, name);
	wh_buf_clear(&sql);
}

WHERRY_TEST(counts_and_lists_agree_in_random_states)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_subscription_options options = WHERRY_SUBSCRIPTION_OPTIONS();
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open("sqlite::memory:", NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_subscription_create(db, "outbox", "some", &options, &err));
	WHERRY_PASS(wherry_subscription_open(db, "outbox", "some", &outbox, &err));
	/* It would make exceptions of the rows. */
	run(wherry_sqlite_handle(db), "DROP TRIGGER outbox_by_hand");
	for (uint64_t i = 1; i <= SEEDS; i++)
		play(db, outbox, i);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

WHERRY_TEST_MAIN
