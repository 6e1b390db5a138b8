/*
 * Counts and lists of a log on PostgreSQL, in random states: rows that the position covers or not, late rows, rounds of
 * late rows, topics, several positions, and exceptions with and without a row; and more late rows than a look reads.
 *
 *     log_counts_postgres_test [FIRST LAST]   these seeds alone
 */
#include "log_counts.h"

#include "wherry_test.h"

#include <inttypes.h>

#include <wherry/postgres.h>
#include <wherry/subscription.h>
#include <wherry/wherry.h>

#include "base/buf.h"
#include "postgres/server.h"

enum { FIRST_TX = 100, TXS = 40 };

static uint64_t first_seed = 1, last_seed = 150;

static void put_snapshot(wh_buf *out, uint64_t *seed, int from, int to)
{
	int xmax = from + log_counts_random(seed, to - from + 1);
	const char *comma = "";
	wh_buf open = WH_BUF_INIT(1000);
	int lowest = xmax;

	for (int tx = from; tx < xmax; tx++)
		if (log_counts_random(seed, 6) == 0) {
			lowest = tx < lowest ? tx : lowest;
			wh_buf_printf(&open, "%s%d", comma, tx);
			comma = ",";
		}
	wh_buf_printf(out, "'%d:%d:%s'", lowest, xmax, open.len ? open.ptr : "");
	wh_buf_clear(&open);
}

static void put_rows(wh_buf *sql, uint64_t *seed)
{
	static const char *const topics[] = {"a", "b.one", "b.two", "c"};

	for (int id = 1; id <= LOG_COUNTS_ROWS; id++)
		if (log_counts_random(seed, 8))
			wh_buf_printf(
				sql,
				"INSERT INTO outbox(id, tx, topic, partition_key, payload) "
				"VALUES (%d, '%d', '%s', 'k%d', '{}'); ",
				id, FIRST_TX + log_counts_random(seed, TXS),
				topics[log_counts_random(seed, 4)],
				log_counts_random(seed, 20));
}

/* One position, or several that have all partitions together. */
static void put_positions(wh_buf *sql, uint64_t *seed)
{
	static const char *const masks[][3] = {
		{"-1"},
		{"4294967295", "-4294967296"},
		{"6148914691236517205", "2", "-6148914691236517208"}};
	static const char *const topics[] = {"NULL", "'b.*'", "'a,c'"};
	int which = log_counts_random(seed, 3);
	const char *of = topics[log_counts_random(seed, 3)];

	for (int i = 0; i <= which; i++) {
		bool round = log_counts_random(seed, 3) == 0;

		wh_buf_printf(
			sql,
			"INSERT INTO outbox_progress(subscription, mask, high, seen, topics, late, until) "
			"VALUES ('some', %s, %d, ",
			masks[which][i], log_counts_random(seed, LOG_COUNTS_ROWS + 2));
		put_snapshot(sql, seed, FIRST_TX, FIRST_TX + TXS / 2);
		wh_buf_printf(sql, ", %s, %d, ", of,
			      round ? log_counts_random(seed, LOG_COUNTS_ROWS) : 0);
		if (round)
			put_snapshot(sql, seed, FIRST_TX + TXS / 2, FIRST_TX + TXS);
		else
			wh_buf_puts(sql, "NULL");
		wh_buf_puts(sql, "); ");
	}
}

static void put_exceptions(wh_buf *sql, uint64_t *seed)
{
	int each = 1 + log_counts_random(seed, 8);

	for (int id = 1; id <= LOG_COUNTS_ROWS; id++)
		if (log_counts_random(seed, each) == 0)
			wh_buf_printf(
				sql,
				"INSERT INTO outbox_exception(subscription, id, state) "
				"VALUES ('some', %d, %d); ",
				id, log_counts_random(seed, 5));
}

static void play(wherry_db *db, wherry_outbox *outbox, uint64_t number)
{
	uint64_t seed = number * 2654435761U;
	wh_buf sql = WH_BUF_INIT(64 * 1024);
	char name[40];

	(void)snprintf(name, sizeof(name), "seed %" PRIu64, number);
	wh_buf_puts(&sql, "TRUNCATE outbox, outbox_progress, outbox_exception; ");
	put_rows(&sql, &seed);
	put_positions(&sql, &seed);
	put_exceptions(&sql, &seed);
	assert_true(postgres_exec(wherry_postgres_handle(db), sql.ptr, NULL, 0));
	log_counts_check(outbox, &seed, name);
	wh_buf_clear(&sql);
}

WHERRY_TEST(counts_and_lists_agree_in_random_states)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_subscription_options options = WHERRY_SUBSCRIPTION_OPTIONS();
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_subscription_create(db, "outbox", "some", &options, &err));
	WHERRY_PASS(wherry_subscription_open(db, "outbox", "some", &outbox, &err));
	for (uint64_t i = first_seed; i <= last_seed; i++)
		play(db, outbox, i);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	postgres_leave();
}

/* ---- more late rows than a look reads ---- */

enum { LATE = 12000, DELIVERED = 3000 };

static wherry_code count_row(void *ctx, const wherry_row *row)
{
	++*(int64_t *)ctx;
	return WHERRY_OK;
}

static int64_t listed(wherry_outbox *outbox, bool newest)
{
	const wherry_outbox_filter filter =
		WHERRY_OUTBOX_FILTER(.states = 1u << WHERRY_PENDING, .limit = 3 * LATE,
				     .newest = newest);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	WHERRY_PASS(wherry_outbox_list(outbox, &filter, count_row, &n, &err));
	return n;
}

/* The position has passed the rows of a transaction that it does not cover. */
static void late_rows(wherry_outbox *outbox, wherry_db *db, const char *tx)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t count[WHERRY_STATE_COUNT];
	wherry_outbox_status status;
	wh_counts some;
	char sql[800];

	(void)snprintf(
		sql, sizeof(sql),
		"TRUNCATE outbox, outbox_exception; "
		"INSERT INTO outbox(id, tx, topic, payload) SELECT i, '100', 't', '{}' FROM generate_series(1, %d) AS i; "
		"INSERT INTO outbox(id, tx, topic, payload) SELECT %d + i, '%s', 't', '{}' FROM generate_series(1, %d) AS i; "
		"UPDATE outbox_progress SET high = %d, seen = '150:200:150' WHERE subscription = 'relay'",
		DELIVERED, DELIVERED, tx, LATE, DELIVERED + LATE + 1);
	assert_true(postgres_exec(wherry_postgres_handle(db), sql, NULL, 0));
	WHERRY_PASS(wherry_outbox_count(outbox, count, &err));
	assert_int_equal(count[WHERRY_PENDING], LATE);
	assert_int_equal(count[WHERRY_DONE], DELIVERED);
	WHERRY_PASS(wherry_outbox_get_status(outbox, &status, sizeof(status), &err));
	assert_memory_equal(status.count, count, sizeof(count));
	assert_int_equal(status.at_least, 0);
	assert_int_equal(listed(outbox, false), LATE);
	assert_int_equal(listed(outbox, true), LATE);
	/* With a limit that is lower nothing is done that was not delivered. */
	WHERRY_PASS(wh_outbox_count_some(outbox, LATE / 2, INT64_MAX, &some, &err));
	assert_true(some.n[WHERRY_PENDING] == LATE ||
		    some.at_least >> WHERRY_PENDING & 1);
	assert_int_equal(some.n[WHERRY_DONE], DELIVERED);
}

WHERRY_TEST(many_late_rows_are_pending)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	late_rows(outbox, db, "150"); /* It was open when the position was read. */
	late_rows(outbox, db, "250"); /* It began later, with ids that it had before. */
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	postgres_leave();
}

int main(int argc, char **argv)
{
	if (argc == 3) {
		first_seed = strtoull(argv[1], NULL, 10);
		last_seed = strtoull(argv[2], NULL, 10);
	}
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
