/*
 * Waiting: A24 of the portable checklist, and what wakes a consumer.  These tests go by the
 * database's clock.
 */
#include "delayed_suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "db/driver.h"
#include "db/trace.h"

enum { LONG_US = 60 * SECOND_US };

static void go_by_the_database(delayed_fixture *f)
{
	wherry_delayed_set_clock(f->queue, NULL, NULL);
}

static wherry_code offer_in(wherry_delayed *queue, const char *key, int64_t delay_us,
			    wherry_error *err)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = key, .body = "x", .body_len = 1,
				       .delay_us = delay_us);

	return delayed_does.offer(queue, &msg, NULL, err);
}

static bool wait_for(delayed_fixture *f, int64_t timeout_us)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool any = false;

	WHERRY_PASS(wherry_delayed_wait(f->queue, timeout_us, &any, &err));
	return any;
}

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

WHERRY_CASE(a_wait_without_time_only_looks, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	go_by_the_database(f);
	assert_false(wait_for(f, 0));
	WHERRY_PASS(offer_in(f->queue, "later", LONG_US, &err));
	assert_false(wait_for(f, 0));
	WHERRY_PASS(offer_in(f->queue, "now", 0, &err));
	assert_true(wait_for(f, LONG_US));
}

WHERRY_CASE(a_wait_ends_when_a_message_is_due, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	double begin = now_s();

	go_by_the_database(f);
	WHERRY_PASS(offer_in(f->queue, "k", SECOND_US / 5, &err));
	assert_true(wait_for(f, LONG_US));
	assert_true(now_s() - begin >= 0.199 && now_s() - begin < 50);
	(void)delayed_polls(f, 1, "x");
}

static void on_signal(int number)
{
}

WHERRY_CASE(a_signal_ends_a_wait, delayed_fixture *f)
{
	struct sigaction handler = {.sa_handler = on_signal}, before;
	struct itimerval often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
	double begin = now_s();

	go_by_the_database(f);
	assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	assert_false(wait_for(f, LONG_US));
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	assert_true(now_s() - begin < 50);
}

WHERRY_CASE(a_wait_in_a_transaction_is_refused, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool any = true;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_delayed_wait(f->queue, LONG_US, &any, &err));
	wherry_db_rollback(f->db);
	WHERRY_FAILS(WHERRY_INVALID, wherry_delayed_wait(f->queue, -1, &any, &err));
	assert_true(any);
}

static void *wake(void *ctx)
{
	wherry_delayed_wake(ctx);
	return NULL;
}

WHERRY_CASE(a_wait_can_be_ended_by_another_thread, delayed_fixture *f)
{
	double begin = now_s();
	pthread_t thread;

	go_by_the_database(f);
	assert_int_equal(pthread_create(&thread, NULL, wake, f->queue), 0);
	assert_false(wait_for(f, LONG_US));
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(now_s() - begin < 30);
	begin = now_s();
	assert_false(wait_for(f, SECOND_US / 10)); /* it was for one wait */
	assert_true(now_s() - begin >= 0.099);
}

typedef struct producer {
	delayed_fixture *f;
	wherry_code code;
	wherry_error err;
	double offered_s; /* when the message was there */
} producer;

static void *offer_now(void *ctx)
{
	producer *p = ctx;
	wherry_db *db = p->f->backend->connect(p->f->place);
	wherry_delayed *queue = NULL;

	p->code = wherry_delayed_open(db, "later", "my-queue", "java.lang.String", &queue,
				      &p->err);
	if (p->code == WHERRY_OK)
		p->code = offer_in(queue, "now", 0, &p->err);
	p->offered_s = now_s();
	wherry_delayed_close(queue);
	(void)p->f->backend->disconnect(db);
	return NULL;
}

/* Also defect 14 of the reference: a poll noticed offers of other processes after seconds. */
WHERRY_CASE(an_earlier_offer_of_another_connection_wakes_a_wait, delayed_fixture *f)
{
	producer p = {.f = f};
	wherry_error err = WHERRY_ERROR_INIT;
	double woken_s;
	pthread_t thread;

	go_by_the_database(f);
	WHERRY_PASS(offer_in(f->queue, "later", LONG_US, &err));
	assert_int_equal(pthread_create(&thread, NULL, offer_now, &p), 0);
	assert_true(wait_for(f, LONG_US));
	woken_s = now_s();
	assert_int_equal(pthread_join(thread, NULL), 0);
	WHERRY_PASS(p.code);
	assert_true(woken_s - p.offered_s < 8); /* it looks again after 10 s */
	assert_string_equal(delayed_polls(f, 9, "x")->keys, "now");
}

static wherry_code count_statement(void *ctx, const char *op, const char *what,
				   wherry_error *err)
{
	*(int *)ctx += strcmp(op, "run") == 0;
	return WHERRY_OK;
}

/* Not one look after the other until a message is due. */
WHERRY_CASE(a_wait_sleeps_to_the_next_due_time, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int n = 0;
	const wh_trace trace = {.before = count_statement, .ctx = &n};
	wherry_db *db = NULL;
	wherry_delayed *queue = NULL;
	double begin;
	bool any = false;

	WHERRY_PASS(wh_db_trace(f->backend->connect(f->place), &trace, &db, &err));
	WHERRY_PASS(wherry_delayed_open(db, "later", "my-queue", "java.lang.String",
					&queue, &err));
	WHERRY_PASS(offer_in(queue, "k", SECOND_US, &err));
	begin = now_s();
	n = 0;
	WHERRY_PASS(wherry_delayed_wait(queue, LONG_US, &any, &err));
	assert_true(any);
	assert_true(now_s() - begin >= 0.9);
	/* Soon after its last message it looks more often; then, where nobody wakes it, four times a
	 * second. */
	assert_in_range(n, 2, 16);
	wherry_delayed_close(queue);
	(void)f->backend->disconnect(wh_db_untrace(db));
}

const delayed_case delayed_wait_cases[] = {
	DELAYED_CASE(a_wait_without_time_only_looks),
	DELAYED_CASE(a_wait_ends_when_a_message_is_due),
	DELAYED_CASE_OF_SEVERAL(a_wait_sleeps_to_the_next_due_time),
	DELAYED_CASE(a_wait_in_a_transaction_is_refused),
	DELAYED_CASE(a_signal_ends_a_wait),
	DELAYED_CASE(a_wait_can_be_ended_by_another_thread),
	DELAYED_CASE_OF_SEVERAL(an_earlier_offer_of_another_connection_wakes_a_wait),
	{NULL, NULL, false, false},
};
