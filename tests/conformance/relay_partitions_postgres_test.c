/*
 * Several exclusive relays share an outbox on PostgreSQL.
 */
#include "relay_partitions_postgres.h"

#include "outbox/outbox.h"

/* Each as a program would, that waits until it is woken. */
static void an_insert_wakes_the_relay_that_has_its_partition(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	shares_start_two(f);
	for (int i = 0; i < 10; i++) {
		relay_side *side = shares_side(f, i % 2);
		int64_t by_us = relay_deadline();
		size_t n = relay_delivered(f);

		while (f->a.wake_us < relay_now(f) + WH_SECOND ||
		       f->b.wake_us < relay_now(f) + WH_SECOND)
			shares_turn(f, by_us, "sleep", __LINE__, __FILE__);
		shares_put(f, shares_key(f, i % 2, i / 2), 1);
		RELAY_ASLEEP_UNTIL(f, side, relay_delivered(f) == n + 1);
	}
	relay_check_once(f, 10);
}

static wherry_code take_pages(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t *pages = ctx;
	const char *text = wh_row_text(row, 0), *at;

	(void)err;
	*pages = 0;
	for (int i = 0; i < 2; i++) { /* the first of each is the sum */
		at = strstr(text,
			    i ? "\"Shared Read Blocks\": " : "\"Shared Hit Blocks\": ");
		assert_non_null(at);
		*pages += strtoll(strchr(at, ':') + 1, NULL, 10);
	}
	return WHERRY_OK;
}

/* Pages that reading a batch of these partitions touches. */
static int64_t pages_of(relay_fixture *f, uint64_t partitions, int64_t after)
{
	static char text[16384], name[] = "explain";
	wh_partitions_read share = {.mask = partitions, .each = 100, .late = after};
	const wh_read_from from = {.after = after, .limit = 100, .partitions = &share};
	wh_param params[WH_PARTITION_READ_PARAMS];
	wh_stmt explain = {.name = name,
			   .text = text,
			   .params = f->outbox->store.stmt.partitions_read->params,
			   .n_params = f->outbox->store.stmt.partitions_read->n_params};
	wh_sql all = {.stmts = &explain, .n = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t pages = -1;

	(void)snprintf(text, sizeof(text), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) %s",
		       f->outbox->store.stmt.partitions_read->text);
	WHERRY_PASS(wh_partitions_read_params(f->outbox, &from, params, &err));
	WHERRY_PASS(wh_db_run(f->other, &explain, params, WH_PARTITION_READ_PARAMS,
			      take_pages, &pages, NULL, &err));
	wh_db_forget(f->other, &all);
	return pages;
}

/* 20,000 of one key, and one of another; nobody has counted them for the planner. */
static void a_share_is_read_without_the_rows_of_others(void **state)
{
	relay_fixture *f = *state;
	int64_t hot = relay_number(f, "SELECT hashtextextended('=hot', 0) & 63"),
		cold = relay_number(f, "SELECT hashtextextended('=cold', 0) & 63");

	assert_int_not_equal(hot, cold);
	assert_in_range(pages_of(f, UINT64_C(1) << cold, 0), 1, 50);
	relay_sql(f,
		  "INSERT INTO outbox(topic, partition_key, payload) SELECT 't', 'hot', "
		  "'{}' FROM generate_series(1, 20000)");
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload) "
		     "VALUES ('t', 'cold', '{}')");
	assert_in_range(pages_of(f, UINT64_C(1) << cold, 0), 1, 50);
	assert_in_range(pages_of(f, UINT64_C(1) << cold, 10000), 1, 50);
	assert_in_range(pages_of(f, UINT64_C(1) << hot, 10000), 100, 1000);
	assert_in_range(pages_of(f, ~(UINT64_C(1) << hot), 0), 1, 500);
}

static const relay_test own[] = {
	RELAY_TEST(an_insert_wakes_the_relay_that_has_its_partition, 0),
	RELAY_TEST(a_share_is_read_without_the_rows_of_others, 0),
	RELAY_TESTS_END,
};

#define TARGET(tests)                                                                    \
	{                                                                                \
		.name = "postgres, partitions",                                          \
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .make = postgres_enter,   \
		.again = postgres_enter_again, .note = postgres_note_here,               \
		.lower = postgres_lower_here, .drop = postgres_leave, .own = (tests),    \
		.own_only = true, .extras = WH_PARTITIONS_SHARED,                        \
	}

int main(void)
{
	static const relay_target targets[] = {
		TARGET(relay_partitions_tests),
		TARGET(own),
	};

	if (!postgres_start())
		return 0;
	shares_speak(&shares_postgres_words);
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
