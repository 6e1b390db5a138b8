#include "cron_fixture.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 10 };

static wherry_code count_tick(void *ctx, int64_t at_us, wherry_error *err)
{
	int64_t *times = ctx;

	times[++times[0]] = at_us;
	return WHERRY_OK;
}

static wherry_code fail_tick(void *ctx, int64_t at_us, wherry_error *err)
{
	return wherry_error_set(err, WHERRY_FULL, "no room");
}

/* Put the end of the ticks that were made so far back. */
static void set_back(fixture *f, int64_t us)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "UPDATE cron SET until_ms = until_ms - %lld",
		       (long long)(us / 1000));
	assert_true(f->backend->raw(f->place, f->db, sql, NULL, 0));
}

WHERRY_CASE(a_tick_is_made_in_the_transaction_that_remembers_it, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;
	int64_t times[20] = {0}, n = -7, next_us = -7;

	WHERRY_PASS(wherry_schedule_parse("@every 1d", NULL, &s, &err));
	WHERRY_PASS(wherry_cron_fire(f->cron, "outbox a", "days", s, WHERRY_CATCH_UP_ALL,
				     count_tick, times, &n, &next_us, &err));
	assert_true(n == 0 && times[0] == 0);
	assert_true(next_us > 0 && next_us <= 24 * HOUR_US);
	set_back(f, 72 * HOUR_US);
	WHERRY_FAILS(WHERRY_FULL,
		     wherry_cron_fire(f->cron, "outbox a", "days", s, WHERRY_CATCH_UP_ALL,
				      fail_tick, NULL, &n, NULL, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wherry_cron_fire(f->cron, "outbox a", "days", s, WHERRY_CATCH_UP_ALL,
				     count_tick, times, &n, NULL, &err));
	assert_int_equal(n, 3);
	assert_int_equal(times[0], 3);
	assert_true(times[2] - times[1] == 24 * HOUR_US &&
		    times[3] - times[2] == 24 * HOUR_US);
	WHERRY_PASS(wherry_cron_fire(f->cron, "outbox a", "days", s, WHERRY_CATCH_UP_ALL,
				     count_tick, times, &n, NULL, &err));
	assert_int_equal(n, 0);
	set_back(f, 72 * HOUR_US);
	WHERRY_PASS(wherry_cron_fire(f->cron, "outbox a", "days", s, WHERRY_CATCH_UP_LAST,
				     count_tick, times, &n, NULL, &err));
	assert_int_equal(n, 1);
	assert_true(times[4] == times[3]);
	wherry_schedule_free(s);
}

/* Make the ticks of "@every 1d" or "@every 2d" under one name; returns whether it yielded. */
static bool turn_beside(fixture *f, const char *text, bool yields, int64_t gone_after_us,
			int64_t *out_n)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t times[20] = {0};
	wh_cron_turn t = {.target = "daemon",
			  .name = "days",
			  .catch_up = WHERRY_CATCH_UP_ALL,
			  .fn = count_tick,
			  .ctx = times,
			  .yields = yields,
			  .gone_after_us = gone_after_us};
	wherry_schedule *s = NULL;

	WHERRY_PASS(wherry_schedule_parse(text, NULL, &s, &err));
	t.schedule = s;
	WHERRY_PASS(wh_cron_fire(f->cron, &t, &err));
	wherry_schedule_free(s);
	*out_n = t.n;
	return t.active[0] != 0;
}

static bool turn(fixture *f, const char *text, bool yields, int64_t *out_n)
{
	return turn_beside(f, text, yields, 0, out_n);
}

WHERRY_CASE(a_schedule_yields_to_the_one_that_took_its_name, fixture *f)
{
	int64_t n = -7;

	assert_false(turn(f, "@every 1d", true, &n)); /* nobody had the name */
	set_back(f, 48 * HOUR_US);
	assert_true(turn(f, "@every 2d", true, &n));
	assert_int_equal(n, 0);
	assert_false(turn(f, "@every 1d", true, &n));
	assert_int_equal(n, 2);
	assert_false(turn(f, "@every 2d", false, &n)); /* it takes the name */
	assert_true(turn(f, "@every 1d", true, &n));
	assert_false(turn(f, "@every 2d", true, &n));
}

WHERRY_CASE(a_schedule_that_is_replaced_and_returns_loses_no_due_tick, fixture *f)
{
	int64_t n = -7;

	assert_false(turn(f, "@every 1s", false, &n));
	assert_false(turn(f, "@every 1d", false, &n)); /* it takes the name */
	set_back(f, 2 * SECOND_US);
	assert_false(turn(f, "@every 1s", false, &n)); /* and gives it back */
	assert_true(n >= 2);
	assert_false(turn(f, "@every 1d", false, &n));
	assert_false(turn(f, "@every 1s", false, &n));
	assert_true(n <= 1); /* those that were made are not made again */
}

WHERRY_CASE(a_schedule_makes_up_for_no_tick_of_the_time_when_it_was_replaced, fixture *f)
{
	int64_t n = -7;

	assert_false(turn(f, "@every 1d", false, &n));
	assert_false(turn(f, "@every 2d", false, &n));
	set_back(f, 72 * HOUR_US);
	assert_false(turn(f, "@every 1d", false, &n));
	assert_true(n <= 1); /* that of the last minute */
}

WHERRY_CASE(a_schedule_takes_its_name_back_when_the_other_daemon_is_gone, fixture *f)
{
	enum { GONE_US = 90 * SECOND_US };
	int64_t n = -7;

	assert_false(turn_beside(f, "@every 1d", false, GONE_US, &n));
	assert_false(turn_beside(f, "@every 2d", false, GONE_US, &n));
	set_back(f, 60 * SECOND_US);
	assert_true(turn_beside(f, "@every 1d", true, GONE_US, &n));
	assert_false(turn_beside(f, "@every 2d", true, GONE_US, &n)); /* it is there */
	set_back(f, 60 * SECOND_US);
	assert_true(turn_beside(f, "@every 1d", true, GONE_US, &n));
	set_back(f, 72 * HOUR_US);
	assert_false(turn_beside(f, "@every 1d", true, GONE_US, &n));
	assert_int_equal(n,
			 3); /* of the days without a daemon, since all are to be made */
	assert_true(turn_beside(f, "@every 2d", true, GONE_US, &n));
}

/* ---- several at once ---- */

typedef struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	wherry_db *db;
	int64_t made;
} racer;

static wherry_code count(void *ctx, int64_t at_us, wherry_error *err)
{
	racer *r = ctx;

	r->made++;
	return WHERRY_OK;
}

static wherry_code fire_days(racer *r, wherry_error *err)
{
	wherry_schedule *schedule = NULL;
	wherry_cron *cron = NULL;
	wherry_code code = wherry_cron_open(r->db, NULL, &cron, err);

	if (code == WHERRY_OK)
		code = wherry_schedule_parse("@every 1d", NULL, &schedule, err);
	if (r->start)
		(void)pthread_barrier_wait(r->start);
	for (int i = 0; i < ROUNDS && code == WHERRY_OK; i++)
		code = wherry_cron_fire(cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
					count, r, NULL, NULL, err);
	wherry_schedule_free(schedule);
	wherry_cron_close(cron);
	return code;
}

static void *race(void *ctx)
{
	racer *r = ctx;
	wherry_error err = WHERRY_ERROR_INIT;

	if (fire_days(r, &err) != WHERRY_OK) {
		print_error("%s\n", err.message);
		r->made = -1000;
	}
	return NULL;
}

WHERRY_CASE(several_that_fire_at_once_make_each_tick_once, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	racer racers[THREADS] = {{0}}, first = {0};
	pthread_barrier_t start;
	int64_t made = 0;

	if (!f->backend->several)
		return;
	first.db = f->db;
	WHERRY_PASS(fire_days(&first, &err));
	set_back(f, 240 * HOUR_US);
	assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++) {
		racers[i].start = &start;
		racers[i].db = f->backend->connect(f->place);
		assert_non_null(racers[i].db);
		assert_int_equal(
			pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		made += racers[i].made;
		assert_true(f->backend->disconnect(racers[i].db));
	}
	assert_true(made == 10 || made == 11); /* a day may have begun meanwhile */
	(void)pthread_barrier_destroy(&start);
}

/* ---- the list ---- */

const struct CMUnitTest cron_fire_cases[] = {
	cmocka_unit_test(a_tick_is_made_in_the_transaction_that_remembers_it),
	cmocka_unit_test(a_schedule_yields_to_the_one_that_took_its_name),
	cmocka_unit_test(a_schedule_that_is_replaced_and_returns_loses_no_due_tick),
	cmocka_unit_test(
		a_schedule_makes_up_for_no_tick_of_the_time_when_it_was_replaced),
	cmocka_unit_test(a_schedule_takes_its_name_back_when_the_other_daemon_is_gone),
	cmocka_unit_test(several_that_fire_at_once_make_each_tick_once),
};
const size_t n_cron_fire_cases = sizeof(cron_fire_cases) / sizeof(*cron_fire_cases);
