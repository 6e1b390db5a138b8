/*
 * Steps: what a handler writes, what it enqueues, and the acknowledgement are one.
 */
#include "relay_handlers.h"

#include "outbox/outbox.h"

static const char orders[] = "SELECT count(*) FROM orders";
static const char done[] = "SELECT count(*) FROM outbox WHERE status = 2";

static wherry_verdict write_and_follow(void *ctx, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);
	handlers_fixture *f = ctx;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_verdict verdict;
	wherry_message next = WHERRY_MESSAGE(.topic = "paid", .key = msg->key,
					     .body = "{}", .body_len = 2);

	handlers_enter(f, call);
	verdict = handlers_write(f, call);
	if (verdict == WHERRY_DELIVERED &&
	    wherry_call_enqueue(call, NULL, &next, NULL, &err) != WHERRY_OK) {
		wherry_call_reason(call, err.message);
		verdict = WHERRY_RETRY;
	}
	handlers_leave(f, call);
	return verdict;
}

WHERRY_CASE(what_a_handler_writes_is_one_with_its_acknowledgement, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "orders", write_and_follow);
	handlers_on(f, "paid", handlers_deliver);
	handlers_put(f, "orders", "aabbccddeeffgghh");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 16);
	assert_int_equal(handlers_number(f, "SELECT count(DISTINCT id) FROM orders"), 16);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM outbox "
					    "WHERE topic = 'orders' AND status = 2"),
			 16);
	assert_int_equal(handlers_run(f), WHERRY_EMPTY); /* what followed */
	assert_int_equal(handlers_number(f, done), 32);
	assert_int_equal(handlers_number(f, orders), 16);
}

static wherry_verdict write_alone(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	return handlers_write(ctx, call);
}

WHERRY_CASE(the_relay_counts_what_a_handler_acknowledged, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "orders", write_alone);
	handlers_put(f, "orders", "abcabc");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(f->stats.delivered, 6);
	assert_int_equal(f->stats.stale, 0);
	assert_int_equal(f->stats.retried, 0);
}

static wherry_verdict write_then_fail(void *ctx, wherry_call *call)
{
	wherry_verdict verdict = write_and_follow(ctx, call);

	return wherry_call_attempt(call) < 3 ? WHERRY_RETRY : verdict;
}

WHERRY_CASE(a_handler_that_fails_leaves_nothing, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "orders", write_then_fail);
	handlers_on(f, "paid", handlers_deliver);
	handlers_put(f, "orders", "abc");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 3);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM outbox "
					    "WHERE topic = 'paid'"),
			 3);
}

/* As if the lease expired while the handler worked. */
static wherry_verdict lose_first(void *ctx, wherry_call *call)
{
	handlers_fixture *f = ctx;
	wherry_verdict verdict = write_and_follow(f, call);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	if (wherry_call_attempt(call) > 1 ||
	    wherry_call_begin(call, &db, &err) != WHERRY_OK)
		return verdict;
	(void)handlers_call_sql(f, db, "UPDATE wherry_lease SET expires_at = 0");
	return verdict;
}

WHERRY_CASE(a_lease_that_expires_meanwhile_rolls_all_back, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "orders", lose_first);
	handlers_on(f, "paid", handlers_deliver);
	handlers_put(f, "orders", "ab");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 2);
	assert_true(f->n_calls >= 4);
}

static wherry_verdict wait_then_write(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_wait(ctx);
	handlers_leave(ctx, call);
	return handlers_write(ctx, call);
}

WHERRY_CASE(a_handler_whose_lease_is_lost_writes_nothing, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "orders", wait_then_write);
	handlers_relay(f);
	handlers_put(f, "orders", "a");
	HANDLERS_UNTIL(f, handlers_waiting(f) == 1);
	handlers_sql(f, "UPDATE wherry_lease SET epoch = epoch + 1, owner = 'thief', "
			"expires_at = (SELECT ms FROM wherry_clock) + 3600000");
	handlers_open_gate(f);
	HANDLERS_UNTIL(f, wherry_handlers_running(f->pub) == 0);
	assert_memory_equal(f->why, "STALE", 5);
	assert_int_equal(handlers_number(f, orders), 0);
	assert_int_equal(handlers_number(f, done), 0);
}

static wherry_verdict write_then_wait(void *ctx, wherry_call *call)
{
	wherry_verdict verdict;

	handlers_enter(ctx, call);
	if (wherry_call_attempt(call) == 1)
		handlers_wait(ctx);
	verdict = handlers_write(ctx, call);
	handlers_leave(ctx, call);
	return verdict;
}

/* It succeeds, but too late: its message was tried again, or will be. */
static wherry_verdict write_till_late(void *ctx, wherry_call *call)
{
	const struct timespec moment = {0, 200000};
	wherry_verdict verdict;

	handlers_enter(ctx, call);
	verdict = handlers_write(ctx, call);
	while (wherry_call_attempt(call) == 1 && !wherry_call_cancelled(call))
		(void)nanosleep(&moment, NULL);
	handlers_leave(ctx, call);
	return verdict;
}

WHERRY_CASE(a_success_that_comes_too_late_is_rolled_back, handlers_fixture *f)
{
	handlers_set(f, "handlers.timeout", "30ms");
	handlers_set(f, "retry.attempts", "1000"); /* more are late on a busy machine */
	handlers_set(f, "retry.base", "1ms");
	handlers_pool(f);
	handlers_on(f, "orders", write_till_late);
	handlers_put(f, "orders", "a");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 1);
	assert_true(f->n_calls >= 2);
}

/* ---- mistakes ---- */

WHERRY_CASE(without_a_url_there_are_no_transactions, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_open(NULL, f->config, &f->pub, &err));
	handlers_on(f, "orders", write_and_follow);
	handlers_put(f, "orders", "a");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_memory_equal(f->why, "UNSUPPORTED", 11);
	assert_non_null(strstr(f->why, "wherry_handlers_open()"));
}

static wherry_verdict commit_it(void *ctx, wherry_call *call)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	if (wherry_call_begin(call, &db, &err) != WHERRY_OK)
		return WHERRY_REJECTED;
	(void)handlers_call_sql(ctx, db, "COMMIT");
	return WHERRY_DELIVERED;
}

WHERRY_CASE(a_handler_that_ends_the_transaction_itself_fails, handlers_fixture *f)
{
	char why[256];

	handlers_pool(f);
	handlers_on(f, "orders", commit_it);
	handlers_put(f, "orders", "a");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	handlers_text(f, "SELECT last_error FROM outbox", why, sizeof(why));
	assert_non_null(strstr(why, "leave that to its return"));
	assert_int_equal(f->n_calls, 5);
}

static wherry_verdict into_another(void *ctx, wherry_call *call)
{
	const wherry_message next =
		WHERRY_MESSAGE(.topic = "paid", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;

	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	if (wherry_call_enqueue(call, "events", &next, NULL, &err) == WHERRY_OK)
		return WHERRY_DELIVERED;
	wherry_call_reason(call, err.message);
	return WHERRY_REJECTED;
}

WHERRY_CASE(what_follows_may_go_to_another_outbox, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_create(f->db, "events", NULL, &err));
	handlers_pool(f);
	handlers_on(f, "orders", into_another);
	handlers_put(f, "orders", "abc");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM events"), 3);
	assert_int_equal(handlers_number(f, done), 3);
}

/* A relay that ends with calls running: what they had open is rolled back, and the next
 * relay has them handled. */
WHERRY_CASE(a_relay_closed_meanwhile_leaves_nothing_half_done, handlers_fixture *f)
{
	handlers_pool(f);
	handlers_on(f, "orders", write_then_wait);
	handlers_relay(f);
	handlers_put(f, "orders", "ab");
	HANDLERS_UNTIL(f, handlers_waiting(f) == 2);
	wherry_relay_close(f->relay);
	wherry_db_close(f->relay_db);
	f->relay = NULL;
	f->relay_db = NULL;
	handlers_sql(f, "UPDATE wherry_lease SET expires_at = 0; "
			"UPDATE outbox SET next_retry_at = 0 WHERE status = 1");
	handlers_open_gate(f);
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 2);
	assert_int_equal(handlers_number(f, done), 2);
}

/* On a log: as a crash would, before the position was written.  What handlers committed is not handled
 * again, and no mark of them stays. */
WHERRY_CASE(what_a_handler_did_is_not_done_again_after_a_crash, handlers_fixture *f)
{
	handlers_set(f, "relay.table",
		     "outbox/relay"); /* The subscription by its name. */
	handlers_pool(f);
	handlers_on(f, "orders", write_alone);
	handlers_on(f, "slow", write_then_wait);
	handlers_relay(f);
	handlers_put(f, "slow", "z");
	handlers_put(f, "orders", "abc");
	HANDLERS_UNTIL(f, handlers_waiting(f) == 1 && handlers_number(f, orders) == 3);
	assert_int_equal(handlers_number(f, done), 3);
	/* A slow server needs a second to get here, and then the open message is passed. */
	if (!f->base->except)
		assert_int_equal(handlers_number(f, "SELECT high FROM outbox_progress"),
				 0);
	wherry_relay_close(f->relay);
	wherry_db_close(f->relay_db);
	f->relay = NULL;
	f->relay_db = NULL;
	handlers_sql(f, "UPDATE wherry_lease SET expires_at = 0");
	handlers_open_gate(f);
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 4);
	assert_int_equal(handlers_number(f, "SELECT count(DISTINCT id) FROM orders"), 4);
	assert_int_equal(handlers_number(f, done), 4);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM outbox_exception"), 0);
}

const handlers_test handlers_step_tests[] = {
	HANDLERS_TEST(what_a_handler_writes_is_one_with_its_acknowledgement),
	HANDLERS_TEST(the_relay_counts_what_a_handler_acknowledged),
	HANDLERS_TEST(a_handler_that_fails_leaves_nothing),
	HANDLERS_TEST(a_lease_that_expires_meanwhile_rolls_all_back),
	HANDLERS_TEST(a_handler_whose_lease_is_lost_writes_nothing),
	HANDLERS_TEST(a_success_that_comes_too_late_is_rolled_back),
	HANDLERS_TEST(without_a_url_there_are_no_transactions),
	HANDLERS_TEST(a_handler_that_ends_the_transaction_itself_fails),
	HANDLERS_TEST(what_follows_may_go_to_another_outbox),
	HANDLERS_TEST(a_relay_closed_meanwhile_leaves_nothing_half_done),
	HANDLERS_TEST(what_a_handler_did_is_not_done_again_after_a_crash),
	HANDLERS_TESTS_END,
};
