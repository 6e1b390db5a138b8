/*
 * Handlers whose messages come by PostgreSQL's log.  What they write is one with the
 * acknowledgement, so a message is theirs once its row can be seen, and not before.
 */
#include "relay_handlers.h"

#include <wherry/postgres.h>

#include "postgres/server.h"
#include "postgres/unseen.h"
#include "relay/engine/streaming.h"

#define PUT                                                                              \
	"INSERT INTO outbox(topic, partition_key, payload) VALUES ('orders', 'a', '{}')"

static const char orders[] = "SELECT count(*) FROM orders";
static const char done[] = "SELECT count(*) FROM outbox WHERE status = 2";

static bool sql(wherry_db *db, const char *text, char *out, size_t cap)
{
	*out = 0;
	return postgres_exec(wherry_postgres_handle(db), text, out, cap);
}

static wherry_verdict write_it(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_leave(ctx, call);
	return handlers_write(ctx, call);
}

/* Rows come by the log, and by nothing else: the table was read. */
static void stream(handlers_fixture *f, wherry_handler_fn fn)
{
	handlers_set(f, "relay.lease", "1h");
	handlers_set(f, "relay.sweep", "1h");
	handlers_pool(f);
	handlers_on(f, "orders", fn);
	handlers_on(f, "paid", handlers_deliver);
	handlers_relay(f);
	HANDLERS_UNTIL(f, wh_streaming_on(f->relay) &&
				  !wh_reader_of(f->relay)->sweeping &&
				  !wh_reader_of(f->relay)->more &&
				  wh_reader_of(f->relay)->knows_all);
}

static void a_message_that_nobody_sees_yet_is_handled_when_it_is_seen(void **state)
{
	handlers_fixture *f = *state;
	PGconn *unseen = postgres_unseen();

	handlers_sql(f, "SET synchronous_commit = local");
	stream(f, write_it);
	postgres_hold_commits();
	postgres_put_unseen(unseen, PUT);
	handlers_put(f, "orders", "b");
	for (int i = 0; i < 50; i++)
		(void)handlers_step(f);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM orders WHERE id = 1"),
			 0);
	postgres_let_be_seen(unseen);
	HANDLERS_UNTIL(f, handlers_number(f, done) == 2);
	assert_int_equal(f->n_calls, 2);
	assert_int_equal(handlers_number(f, orders), 2);
	assert_int_equal(handlers_number(f, "SELECT sum(attempts) FROM outbox"), 0);
}

static void messages_are_handled_in_the_order_of_commits(void **state)
{
	handlers_fixture *f = *state;
	PGconn *late;

	stream(f, write_it);
	late = postgres_begin(PUT);
	handlers_put(f, "orders", "aa");
	postgres_end(late, "COMMIT");
	handlers_put(f, "orders", "a");
	HANDLERS_UNTIL(f, handlers_number(f, done) == 4);
	assert_int_equal(f->n_calls, 4);
	assert_int_equal(f->calls[0].id, 2);
	assert_int_equal(f->calls[1].id, 3);
	assert_int_equal(f->calls[2].id, 1);
	assert_int_equal(f->calls[3].id, 4);
}

static wherry_verdict write_and_follow(void *ctx, wherry_call *call)
{
	const wherry_message next =
		WHERRY_MESSAGE(.topic = "paid", .key = wherry_call_message(call)->key,
			       .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_verdict verdict = write_it(ctx, call);

	if (verdict == WHERRY_DELIVERED &&
	    wherry_call_enqueue(call, NULL, &next, NULL, &err) != WHERRY_OK)
		verdict = WHERRY_RETRY;
	return wherry_call_attempt(call) == 1 ? WHERRY_RETRY : verdict;
}

/* What was rolled back with the first attempt never comes. */
static void what_a_handler_enqueues_comes_by_the_log_too(void **state)
{
	handlers_fixture *f = *state;

	handlers_set(f, "relay.down_after", "1000");
	stream(f, write_and_follow);
	handlers_put(f, "orders", "abcabc");
	HANDLERS_UNTIL(f, handlers_number(f, done) == 12);
	assert_int_equal(f->n_calls, 18);
	assert_int_equal(handlers_number(f, orders), 6);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM outbox WHERE topic = "
					    "'paid'"),
			 6);
	assert_false(f->overlapped);
}

static wherry_verdict wait_then_write(void *ctx, wherry_call *call)
{
	handlers_enter(ctx, call);
	handlers_wait(ctx);
	handlers_leave(ctx, call);
	return handlers_write(ctx, call);
}

static void a_stream_that_is_cut_meanwhile_has_nothing_handled_twice(void **state)
{
	handlers_fixture *f = *state;

	stream(f, wait_then_write);
	handlers_put(f, "orders", "abcabc");
	HANDLERS_UNTIL(f, handlers_waiting(f) == 3);
	handlers_sql(f, "SELECT pg_terminate_backend(active_pid) FROM "
			"pg_replication_slots WHERE active");
	HANDLERS_UNTIL(f, !wh_streaming_on(f->relay));
	HANDLERS_UNTIL(f, wh_streaming_on(f->relay));
	handlers_put(f, "orders", "ab");
	handlers_open_gate(f);
	HANDLERS_UNTIL(f, handlers_number(f, done) == 8);
	assert_int_equal(f->n_calls, 8);
	assert_int_equal(handlers_number(f, orders), 8);
	assert_false(f->overlapped);
}

static void handlers_are_refused_where_nothing_is_written_to_rows(void **state)
{
	handlers_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	handlers_set(f, "relay.on_done", "keep");
	handlers_pool(f);
	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->relay_db, &err));
	assert_int_equal(
		wherry_relay_open_on(f->relay_db, f->pub, f->config, &f->relay, &err),
		WHERRY_INVALID);
	assert_non_null(strstr(err.message, "use mark or delete"));
}

static const handlers_test own[] = {
	HANDLERS_TEST(a_message_that_nobody_sees_yet_is_handled_when_it_is_seen),
	HANDLERS_TEST(messages_are_handled_in_the_order_of_commits),
	HANDLERS_TEST(what_a_handler_enqueues_comes_by_the_log_too),
	HANDLERS_TEST(a_stream_that_is_cut_meanwhile_has_nothing_handled_twice),
	HANDLERS_TEST(handlers_are_refused_where_nothing_is_written_to_rows),
	HANDLERS_TESTS_END,
};

static void drop(void)
{
	postgres_forget_unseen();
	postgres_leave_slots();
}

int main(void)
{
	static const char *const engines[] = {"stream", NULL};
	static const handlers_base base = {"postgres", engines, postgres_enter, drop, sql,
					   NULL,       NULL};

	return postgres_start_logical() ? handlers_suite(&base, own) : 0;
}
