/*
 * Crons on PostgreSQL, where several programs make ticks at once.
 */
#include "cron_suite.h"

#include <pthread.h>

#include "postgres/backends.h"
#include "postgres/server.h"

enum { THREADS = 4, ROUNDS = 25 };

typedef struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	int64_t made;
} racer;

static wherry_code count(void *ctx, int64_t at_us, wherry_error *err)
{
	racer *r = ctx;

	(void)at_us;
	(void)err;
	r->made++;
	return WHERRY_OK;
}

static void *race(void *ctx)
{
	racer *r = ctx;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *schedule = NULL;
	wherry_cron *cron = NULL;
	wherry_db *db = NULL;
	wherry_code code = wherry_db_open(postgres_here.url, NULL, &db, &err);

	if (code == WHERRY_OK)
		code = wherry_cron_open(db, NULL, &cron, &err);
	if (code == WHERRY_OK)
		code = wherry_schedule_parse("@every 1d", NULL, &schedule, &err);
	(void)pthread_barrier_wait(r->start);
	for (int i = 0; i < ROUNDS && code == WHERRY_OK; i++)
		code = wherry_cron_fire(cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
					count, r, NULL, NULL, &err);
	if (code != WHERRY_OK)
		r->made = -1000;
	wherry_schedule_free(schedule);
	wherry_cron_close(cron);
	wherry_db_close(db);
	return NULL;
}

static void two_that_fire_at_once_make_each_tick_once(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	racer racers[THREADS] = {{0}};
	pthread_barrier_t start;
	wherry_db *db = NULL;
	int64_t made = 0;
	char url[200];

	(void)state;
	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	WHERRY_PASS(wherry_cron_create(db, NULL, &err));
	/* The hash of "@every 1d", as md5 has it; the last tick was ten days ago. */
	assert_true(postgres_raw(
		url,
		"INSERT INTO cron SELECT 't', 'n', md5(E'\\nperiodic-tick:\\n  period-ms: "
		"86400000\\n'), floor(extract(epoch FROM now()) / 86400)::bigint * 86400000 "
		"- 864000000, true",
		NULL, 0));
	assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++) {
		racers[i].start = &start;
		assert_int_equal(
			pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		made += racers[i].made;
	}
	assert_true(made == 10 || made == 11); /* a day may have begun meanwhile */
	(void)pthread_barrier_destroy(&start);
	wherry_db_close(db);
	postgres_leave();
}

int main(void)
{
	static const outbox_backend *const backends[] = {&outbox_postgres_own,
							 &outbox_postgres_borrowed};
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(two_that_fire_at_once_make_each_tick_once),
	};

	if (!postgres_start())
		return 0;
	return cron_suite_run(backends, sizeof(backends) / sizeof(*backends), more, 1);
}
