/*
 * What the JVM library DelayedQueue gets wrong under load, and this one does not.
 */
#include "delayed_suite.h"

#include <pthread.h>
#include <stdatomic.h>

#include "db/trace.h"

enum { POLLERS = 8, ROUNDS = 5, CLOCK_AHEAD_US = 300 * SECOND_US };

/* ---- interrupted calls ---- */

typedef struct interrupter {
	pthread_t thread;
	wherry_db *db;
	atomic_bool done;
} interrupter;

static void *interrupt(void *ctx)
{
	interrupter *i = ctx;

	while (!atomic_load(&i->done)) {
		wherry_db_interrupt(i->db);
		wh_sleep(&wh_env_system, 1000);
	}
	return NULL;
}

/* Upstream retries a call that was interrupted.  The database is locked until it is. */
WHERRY_CASE(an_interrupted_poll_ends_and_leases_nothing, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *other;
	interrupter i = {.db = f->db};
	delayed_got got = {.n = 0};

	other = f->backend->connect(f->place);
	(void)delayed_offer(f, "a", "1", 0);
	WHERRY_PASS(wherry_db_begin(other, &err));
	WHERRY_PASS(wh_db_script(other, "ALTER TABLE later ADD extra integer", &err));
	atomic_init(&i.done, false);
	assert_int_equal(pthread_create(&i.thread, NULL, interrupt, &i), 0);
	WHERRY_FAILS(WHERRY_INTERRUPTED,
		     delayed_does.poll(f->queue, NULL, delayed_note, &got, NULL, &err));
	atomic_store(&i.done, true);
	assert_int_equal(pthread_join(i.thread, NULL), 0);
	wherry_db_rollback(other);
	assert_true(f->backend->disconnect(other));
	assert_int_equal(got.n, 0);
	assert_int_equal(delayed_polls(f, 9, "1")->attempts[0], 1);
}

/* ---- clocks ---- */

static int64_t ahead(void *ctx)
{
	return wh_now(&wh_env_system) + CLOCK_AHEAD_US;
}

/* Upstream compares leases with the clock of each process. */
WHERRY_CASE(a_consumer_whose_clock_is_ahead_takes_over_no_lease, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wh_env env = wh_env_system;
	wherry_db *other = f->backend->connect(f->place);
	const wherry_delayed_message msgs[] = {
		WHERRY_DELAYED_MESSAGE(.key = "a", .body = "1", .body_len = 1),
		WHERRY_DELAYED_MESSAGE(.key = "b", .body = "2", .body_len = 1,
				       .delay_us = 60 * SECOND_US),
	};
	delayed_got got = {.n = 0};

	env.now_us = ahead;
	other->env = &env;
	wherry_delayed_set_clock(f->queue, NULL, NULL);
	WHERRY_PASS(wherry_delayed_open(other, "later", "my-queue", "java.lang.String",
					&queue, &err));
	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs, 2, NULL, &err));
	(void)delayed_polls(f, 1, "1");
	WHERRY_PASS(delayed_does.poll(queue, NULL, delayed_note, &got, NULL, &err));
	assert_int_equal(got.n, 0);
	wherry_delayed_close(queue);
	other->env = &wh_env_system;
	assert_true(f->backend->disconnect(other));
}

/* ---- cost ---- */

static wherry_code count(void *ctx, const char *op, const char *what, wherry_error *err)
{
	int *n = ctx;

	*n += strcmp(op, "run") == 0 || strcmp(op, "begin") == 0 ||
	      strcmp(op, "commit") == 0;
	return WHERRY_OK;
}

/* Upstream needs two transactions of six statements. */
WHERRY_CASE(a_poll_and_its_acknowledgement_are_two_statements, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wherry_db *inner, *db = NULL;
	wherry_ack_outcome outcome = WHERRY_LEASE_LOST;
	delayed_got got = {.n = 0};
	const char *token = got.tokens[0];
	int n = 0;

	inner = f->backend->connect(f->place);
	(void)delayed_offer(f, "a", "1", 0);
	WHERRY_PASS(
		wh_db_trace(inner, &(wh_trace){.before = count, .ctx = &n}, &db, &err));
	WHERRY_PASS(wherry_delayed_open(db, "later", "my-queue", "java.lang.String",
					&queue, &err));
	n = 0;
	WHERRY_PASS(delayed_does.poll(queue, NULL, delayed_note, &got, NULL, &err));
	assert_int_equal(got.n, 1);
	WHERRY_PASS(delayed_does.ack(queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
	assert_int_equal(n, 2);
	wherry_delayed_close(queue);
	wherry_db_close(db);
}

/* ---- pollers at once ---- */

typedef struct poller {
	pthread_t thread;
	pthread_barrier_t *start;
	delayed_fixture *f;
	wherry_db *db;
	wherry_delayed *queue;
	wherry_code code;
	wherry_error err;
	int64_t n;
} poller;

static void *poll_one(void *ctx)
{
	poller *p = ctx;
	delayed_got got = {.n = 0};

	(void)pthread_barrier_wait(p->start);
	p->code = delayed_does.poll(p->queue, NULL, delayed_note, &got, &p->n, &p->err);
	return NULL;
}

/* On Oracle upstream's pollers look at the first row, find it locked, and see an empty queue. */
WHERRY_CASE(of_pollers_at_once_each_gets_a_message_while_there_are_some,
	    delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	poller pollers[POLLERS];
	pthread_barrier_t start;
	char key[24];

	wherry_delayed_set_clock(f->queue, NULL, NULL);
	assert_int_equal(pthread_barrier_init(&start, NULL, POLLERS), 0);
	for (int i = 0; i < POLLERS; i++) {
		pollers[i] = (poller){.f = f, .start = &start};
		pollers[i].db = f->backend->connect(f->place);
		WHERRY_PASS(wherry_delayed_open(pollers[i].db, "later", "my-queue",
						"java.lang.String", &pollers[i].queue,
						&err));
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < POLLERS; i++) {
			(void)snprintf(key, sizeof(key), "%d-%d", round, i);
			(void)delayed_offer(f, key, "x", 0);
		}
		for (int i = 0; i < POLLERS; i++)
			assert_int_equal(pthread_create(&pollers[i].thread, NULL,
							poll_one, &pollers[i]),
					 0);
		for (int i = 0; i < POLLERS; i++)
			assert_int_equal(pthread_join(pollers[i].thread, NULL), 0);
		for (int i = 0; i < POLLERS; i++) {
			if (pollers[i].code != WHERRY_OK)
				print_error("%s\n", pollers[i].err.message);
			assert_int_equal(pollers[i].code, WHERRY_OK);
			assert_int_equal(pollers[i].n, 1);
		}
	}
	for (int i = 0; i < POLLERS; i++) {
		wherry_delayed_close(pollers[i].queue);
		assert_true(f->backend->disconnect(pollers[i].db));
	}
	(void)pthread_barrier_destroy(&start);
}

/* ---- names ---- */

/* Upstream asks for tables and columns by patterns, in which _ is any character. */
WHERRY_CASE(a_table_whose_name_has_an_underscore_is_not_taken_for_another,
	    delayed_fixture *f)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = "a", .body = "2", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_offer_outcome outcome;
	wherry_delayed *queue = NULL;

	(void)delayed_offer(f, "a", "1", 0);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_open(f->db, "lat_r", "my-queue", NULL, &queue, &err));
	WHERRY_PASS(wherry_delayed_create(f->db, "lat_r", f->layout, &err));
	WHERRY_PASS(wherry_delayed_create(f->db, "lat_r", f->layout, &err));
	WHERRY_PASS(wherry_delayed_open(f->db, "lat_r", "my-queue", "java.lang.String",
					&queue, &err));
	WHERRY_PASS(delayed_does.offer(queue, &msg, &outcome, &err));
	assert_int_equal(outcome, WHERRY_CREATED);
	wherry_delayed_close(queue);
	(void)delayed_polls(f, 9, "1");
}

const delayed_case delayed_defects_cases[] = {
	DELAYED_OWNER_CASE(a_table_whose_name_has_an_underscore_is_not_taken_for_another),
	{"an_interrupted_poll_ends_and_leases_nothing",
	 an_interrupted_poll_ends_and_leases_nothing, true, true},
	DELAYED_CASE_OF_SEVERAL(a_consumer_whose_clock_is_ahead_takes_over_no_lease),
	DELAYED_CASE_OF_SEVERAL(a_poll_and_its_acknowledgement_are_two_statements),
	DELAYED_CASE_OF_SEVERAL(
		of_pollers_at_once_each_gets_a_message_while_there_are_some),
	{0},
};
