/*
 * The pool of functions as a destination, with a clock that stands until a test moves it.
 */
#include "publish_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/handlers.h>

#include "publish/handlers/handlers.h"

/* ---- the clock ---- */

static _Atomic int64_t clock_us;

static int64_t now_us(void *ctx)
{
	return atomic_load(&clock_us);
}

static const wh_env env = {.now_us = now_us, .monotonic_us = now_us};

/* ---- handlers that a test holds ---- */

typedef struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int inside, began, ended;
	int most; /* that were inside at once */
	int let;  /* may end though it is not open */
	bool open;
	bool cancelled;      /* as the last one that left saw it */
	wherry_verdict says; /* that */
} gate;

/* Static, as functions may have it when a test is over. */
static gate *new_gate(void)
{
	static gate gates[64];
	static int next;
	gate *g = &gates[next++ % 64];

	*g = (gate){.lock = PTHREAD_MUTEX_INITIALIZER,
		    .changed = PTHREAD_COND_INITIALIZER,
		    .says = WHERRY_DELIVERED};
	return g;
}

static wherry_verdict pass(void *ctx, wherry_call *call)
{
	gate *g = ctx;
	wherry_verdict verdict;

	(void)pthread_mutex_lock(&g->lock);
	g->inside++;
	g->began++;
	if (g->inside > g->most)
		g->most = g->inside;
	(void)pthread_cond_broadcast(&g->changed);
	while (!g->open && !g->let)
		(void)pthread_cond_wait(&g->changed, &g->lock);
	g->let -= g->let > 0;
	g->inside--;
	g->ended++;
	g->cancelled = wherry_call_cancelled(call);
	verdict = g->says;
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
	return verdict;
}

static void open_gate(gate *g)
{
	(void)pthread_mutex_lock(&g->lock);
	g->open = true;
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
}

static void let_end(gate *g, int n)
{
	(void)pthread_mutex_lock(&g->lock);
	g->let += n;
	(void)pthread_cond_broadcast(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
}

static void await_began(gate *g, int n)
{
	(void)pthread_mutex_lock(&g->lock);
	while (g->began < n)
		(void)pthread_cond_wait(&g->changed, &g->lock);
	(void)pthread_mutex_unlock(&g->lock);
}

static void await_ended(gate *g, int n)
{
	(void)pthread_mutex_lock(&g->lock);
	while (g->ended < n)
		(void)pthread_cond_wait(&g->changed, &g->lock);
	(void)pthread_mutex_unlock(&g->lock);
}

static int began(gate *g)
{
	int n;

	(void)pthread_mutex_lock(&g->lock);
	n = g->began;
	(void)pthread_mutex_unlock(&g->lock);
	return n;
}

static wherry_verdict deliver(void *ctx, wherry_call *call)
{
	return WHERRY_DELIVERED;
}

/* ---- pools ---- */

static wherry_publisher *open_pool(const char *threads, const char *stop_timeout)
{
	const char *const settings[][2] = {{"handlers.threads", threads},
					   {"handlers.timeout", "10s"},
					   {"relay.stop_timeout", stop_timeout}};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	wherry_config *config = NULL;

	atomic_store(&clock_us, 1000 * WH_SECOND);
	WHERRY_PASS(wherry_config_new(&config, &err));
	for (size_t i = 0; i < 3; i++)
		WHERRY_PASS(
			wherry_config_set(config, settings[i][0], settings[i][1], &err));
	WHERRY_PASS(wh_handlers_open(NULL, config, &env, &pub, &err));
	wherry_config_free(config);
	return pub;
}

static void on(wherry_publisher *pub, const char *topic, wherry_handler_fn fn, void *ctx)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_on(pub, topic, fn, ctx, &err));
}

/* A message of a topic and a key, with this id. */
static wherry_message made(int64_t id, const char *topic, const char *key)
{
	wherry_message m = message("body");

	m.id = id;
	m.topic = topic;
	m.key = key;
	return m;
}

static wherry_verdict only(wherry_publisher *pub, const wherry_message *msg)
{
	wh_receipt receipt;

	submit_one(pub, msg);
	collect(pub, &receipt, 1);
	assert_ptr_equal(receipt.message, msg);
	return receipt.verdict;
}

static void pass_time(int64_t us)
{
	atomic_fetch_add(&clock_us, us);
}

static size_t collect_now(wherry_publisher *pub, wh_receipt *out, size_t cap)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t n = 0;

	WHERRY_PASS(wh_publisher_collect(pub, out, cap, &n, &err));
	return n;
}

/* ---- registering ---- */

WHERRY_TEST_WITH(a_second_handler_of_a_topic_is_refused_by_name, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "1s");
	wherry_error err = WHERRY_ERROR_INIT;

	on(pub, "orders", deliver, NULL);
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_handlers_on(pub, "orders", deliver, NULL, &err));
	assert_non_null(strstr(err.message, "'orders'"));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_handlers_once(pub, "orders", deliver, NULL, &err));
	WHERRY_PASS(wherry_handlers_off(pub, "orders", &err));
	WHERRY_PASS(wherry_handlers_once(pub, "orders", deliver, NULL, &err));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(only_one_handler_takes_the_others, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "1s");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_others(pub, deliver, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_others(pub, deliver, NULL, &err));
	WHERRY_PASS(wherry_handlers_off(pub, NULL, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_handlers_off(pub, NULL, &err));
	WHERRY_PASS(wherry_handlers_others(pub, deliver, NULL, &err));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(what_is_no_handler_is_refused, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "1s"), *null = open_url("null:");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_on(pub, "t", NULL, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_on(pub, "", deliver, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_on(pub, NULL, deliver, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_on(null, "t", deliver, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_on(NULL, "t", deliver, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_use(null, deliver, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_off(null, "t", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_handlers_off(pub, "t", &err));
	assert_int_equal(wherry_handlers_running(null), 0);
	wherry_publisher_close(null);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(many_topics_are_told_apart, set_up, tear_down)
{
	enum { TOPICS = 100 };
	wherry_publisher *pub = open_pool("2", "1s");
	wherry_error err = WHERRY_ERROR_INIT;
	gate *gates[TOPICS];
	char topic[16];

	for (int i = 0; i < TOPICS; i++) {
		(void)snprintf(topic, sizeof(topic), "t%d", i * 37 % TOPICS);
		gates[i] = calloc(1, sizeof(**gates));
		assert_non_null(gates[i]);
		*gates[i] = (gate){.lock = PTHREAD_MUTEX_INITIALIZER,
				   .changed = PTHREAD_COND_INITIALIZER,
				   .open = true,
				   .says = WHERRY_DELIVERED};
		on(pub, topic, pass, gates[i]);
	}
	WHERRY_PASS(wherry_handlers_off(pub, "t37", &err)); /* i == 1 */
	for (int i = 0; i < TOPICS; i++) {
		wherry_message m = made(i + 1, topic, NULL);

		(void)snprintf(topic, sizeof(topic), "t%d", i * 37 % TOPICS);
		assert_int_equal(only(pub, &m), i == 1 ? WHERRY_RETRY : WHERRY_DELIVERED);
	}
	wherry_publisher_close(pub);
	for (int i = 0; i < TOPICS; i++) {
		assert_int_equal(gates[i]->ended, i != 1);
		free(gates[i]);
	}
}

/* ---- time limits ---- */

WHERRY_TEST_WITH(a_call_over_its_time_is_answered_and_cancelled, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "5s");
	wherry_message m = made(1, "t", "k");
	gate *g = new_gate();
	wh_receipt receipt;

	on(pub, "t", pass, g);
	submit_one(pub, &m);
	await_began(g, 1);
	assert_int_equal(wh_publisher_deadline(pub), 1010 * WH_SECOND);
	assert_int_equal(collect_now(pub, &receipt, 1), 0);
	pass_time(10 * WH_SECOND);
	assert_int_equal(collect_now(pub, &receipt, 1), 1);
	assert_ptr_equal(receipt.message, &m);
	assert_int_equal(receipt.verdict, WHERRY_UNKNOWN);
	assert_string_equal(receipt.reason, "timed out after 10s");
	assert_int_equal(wherry_handlers_running(pub), 1);
	open_gate(g);
	await_ended(g, 1);
	assert_true(g->cancelled);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_late_answer_is_given_to_nobody, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("1", "5s");
	wherry_message m = made(1, "t", "k"), again = m;
	wh_receipt receipts[2];
	gate *g = new_gate();

	g->says = WHERRY_REJECTED;
	on(pub, "t", pass, g);
	submit_one(pub, &m);
	await_began(g, 1);
	pass_time(10 * WH_SECOND);
	assert_int_equal(collect_now(pub, receipts, 2), 1);
	submit_one(pub, &again); /* waits for the one that runs */
	assert_int_equal(collect_now(pub, receipts, 2), 0);
	assert_int_equal(began(g), 1);
	open_gate(g);
	collect(pub, receipts, 1);
	assert_ptr_equal(receipts[0].message, &again);
	assert_int_equal(collect_now(pub, receipts, 2), 0);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(others_go_on_in_place_of_one_that_hangs, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("1", "5s");
	wherry_message hung = made(1, "hang", "a"), fine = made(2, "t", "b");
	gate *g = new_gate();
	wh_receipt receipt;

	on(pub, "hang", pass, g);
	on(pub, "t", deliver, NULL);
	submit_one(pub, &hung);
	await_began(g, 1);
	submit_one(pub, &fine);
	assert_int_equal(collect_now(pub, &receipt, 1), 0);
	pass_time(10 * WH_SECOND);
	assert_int_equal(collect_now(pub, &receipt, 1), 1);
	assert_ptr_equal(receipt.message, &hung);
	collect(pub, &receipt, 1);
	assert_ptr_equal(receipt.message, &fine);
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	open_gate(g);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(when_every_thread_hangs_messages_fail_in_time, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("1", "5s");
	wherry_message m[3] = {made(1, "t", "a"), made(2, "t", "b"), made(3, "t", "c")};
	gate *g = new_gate();
	wh_receipt receipt;

	on(pub, "t", pass, g);
	for (int i = 0; i < 2; i++) { /* the thread, and the one in its place */
		submit_one(pub, &m[i]);
		await_began(g, i + 1);
		pass_time(10 * WH_SECOND);
		assert_int_equal(collect_now(pub, &receipt, 1), 1);
	}
	submit_one(pub, &m[2]);
	assert_int_equal(wh_publisher_deadline(pub),
			 atomic_load(&clock_us) + 10 * WH_SECOND);
	assert_int_equal(collect_now(pub, &receipt, 1), 0);
	pass_time(10 * WH_SECOND);
	assert_int_equal(collect_now(pub, &receipt, 1), 1);
	assert_ptr_equal(receipt.message, &m[2]);
	assert_int_equal(receipt.verdict, WHERRY_RETRY);
	assert_true(receipt.own);
	assert_int_equal(began(g), 2);
	open_gate(g);
	await_ended(g, 2);
	assert_int_equal(only(pub, &m[2]), WHERRY_DELIVERED); /* all is well again */
	wherry_publisher_close(pub);
}

/* ---- cancelling, dropping, closing ---- */

WHERRY_TEST_WITH(cancelling_gives_back_what_has_not_begun, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("1", "5s");
	wherry_message m[3] = {made(1, "t", "a"), made(2, "t", "b"), made(3, "t", "c")};
	gate *g = new_gate();
	wh_receipt receipts[3];

	g->says = WHERRY_RETRY;
	on(pub, "t", pass, g);
	for (int i = 0; i < 3; i++)
		submit_one(pub, &m[i]);
	await_began(g, 1);
	wh_publisher_cancel(pub);
	assert_int_equal(collect_now(pub, receipts, 3), 2);
	for (int i = 0; i < 2; i++) {
		assert_ptr_equal(receipts[i].message, &m[i + 1]);
		assert_int_equal(receipts[i].verdict, WHERRY_THROTTLED);
	}
	open_gate(g);
	collect(pub, receipts, 1);
	assert_int_equal(receipts[0].verdict, WHERRY_THROTTLED); /* it gave up for us */
	assert_true(g->cancelled);
	assert_int_equal(began(g), 1);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_call_that_ends_well_though_cancelled_is_delivered, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("1", "5s");
	wherry_message m = made(1, "t", "a");
	gate *g = new_gate();
	wh_receipt receipt;

	on(pub, "t", pass, g);
	submit_one(pub, &m);
	await_began(g, 1);
	wh_publisher_cancel(pub);
	open_gate(g);
	collect(pub, &receipt, 1);
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(what_is_dropped_yields_no_receipt_and_is_not_touched, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("1", "5s");
	wherry_message *lent = malloc(sizeof(*lent) * 2), after = made(3, "t", "c");
	gate *g = new_gate();
	wh_receipt receipt;

	assert_non_null(lent);
	lent[0] = made(1, "t", "a");
	lent[1] = made(2, "t", "b");
	on(pub, "t", pass, g);
	submit_one(pub, &lent[0]);
	submit_one(pub, &lent[1]);
	await_began(g, 1);
	wh_publisher_drop(pub);
	free(lent);
	open_gate(g);
	assert_int_equal(only(pub, &after), WHERRY_DELIVERED);
	assert_int_equal(collect_now(pub, &receipt, 1), 0);
	assert_int_equal(began(g), 2);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(closing_waits_for_what_runs, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "30s");
	wherry_message m = made(1, "t", "a");
	gate *g = new_gate();

	on(pub, "t", pass, g);
	submit_one(pub, &m);
	await_began(g, 1);
	open_gate(g);
	wherry_publisher_close(pub);
	assert_int_equal(g->ended, 1); /* unlocked: nobody else is left */
}

WHERRY_TEST_WITH(closing_does_not_wait_for_ever, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "0");
	wherry_message m = made(1, "t", "a");
	gate *g = new_gate();

	on(pub, "t", pass, g);
	submit_one(pub, &m);
	await_began(g, 1);
	wherry_publisher_close(pub);
	open_gate(g); /* it has all it needs yet */
	await_ended(g, 1);
	assert_true(g->cancelled);
}

/* ---- how much ---- */

WHERRY_TEST_WITH(no_more_is_taken_than_there_is_room_for, set_up, tear_down)
{
	enum { MANY = WH_CALLS_MOST + 100 };
	static wherry_message msgs[MANY];
	static const wherry_message *list[MANY];
	static wh_receipt receipts[MANY];
	wherry_publisher *pub = open_pool("3", "5s");
	gate *g = new_gate();
	size_t taken;

	on(pub, "t", pass, g);
	for (int i = 0; i < MANY; i++) {
		msgs[i] = made(i + 1, "t", NULL);
		list[i] = &msgs[i];
	}
	taken = submit(pub, list, MANY);
	assert_int_equal(taken, WH_CALLS_MOST);
	assert_int_equal(submit(pub, list + taken, MANY - taken), 0);
	open_gate(g);
	collect(pub, receipts, taken);
	assert_int_equal(submit(pub, list + taken, MANY - taken), MANY - taken);
	collect(pub, receipts, MANY - taken);
	assert_int_equal(began(g), MANY);
	wherry_publisher_close(pub);
}

/* ---- registering while calls run ---- */

/* Registers and removes; returns NULL if something failed. */
static void *change(void *arg)
{
	wherry_publisher *pub = arg;
	char topic[16];
	bool well = true;

	for (int i = 0; i < 200; i++) {
		(void)snprintf(topic, sizeof(topic), "other%d", i % 20);
		if (i / 20 % 2)
			well &= wherry_handlers_off(pub, topic, NULL) == WHERRY_OK;
		else
			well &= wherry_handlers_on(pub, topic, deliver, NULL, NULL) ==
				WHERRY_OK;
	}
	return well ? pub : NULL;
}

static wherry_verdict around(void *ctx, wherry_call *call)
{
	atomic_fetch_add((_Atomic int *)ctx, 1);
	return wherry_call_next(call);
}

WHERRY_TEST_WITH(handlers_may_come_and_go_while_others_run, set_up, tear_down)
{
	enum { MANY = 500 };
	static wherry_message msgs[MANY];
	wherry_publisher *pub = open_pool("4", "5s");
	wherry_error err = WHERRY_ERROR_INIT;
	_Atomic int seen = 0;
	wh_receipt receipt;
	pthread_t thread;
	void *well;

	on(pub, "t", deliver, NULL);
	assert_int_equal(pthread_create(&thread, NULL, change, pub), 0);
	for (int i = 0; i < MANY; i++) {
		msgs[i] = made(i + 1, "t", NULL);
		if (i % 100 == 0)
			WHERRY_PASS(wherry_handlers_use(pub, around, &seen, &err));
		submit_one(pub, &msgs[i]);
		collect(pub, &receipt, 1);
		assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	}
	assert_int_equal(pthread_join(thread, &well), 0);
	assert_ptr_equal(well, pub);
	assert_int_equal(atomic_load(&seen), 100 * (1 + 2 + 3 + 4 + 5));
	wherry_publisher_close(pub);
}

static void set_threads(wherry_publisher *pub, int32_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_set_threads(pub, n, &err));
}

/* Wait until no more threads are left. */
static void await_threads(wherry_publisher *pub, size_t n)
{
	wh_handlers *pool = (wh_handlers *)pub;

	(void)pthread_mutex_lock(&pool->lock);
	while (pool->n_live > n)
		(void)pthread_cond_wait(&pool->ended, &pool->lock);
	assert_int_equal(pool->n_live, n);
	(void)pthread_mutex_unlock(&pool->lock);
}

WHERRY_TEST_WITH(the_number_of_threads_changes_while_functions_run, set_up, tear_down)
{
	enum { MANY = 30 };
	static wherry_message msgs[MANY];
	static wh_receipt receipts[MANY];
	wherry_publisher *pub = open_pool("5", "5s");
	gate *g = new_gate();

	on(pub, "t", pass, g);
	for (int i = 0; i < MANY; i++) {
		msgs[i] = made(i + 1, "t", NULL);
		submit_one(pub, &msgs[i]);
	}
	await_began(g, 5);
	assert_int_equal(wherry_handlers_running(pub), 5);
	set_threads(pub, 10);
	await_began(g, 10);
	assert_int_equal(g->most, 10);
	set_threads(pub, 2);
	let_end(g, 8);
	await_ended(g, 8);
	await_threads(pub, 2);
	assert_int_equal(began(g), 10);
	assert_int_equal(wherry_handlers_running(pub), 2);
	g->most = 0; /* Both that run wait for the gate. */
	let_end(g, 2);
	await_began(g, 12);
	open_gate(g);
	collect(pub, receipts, MANY);
	assert_int_equal(began(g), MANY);
	assert_int_equal(g->most, 2);
	set_threads(pub, 1);
	await_threads(pub, 1); /* It idles. */
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_number_of_threads_out_of_range_is_refused, set_up, tear_down)
{
	wherry_publisher *pub = open_pool("2", "1s"), *null = open_url("null:");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_set_threads(pub, 0, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_set_threads(pub, -1, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_set_threads(pub, 257, &err));
	assert_non_null(strstr(err.message, "handlers.threads"));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_set_threads(null, 2, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_handlers_set_threads(NULL, 2, &err));
	wherry_publisher_close(null);
	wherry_publisher_close(pub);
}

WHERRY_TEST_MAIN
