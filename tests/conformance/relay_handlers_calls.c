/*
 * What a relay promises of handlers.  Defects are those of a library
 * that has handlers too.
 */
#include "relay_handlers.h"

/* ---- by topic ---- */

typedef struct seen {
	handlers_fixture *f;
	char text[256];
} seen;

static wherry_verdict look(void *ctx, wherry_call *call)
{
	const wherry_message *m = wherry_call_message(call);
	seen *s = ctx;

	(void)snprintf(s->text, sizeof(s->text), "%s %s %s %s %.*s %d %d %d", m->topic,
		       m->key, m->headers, m->message_id, (int)m->body_len,
		       (const char *)m->body, (int)m->attempts,
		       (int)wherry_call_attempt(call), wherry_call_is_last(call));
	return WHERRY_DELIVERED;
}

WHERRY_CASE(a_handler_gets_the_message_as_it_was_sent, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen s = {.f = f};
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = "orders", .key = "k", .message_id = "m-1",
			       .headers = "{\"a\":\"b\"}", .body = "some body",
			       .body_len = 9);

	handlers_pool(f);
	WHERRY_PASS(wherry_handlers_on(f->pub, "orders", look, &s, &err));
	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					  &err));
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_string_equal(s.text, "orders k {\"a\":\"b\"} m-1 some body 0 1 0");
}

WHERRY_CASE(each_topic_goes_to_its_own_handler, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	handlers_fixture other = {.lock = PTHREAD_MUTEX_INITIALIZER};

	handlers_pool(f);
	handlers_on(f, "a", handlers_deliver);
	WHERRY_PASS(wherry_handlers_others(f->pub, handlers_deliver, &other, &err));
	handlers_put(f, "a", "xyz");
	handlers_put(f, "b", "xy");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(f->n_calls, 3);
	assert_int_equal(other.n_calls, 2);
}

/* Of that library: a message nobody handles counts as done. */
WHERRY_CASE(defect_7_a_topic_without_a_handler_is_a_failure, handlers_fixture *f)
{
	char why[256];

	handlers_pool(f);
	handlers_on(f, "orders", handlers_deliver);
	handlers_put(f, "ordres", "abcdefgh-"); /* more than make a destination down */
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(handlers_number(f,
					 "SELECT count(*) FROM outbox WHERE status = 4 "
					 "AND attempts = 5"),
			 9);
	handlers_text(f, "SELECT last_error FROM outbox LIMIT 1", why, sizeof(why));
	assert_string_equal(why, "no handler for topic 'ordres'");
	assert_int_equal(f->n_calls, 0);
}

WHERRY_CASE(a_handler_registered_later_gets_what_waits, handlers_fixture *f)
{
	handlers_set(f, "retry.attempts", "1000");
	handlers_pool(f);
	handlers_relay(f);
	handlers_put(f, "orders", "a");
	HANDLERS_UNTIL(f, handlers_number(f, "SELECT attempts FROM outbox") > 0);
	handlers_on(f, "orders", handlers_deliver);
	HANDLERS_UNTIL(f, handlers_number(f, "SELECT status FROM outbox") == WHERRY_DONE);
	assert_int_equal(f->n_calls, 1);
}

/* ---- order ---- */

/* Every seventh message fails the first time. */
static wherry_verdict sometimes(void *ctx, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);

	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	return msg->id % 7 == 0 && !msg->attempts ? WHERRY_RETRY : WHERRY_DELIVERED;
}

WHERRY_CASE(messages_of_a_key_are_handled_one_after_another, handlers_fixture *f)
{
	int64_t last[128] = {0};

	handlers_pool(f);
	handlers_on(f, "t", sometimes);
	for (int i = 0; i < 12; i++)
		handlers_put(f, "t", "abcdaabb");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_false(f->overlapped);
	assert_int_equal(f->n_calls, 96 + 13);
	for (size_t i = 0; i < f->n_calls; i++) {
		int64_t *of_key = &last[(unsigned char)f->calls[i].key[0]];

		assert_true(f->calls[i].id > *of_key ||
			    (f->calls[i].id == *of_key && f->calls[i].attempt == 2));
		*of_key = f->calls[i].id;
	}
}

/* Goes on once as many run as there are threads. */
static wherry_verdict meet(void *ctx, wherry_call *call)
{
	handlers_fixture *f = ctx;

	handlers_enter(f, call);
	(void)pthread_mutex_lock(&f->lock);
	while (f->most < 4)
		(void)pthread_cond_wait(&f->changed, &f->lock);
	(void)pthread_mutex_unlock(&f->lock);
	handlers_leave(f, call);
	return WHERRY_DELIVERED;
}

/* Of that library: one at a time, each waiting for a buffer's time to pass. */
WHERRY_CASE(defect_2_handlers_of_different_keys_run_at_once, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "t", meet);
	handlers_put(f, "t", "abcdefgh");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(f->most, 4);
	assert_int_equal(f->n_calls, 8);
}

/* ---- failures ---- */

static wherry_verdict refuse(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	wherry_call_reason(call, "no such\ncustomer");
	return WHERRY_REJECTED;
}

WHERRY_CASE(a_rejected_message_is_dead_at_once_and_says_why, handlers_fixture *f)
{
	char why[256];

	handlers_pool(f);
	handlers_on(f, "t", refuse);
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	handlers_text(f, "SELECT last_error FROM outbox", why, sizeof(why));
	assert_string_equal(why, "no such customer");
	assert_int_equal(f->n_calls, 1);
}

static wherry_verdict fail_all(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	wherry_call_reason(call, "in vain");
	return WHERRY_RETRY;
}

static wherry_verdict return_a_code(void *ctx, wherry_call *call)
{
	const wherry_message refused =
		WHERRY_MESSAGE(.topic = "", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;

	return (wherry_verdict)wherry_call_enqueue(call, NULL, &refused, NULL, &err);
}

/* Compilers let a handler return the code of a call. */
WHERRY_CASE(a_code_that_a_handler_returns_is_not_taken_for_a_verdict, handlers_fixture *f)
{
	char why[256];

	handlers_set(f, "retry.attempts", "2");
	handlers_pool(f);
	handlers_on(f, "t", return_a_code);
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	handlers_text(f, "SELECT last_error FROM outbox WHERE topic = 't'", why,
		      sizeof(why));
	assert_non_null(strstr(why, "WHERRY_INVALID"));
	assert_int_equal(
		handlers_number(f, "SELECT attempts FROM outbox WHERE topic = 't'"), 2);
	assert_int_equal(f->stats.dead, 1);
}

WHERRY_CASE(the_last_attempt_is_known_to_the_handler, handlers_fixture *f)
{
	handlers_set(f, "retry.attempts", "3");
	handlers_pool(f);
	handlers_on(f, "t", fail_all);
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(f->n_calls, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(f->calls[i].attempt, i + 1);
		assert_int_equal(f->calls[i].last, i == 2);
	}
}

static wherry_verdict throttle_once(void *ctx, wherry_call *call)
{
	handlers_fixture *f = ctx;

	handlers_enter(f, call);
	handlers_leave(f, call);
	wherry_call_retry_after(call, 1000);
	return handlers_seen(f) == 1 ? WHERRY_THROTTLED : WHERRY_DELIVERED;
}

WHERRY_CASE(a_throttled_message_is_tried_again_uncounted, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "t", throttle_once);
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(f->n_calls, 2);
	assert_int_equal(handlers_number(f, "SELECT attempts FROM outbox"), 0);
}

static wherry_verdict later(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	wherry_call_retry_after(call, 3600 * 1000000LL);
	return WHERRY_RETRY;
}

WHERRY_CASE(a_handler_may_ask_for_a_longer_delay, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "t", later);
	handlers_relay(f);
	handlers_put(f, "t", "a");
	HANDLERS_UNTIL(f,
		       handlers_number(f, "SELECT status FROM outbox") == WHERRY_FAILED);
	assert_true(handlers_number(f, "SELECT next_retry_at - "
				       "(SELECT ms FROM wherry_clock) FROM outbox") >
		    3500 * 1000);
}

/* ---- time limits, and ends ---- */

static wherry_verdict hang_first(void *ctx, wherry_call *call)
{
	handlers_fixture *f = ctx;

	handlers_enter(f, call);
	if (wherry_call_message(call)->id == 1 && wherry_call_attempt(call) == 1)
		handlers_wait(f);
	handlers_leave(f, call);
	return WHERRY_DELIVERED;
}

WHERRY_CASE(a_handler_over_its_time_fails_and_its_key_waits_for_it, handlers_fixture *f)
{
	char why[256];

	handlers_set(f, "handlers.timeout", "50ms");
	handlers_set(f, "handlers.threads", "1");
	handlers_set(f, "retry.attempts", "1000");
	handlers_pool(f);
	handlers_on(f, "t", hang_first);
	handlers_relay(f);
	handlers_put(f, "t", "aabc");
	HANDLERS_UNTIL(f, handlers_number(f, "SELECT count(*) FROM outbox "
					     "WHERE status = 2") == 2);
	HANDLERS_UNTIL(
		f, handlers_number(f, "SELECT attempts FROM outbox WHERE id = 1") == 2);
	assert_int_equal(handlers_seen(f), 3); /* 1, which hangs; and 3 and 4 */
	assert_int_equal(wherry_handlers_running(f->pub), 1);
	handlers_text(f, "SELECT last_error FROM outbox WHERE id = 1", why, sizeof(why));
	assert_string_equal(why, "waited for an earlier call that is over its time");
	handlers_open_gate(f);
	HANDLERS_UNTIL(f, handlers_number(f, "SELECT count(*) FROM outbox "
					     "WHERE status = 2") == 4);
	assert_false(f->overlapped);
	assert_int_equal(f->n_calls, 5);
}

static wherry_verdict until_cancelled(void *ctx, wherry_call *call)
{
	handlers_fixture *f = ctx;
	const struct timespec moment = {0, 200000};

	handlers_enter(f, call);
	while (!wherry_call_cancelled(call))
		(void)nanosleep(&moment, NULL);
	handlers_leave(f, call);
	return WHERRY_RETRY;
}

WHERRY_CASE(a_handler_over_its_time_is_cancelled, handlers_fixture *f)
{
	char why[256];

	handlers_set(f, "handlers.timeout", "20ms");
	handlers_set(f, "retry.attempts", "2");
	handlers_pool(f);
	handlers_on(f, "t", until_cancelled);
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	handlers_text(f, "SELECT last_error FROM outbox", why, sizeof(why));
	assert_string_equal(why, "timed out after 20ms");
}

WHERRY_CASE(a_relay_that_stops_cancels_and_counts_nothing, handlers_fixture *f)
{
	bool finished = false;

	handlers_pool(f);
	handlers_on(f, "t", until_cancelled);
	handlers_relay(f);
	handlers_put(f, "t", "abcdefgh"); /* more than there are threads */
	HANDLERS_UNTIL(f, handlers_seen(f) == 4);
	wherry_relay_stop(f->relay);
	HANDLERS_UNTIL(f, finished || (finished = handlers_step(f)));
	assert_int_equal(handlers_seen(f), 4);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM outbox "
					    "WHERE status = 0 AND attempts = 0"),
			 8);
}

WHERRY_CASE(a_lost_lease_cancels_what_runs, handlers_fixture *f)
{
	handlers_set(f, "relay.idle_interval", "20ms");
	handlers_pool(f);
	handlers_on(f, "t", until_cancelled);
	handlers_relay(f);
	handlers_put(f, "t", "a");
	HANDLERS_UNTIL(f, handlers_seen(f) == 1);
	handlers_sql(f, "UPDATE wherry_lease SET epoch = epoch + 1, owner = 'thief', "
			"expires_at = (SELECT ms FROM wherry_clock) + 3600000");
	HANDLERS_UNTIL(f, wherry_handlers_running(f->pub) == 0);
	assert_int_equal(handlers_number(f, "SELECT max(attempts) FROM outbox"), 0);
}

/* ---- once ---- */

WHERRY_CASE(one_that_runs_once_succeeds_once, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	handlers_pool(f);
	WHERRY_PASS(wherry_handlers_once(f->pub, "t", sometimes, f, &err));
	handlers_put(f, "x", "------"); /* so that the first of it is 7, and fails */
	handlers_put(f, "t", "abcdefgh");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM outbox "
					    "WHERE status = 2"),
			 1);
	assert_int_equal(f->most, 1);
	assert_true(f->n_calls <= 3); /* a success; 7 may have failed before it */
}

/* ---- middleware ---- */

typedef struct around {
	pthread_mutex_t lock;
	char text[400]; /* what happened, in order */
	const char *name;
	struct around *shared;
} around;

static void note(around *a, const char *x, const char *y, const char *z)
{
	size_t len;

	(void)pthread_mutex_lock(&a->lock);
	len = strlen(a->text);
	(void)snprintf(a->text + len, sizeof(a->text) - len, "%s%s%s", x, y, z);
	(void)pthread_mutex_unlock(&a->lock);
}

static wherry_verdict measure(void *ctx, wherry_call *call)
{
	static const char *const names[] = {
		[WHERRY_DELIVERED] = " delivered ", [WHERRY_RETRY] = " retry "};
	around *a = ctx;
	wherry_verdict verdict;

	note(a->shared, a->name, ">", "");
	verdict = wherry_call_next(call);
	note(a->shared, "<", a->name, names[verdict]);
	return verdict;
}

static wherry_verdict handle_noting(void *ctx, wherry_call *call)
{
	around *a = ctx;

	if (wherry_call_attempt(call) > 1) {
		note(a, "ok", "", "");
		return WHERRY_DELIVERED;
	}
	note(a, "bad", "", "");
	return WHERRY_RETRY;
}

WHERRY_CASE(middleware_sees_what_is_inside_and_how_it_ends, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	around inner = {.lock = PTHREAD_MUTEX_INITIALIZER, .name = "b"};
	around outer = {.name = "a", .shared = &inner};

	inner.shared = &inner;
	handlers_pool(f);
	WHERRY_PASS(wherry_handlers_use(f->pub, measure, &outer, &err));
	WHERRY_PASS(wherry_handlers_use(f->pub, measure, &inner, &err));
	WHERRY_PASS(wherry_handlers_on(f->pub, "t", handle_noting, &inner, &err));
	handlers_put(f, "t", "a");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_string_equal(inner.text, "a>b>bad<b retry <a retry "
					"a>b>ok<b delivered <a delivered ");
}

static wherry_verdict drop(void *ctx, wherry_call *call)
{
	return wherry_call_drop(call, "not for us");
}

static wherry_verdict forget(void *ctx, wherry_call *call)
{
	return WHERRY_DELIVERED;
}

static wherry_verdict next_twice(void *ctx, wherry_call *call)
{
	wherry_verdict first = wherry_call_next(call);

	return first == WHERRY_DELIVERED ? wherry_call_next(call) : first;
}

/* What becomes of a message with this middleware; last_error to why. */
static wherry_outcome with_middleware(handlers_fixture *f, wherry_middleware_fn fn,
				      char *why, size_t cap)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome;

	handlers_set(f, "retry.attempts", "2");
	handlers_pool(f);
	WHERRY_PASS(wherry_handlers_use(f->pub, fn, f, &err));
	handlers_on(f, "t", handlers_deliver);
	handlers_put(f, "t", "a");
	outcome = handlers_run(f);
	handlers_text(f, "SELECT last_error FROM outbox", why, cap);
	return outcome;
}

WHERRY_CASE(middleware_may_drop_a_message, handlers_fixture *f)
{
	char why[256];

	assert_int_equal(with_middleware(f, drop, why, sizeof(why)), WHERRY_EMPTY);
	assert_int_equal(f->n_calls, 0);
	assert_int_equal(handlers_number(f, "SELECT status FROM outbox"), WHERRY_DONE);
}

WHERRY_CASE(middleware_may_refuse_a_message, handlers_fixture *f)
{
	char why[256];

	assert_int_equal(with_middleware(f, refuse, why, sizeof(why)), WHERRY_DEATHS);
	assert_string_equal(why, "no such customer");
}

WHERRY_CASE(middleware_that_forgets_next_delivers_nothing, handlers_fixture *f)
{
	char why[256];

	assert_int_equal(with_middleware(f, forget, why, sizeof(why)), WHERRY_DEATHS);
	assert_int_equal(f->n_calls, 0);
	assert_non_null(strstr(why, "wherry_call_next"));
}

WHERRY_CASE(next_runs_the_handler_but_once, handlers_fixture *f)
{
	char why[256];

	assert_int_equal(with_middleware(f, next_twice, why, sizeof(why)), WHERRY_DEATHS);
	assert_int_equal(f->n_calls, 2); /* once for each attempt */
	assert_string_equal(why, "middleware called next twice");
}

/* ---- running ---- */

const handlers_test handlers_call_tests[] = {
	HANDLERS_TEST(a_handler_gets_the_message_as_it_was_sent),
	HANDLERS_TEST(each_topic_goes_to_its_own_handler),
	HANDLERS_TEST(defect_7_a_topic_without_a_handler_is_a_failure),
	HANDLERS_TEST(a_handler_registered_later_gets_what_waits),
	HANDLERS_TEST(messages_of_a_key_are_handled_one_after_another),
	HANDLERS_TEST(defect_2_handlers_of_different_keys_run_at_once),
	HANDLERS_TEST(a_rejected_message_is_dead_at_once_and_says_why),
	HANDLERS_TEST(a_code_that_a_handler_returns_is_not_taken_for_a_verdict),
	HANDLERS_TEST(the_last_attempt_is_known_to_the_handler),
	HANDLERS_TEST(a_throttled_message_is_tried_again_uncounted),
	HANDLERS_TEST(a_handler_may_ask_for_a_longer_delay),
	HANDLERS_TEST(a_handler_over_its_time_fails_and_its_key_waits_for_it),
	HANDLERS_TEST(a_handler_over_its_time_is_cancelled),
	HANDLERS_TEST(a_relay_that_stops_cancels_and_counts_nothing),
	HANDLERS_TEST(a_lost_lease_cancels_what_runs),
	HANDLERS_TEST(one_that_runs_once_succeeds_once),
	HANDLERS_TEST(middleware_sees_what_is_inside_and_how_it_ends),
	HANDLERS_TEST(middleware_may_drop_a_message),
	HANDLERS_TEST(middleware_may_refuse_a_message),
	HANDLERS_TEST(middleware_that_forgets_next_delivers_nothing),
	HANDLERS_TEST(next_runs_the_handler_but_once),
	HANDLERS_TESTS_END,
};
