/*
 * An entry of cron in wherry.yaml with each call that it makes failing in turn: it connects again
 * and goes on, as the daemon does, and then each tick is in the outbox once.
 */
#include <wherry/wherry.h>

#include "daemon/tick_writer.h"
#include "fault.h"

typedef struct shop {
	wherry_temp temp;
	char url[160];
	wh_plan plan;
	int64_t ticks; /* that should be there */
} shop;

static shop the_shop;

/* ---- the database ---- */

static int64_t number(const shop *s, const char *sql)
{
	sqlite3 *handle = NULL;
	sqlite3_stmt *stmt = NULL;
	int64_t n;

	assert_int_equal(sqlite3_open(s->temp.path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
	return n;
}

static void read_plan(shop *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf problems = WH_BUF_INIT(4096);
	char path[200];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%.60s/wherry.yaml", s->temp.dir);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fprintf(file,
			    "cron: [{name: n, database: '%s', at: '@every 1s', "
			    "catch_up: all, outbox: {topic: t, headers: {a: b}}}]\n",
			    s->url) > 0);
	assert_int_equal(fclose(file), 0);
	WHERRY_PASS(wh_plan_read(path, &s->plan, &problems, &err));
	wh_buf_clear(&problems);
}

/* Connect, and make the ticks that are due. */
static wherry_code fire(shop *s, bool takes, wherry_error *err)
{
	const wh_plan_cron *entry = &s->plan.crons[0];
	wh_db_options options = wh_db_options_of(entry->config, fault_env);
	wh_tick_writer writer = {.plan = NULL};
	wh_cron_turn turn;
	wherry_db *db = NULL;
	wherry_code code;

	options.create = false;
	options.must_write = true;
	code = wh_db_open(entry->database.value, &options, &db, err);
	if (code == WHERRY_OK)
		code = wh_tick_writer_open(&writer, entry, db, err);
	if (code == WHERRY_OK)
		code = wh_tick_writer_fire(&writer, takes, &turn, err);
	wh_tick_writer_close(&writer);
	wherry_db_close(db);
	return code;
}

static int make_shop(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	shop *s = &the_shop;

	*state = s;
	fault_rewind();
	(void)snprintf(s->url, sizeof(s->url), "sqlite:%s",
		       wherry_temp_make(&s->temp, "shop.db"));
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(s->url, config, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_cron_create(db, NULL, &err));
	wherry_db_close(db);
	wherry_config_free(config);
	read_plan(s);
	WHERRY_PASS(fire(s, true, &err));
	return 0;
}

static int drop_shop(void **state)
{
	shop *s = *state;

	wh_plan_clear(&s->plan);
	wherry_temp_clear(&s->temp);
	return 0;
}

/* ---- the tests ---- */

static void check(const shop *s)
{
	int64_t n = number(s, "SELECT count(*) FROM outbox");
	int64_t different = number(s, "SELECT count(DISTINCT message_id) FROM outbox");
	int64_t whole = number(s, "SELECT count(*) FROM outbox WHERE topic = 't' AND "
				  "headers = '{\"a\":\"b\"}' AND payload = '{}'");

	if (n != s->ticks || different != n || whole != n)
		fail_msg("failed %s: %lld ticks, and %lld messages, of which %lld differ "
			 "and %lld are whole",
			 fault_where(), (long long)s->ticks, (long long)n,
			 (long long)different, (long long)whole);
}

/* Two ticks are due for each fault. */
static void sweep(shop *s, fault_plan plan)
{
	int stride = plan.kind == FAULT_MEMORY ? fault_stride(53, 17) : 1;
	int tries = 0;

	for (;; plan.at += stride, tries++) {
		wherry_error err = WHERRY_ERROR_INIT;
		wherry_code code;
		bool hit;

		fault_clock_us += 2000000;
		s->ticks += 2;
		fault_arm(plan);
		code = fire(s, false, &err);
		fault_disarm();
		hit = fault_hit();
		if (code != WHERRY_OK) {
			assert_true(hit);
			assert_true(*err.message);
			WHERRY_PASS(fire(s, false, &err));
		}
		check(s);
		if (!hit)
			break;
	}
	assert_true(tries > 5);
}

WHERRY_TEST(a_call_that_fails_loses_no_tick)
{
	sweep(*state, (fault_plan){FAULT_DATABASE, 1, 1, WHERRY_BUSY});
	sweep(*state, (fault_plan){FAULT_DATABASE, 1, FAULT_ALL, WHERRY_IO});
}

WHERRY_TEST(an_answer_that_is_lost_repeats_no_tick)
{
	sweep(*state, (fault_plan){FAULT_ANSWER, 1, 1, WHERRY_INDOUBT});
	sweep(*state, (fault_plan){FAULT_ANSWER, 1, FAULT_ALL, WHERRY_CLOSED});
}

WHERRY_TEST(an_allocation_that_fails_loses_no_tick)
{
	sweep(*state, (fault_plan){FAULT_MEMORY, 1, 1, WHERRY_NOMEM});
	sweep(*state, (fault_plan){FAULT_OWN_MEMORY, 1, 1, WHERRY_NOMEM});
	sweep(*state, (fault_plan){FAULT_OWN_MEMORY, 1, FAULT_ALL, WHERRY_NOMEM});
}

int main(void)
{
	fault_set_up();
	cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_tests(make_shop, drop_shop);
}
