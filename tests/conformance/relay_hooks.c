/*
 * Hooks: the application is told what happens, and can do the relay no harm.
 */
#include "relay_handlers.h"

typedef struct told {
	handlers_fixture *f;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int n[8]; /* by kind */
	int64_t claimed, lost;
	int32_t attempts; /* of the last one */
	char text[256];
	wherry_code stepped; /* what stepping the relay in a hook gave */
	bool held;           /* it waits */
} told;

static void keep(void *ctx, const wherry_event *event)
{
	told *t = ctx;

	(void)pthread_mutex_lock(&t->lock);
	t->n[event->kind]++;
	t->claimed += event->n;
	t->lost += event->lost;
	t->attempts = event->attempts;
	if (event->text && *event->text)
		(void)snprintf(t->text, sizeof(t->text), "%d %s %s", event->kind,
			       event->topic ? event->topic : "-", event->text);
	(void)pthread_mutex_unlock(&t->lock);
}

static told *make_told(handlers_fixture *f)
{
	static told t;

	memset(&t, 0, sizeof(t));
	t.f = f;
	(void)pthread_mutex_init(&t.lock, NULL);
	(void)pthread_cond_init(&t.changed, NULL);
	return &t;
}

static void hook(handlers_fixture *f, unsigned kinds, wherry_hook_fn fn, told *t)
{
	wherry_error err = WHERRY_ERROR_INIT;

	handlers_relay(f);
	WHERRY_PASS(wherry_relay_hook(f->relay, kinds, fn, t, &err));
}

static wherry_verdict by_key(void *ctx, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);

	wherry_call_reason(call, "the test said so");
	if (*msg->key == 'b')
		return wherry_call_attempt(call) > 1 ? WHERRY_DELIVERED : WHERRY_RETRY;
	return *msg->key == 'c' ? WHERRY_REJECTED : WHERRY_DELIVERED;
}

WHERRY_CASE(a_hook_is_told_of_each_thing_once, handlers_fixture *f)
{
	told *t = make_told(f);

	handlers_pool(f);
	handlers_on(f, "t", by_key);
	hook(f, 0, keep, t);
	handlers_put(f, "t", "aabc");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(t->n[WHERRY_ON_DELIVERED], 3);
	assert_int_equal(t->n[WHERRY_ON_FAILED], 1);
	assert_int_equal(t->n[WHERRY_ON_DEAD], 1);
	assert_int_equal(t->n[WHERRY_ON_ERROR], 0);
	assert_true(t->claimed >= 4);
	assert_int_equal(t->lost, 0);
}

/* Also where what is done leaves memory in the step that reads what comes next. */
WHERRY_CASE(a_hook_is_told_of_all_that_is_claimed, handlers_fixture *f)
{
	static const char keys[] = "abcdefghijklmnopqrstuvwxyz";
	told *t = make_told(f);

	handlers_set(f, "relay.batch", "3");
	handlers_set(f, "relay.window", "9");
	handlers_pool(f);
	handlers_on(f, "t", handlers_deliver);
	hook(f, 1u << WHERRY_ON_CLAIMED, keep, t);
	handlers_put(f, "t", keys);
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(t->claimed, strlen(keys));
}

WHERRY_CASE(a_hook_is_told_only_what_it_asked_for, handlers_fixture *f)
{
	told *t = make_told(f);

	handlers_pool(f);
	handlers_on(f, "t", by_key);
	hook(f, 1u << WHERRY_ON_DEAD, keep, t);
	handlers_put(f, "t", "aabc");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(t->n[WHERRY_ON_DEAD], 1);
	assert_int_equal(t->n[WHERRY_ON_DELIVERED] + t->n[WHERRY_ON_CLAIMED], 0);
	assert_string_equal(t->text, "3 t the test said so");
}

static wherry_verdict always_fail(void *ctx, wherry_call *call)
{
	wherry_call_reason(call, "in vain");
	return WHERRY_RETRY;
}

/* With so many attempts allowed, three messages die, each told of once. */
static void die(handlers_fixture *f, const char *attempts, int32_t n)
{
	told *t = make_told(f);

	handlers_set(f, "retry.attempts", attempts);
	handlers_pool(f);
	handlers_on(f, "t", always_fail);
	hook(f, 0, keep, t);
	handlers_put(f, "t", "abc");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(t->n[WHERRY_ON_DEAD], 3);
	assert_int_equal(t->n[WHERRY_ON_FAILED], 3 * (n - 1));
	assert_int_equal(t->attempts, n);
	assert_string_equal(t->text, "3 t in vain");
}

/* Of that library: it is never told of, unless there is no second attempt. */
static void defect_6_the_end_of_five_attempts_is_told(void **state)
{
	die(*state, "5", 5);
}

static void defect_6_the_end_of_a_single_attempt_is_told(void **state)
{
	die(*state, "1", 1);
}

WHERRY_CASE(a_destination_that_is_down_is_an_error, handlers_fixture *f)
{
	told *t = make_told(f);

	handlers_set(f, "retry.attempts", "100");
	handlers_pool(f);
	handlers_on(f, "t", always_fail);
	hook(f, 1u << WHERRY_ON_ERROR, keep, t);
	handlers_put(f, "t", "abcdefgh");
	HANDLERS_UNTIL(f, (wherry_relay_get_stats(f->relay, &f->stats,
						  sizeof(wherry_relay_stats)),
			   f->stats.down));
	wherry_relay_close(f->relay);
	f->relay = NULL;
	assert_int_equal(t->n[WHERRY_ON_ERROR], 1);
	assert_string_equal(t->text, "4 - in vain");
}

static void hold(void *ctx, const wherry_event *event)
{
	told *t = ctx;

	keep(t, event);
	handlers_wait(t->f);
}

WHERRY_CASE(a_hook_that_is_slow_keeps_nothing_waiting, handlers_fixture *f)
{
	told *t = make_told(f);

	handlers_pool(f);
	handlers_on(f, "t", handlers_deliver);
	hook(f, 0, hold, t);
	handlers_put(f, "t", "abcdefgh");
	HANDLERS_UNTIL(f, handlers_number(f, "SELECT count(*) FROM outbox "
					     "WHERE status = 2") == 8);
	HANDLERS_UNTIL(f, handlers_waiting(f) == 1);
	handlers_open_gate(f);
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(t->n[WHERRY_ON_DELIVERED], 8);
}

static int told_so_far(told *t)
{
	int n;

	(void)pthread_mutex_lock(&t->lock);
	n = t->n[WHERRY_ON_DELIVERED];
	(void)pthread_mutex_unlock(&t->lock);
	return n;
}

WHERRY_CASE(what_a_slow_hook_could_not_be_told_is_counted, handlers_fixture *f)
{
	enum { MANY = 5000, KEPT = 4096 };
	told *t = make_told(f);
	wherry_error err = WHERRY_ERROR_INIT;

	handlers_pool(f);
	handlers_on(f, "t", handlers_deliver);
	hook(f, 1u << WHERRY_ON_DELIVERED, hold, t);
	handlers_put(f, "t", "a");
	HANDLERS_UNTIL(f, handlers_waiting(f) == 1);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	for (int i = 0; i < MANY; i++) {
		const wherry_message msg =
			WHERRY_MESSAGE(.topic = "t", .body = "", .body_len = 0);

		WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, 0, NULL, &err));
	}
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	HANDLERS_UNTIL(f, handlers_number(f, "SELECT count(*) FROM outbox "
					     "WHERE status = 2") == 1 + MANY);
	assert_int_equal(told_so_far(t), 1);
	handlers_open_gate(f);
	/* The next event says how many were lost: not lost itself, since there is room now. */
	HANDLERS_UNTIL(f, told_so_far(t) == 1 + KEPT);
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(told_so_far(t), 1 + KEPT + 1);
	assert_int_equal(t->lost, MANY - KEPT);
}

static void meddle(void *ctx, const wherry_event *event)
{
	wherry_error err = WHERRY_ERROR_INIT;
	told *t = ctx;
	bool finished;
	int64_t wake_us;

	(void)pthread_mutex_lock(&t->lock);
	t->stepped = wherry_relay_step(t->f->relay, &wake_us, &finished, &err);
	(void)pthread_mutex_unlock(&t->lock);
	wherry_relay_close(t->f->relay);
	keep(t, event);
}

WHERRY_CASE(a_hook_cannot_step_or_close_its_relay, handlers_fixture *f)
{
	told *t = make_told(f);

	handlers_pool(f);
	handlers_on(f, "t", handlers_deliver);
	hook(f, 0, meddle, t);
	handlers_put(f, "t", "abc");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(t->stepped, WHERRY_INVALID);
	assert_int_equal(t->n[WHERRY_ON_DELIVERED], 3);
}

static void stop_it(void *ctx, const wherry_event *event)
{
	told *t = ctx;

	keep(t, event);
	wherry_relay_stop(t->f->relay);
}

WHERRY_CASE(a_hook_may_stop_its_relay, handlers_fixture *f)
{
	told *t = make_told(f);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_EMPTY;

	handlers_pool(f);
	handlers_on(f, "t", handlers_deliver);
	hook(f, 1u << WHERRY_ON_DELIVERED, stop_it, t);
	handlers_put(f, "t", "a");
	WHERRY_PASS(wherry_relay_run(f->relay, 0, &outcome, &err));
	assert_int_equal(outcome, WHERRY_STOPPED);
}

WHERRY_CASE(a_second_hook_is_refused, handlers_fixture *f)
{
	told *t = make_told(f);
	wherry_error err = WHERRY_ERROR_INIT;

	handlers_pool(f);
	hook(f, 0, keep, t);
	WHERRY_FAILS(WHERRY_INVALID, wherry_relay_hook(f->relay, 0, keep, t, &err));
}

const handlers_test handlers_hook_tests[] = {
	HANDLERS_TEST(a_hook_is_told_of_each_thing_once),
	HANDLERS_TEST(a_hook_is_told_of_all_that_is_claimed),
	HANDLERS_TEST(a_hook_is_told_only_what_it_asked_for),
	HANDLERS_TEST(defect_6_the_end_of_five_attempts_is_told),
	HANDLERS_TEST(defect_6_the_end_of_a_single_attempt_is_told),
	HANDLERS_TEST(a_destination_that_is_down_is_an_error),
	HANDLERS_TEST(a_hook_that_is_slow_keeps_nothing_waiting),
	HANDLERS_TEST(what_a_slow_hook_could_not_be_told_is_counted),
	HANDLERS_TEST(a_hook_cannot_step_or_close_its_relay),
	HANDLERS_TEST(a_hook_may_stop_its_relay),
	HANDLERS_TEST(a_second_hook_is_refused),
	HANDLERS_TESTS_END,
};
