/*
 * Crons on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "cron_suite.h"

#include <pthread.h>

#include "mssql/backend.h"

enum { THREADS = 4, ROUNDS = 10 };

typedef struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	wherry_db *db;
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
	wherry_code code = wherry_cron_open(r->db, NULL, &cron, &err);

	if (code == WHERRY_OK)
		code = wherry_schedule_parse("@every 1d", NULL, &schedule, &err);
	(void)pthread_barrier_wait(r->start);
	for (int i = 0; i < ROUNDS && code == WHERRY_OK; i++)
		code = wherry_cron_fire(cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
					count, r, NULL, NULL, &err);
	if (code != WHERRY_OK) {
		print_error("%s\n", err.message);
		r->made = -1000;
	}
	wherry_schedule_free(schedule);
	wherry_cron_close(cron);
	return NULL;
}

static void two_that_fire_at_once_make_each_tick_once(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	racer racers[THREADS] = {{0}};
	pthread_barrier_t start;
	void *place = mssql_make();
	wherry_db *db = mssql_connect(place);
	int64_t made = 0;

	(void)state;
	WHERRY_PASS(wherry_cron_create(db, NULL, &err));
	/* The md5 of the text that "@every 1d" stands for; the last tick was ten days ago. */
	assert_true(mssql_raw(
		place, db,
		"INSERT INTO cron(target, name, hash, until_ms, active) VALUES (N't', N'n', "
		"N'999fbaccc9cd7d345de8ec14e56a2d91', DATEDIFF(DAY, '19700101', "
		"SYSUTCDATETIME()) * CAST(86400000 AS BIGINT) - 864000000, 1)",
		NULL, 0));
	assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++) {
		racers[i].start = &start;
		racers[i].db = mssql_connect(place);
		assert_int_equal(
			pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		made += racers[i].made;
		assert_true(mssql_disconnect(racers[i].db));
	}
	assert_true(made == 10 || made == 11); /* a day may have begun meanwhile */
	(void)pthread_barrier_destroy(&start);
	wherry_db_close(db);
	mssql_drop(place);
}

int main(void)
{
	static const outbox_backend backend = {MSSQL_BACKEND};
	static const outbox_backend *const backends[] = {&backend};
	static const struct CMUnitTest more[] = {
		cmocka_unit_test(two_that_fire_at_once_make_each_tick_once),
	};

	if (!mssql_start(NULL))
		return 0;
	return cron_suite_run(backends, 1, more, 1);
}
