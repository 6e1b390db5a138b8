/*
 * Handlers that write in the transaction of the acknowledgement, with each database call
 * failing in turn that the relay or the handler makes, before it is made or only its
 * answer: in the end each message is handled, and what its handler wrote is there once.
 */
#include <poll.h>

#include <wherry/handlers.h>
#include <wherry/queue.h>
#include <wherry/wherry.h>

#include "fault.h"

enum { MESSAGES = 2, STEPS = 20000, TRIES = 400 };

typedef struct handling {
	wherry_temp temp;
	char url[160];
	wherry_config *config;
	wherry_db *db;
	wherry_publisher *pub;
	wherry_relay *relay;
	fault_plan plan;
} handling;

static wherry_verdict follow(void *ctx, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);
	const wherry_message next =
		WHERRY_MESSAGE(.topic = "e", .key = msg->key, .body = msg->message_id,
			       .body_len = strlen(msg->message_id));
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_call_enqueue(call, "events", &next, NULL, &err) == WHERRY_OK)
		return WHERRY_DELIVERED;
	wherry_call_reason(call, err.message);
	return WHERRY_RETRY;
}

static void set(handling *h, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(h->config, key, value, &err));
}

static const char *const ids[MESSAGES] = {"m1", "m2"};

static void enqueue(handling *h)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_create(h->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(h->db, "outbox", &outbox, &err));
	for (int i = 0; i < MESSAGES; i++) {
		const wherry_message msg =
			WHERRY_MESSAGE(.message_id = ids[i], .topic = "t",
				       .key = i ? "a" : "b", .body = "", .body_len = 0);

		WHERRY_PASS(wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION,
						  NULL, &err));
	}
	wherry_outbox_close(outbox);
}

/* Whose relays compete. */
static void send(handling *h)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	WHERRY_PASS(wherry_queue_create(h->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_open(h->db, "outbox", &queue, &err));
	for (int i = 0; i < MESSAGES; i++) {
		const wherry_queue_message msg =
			WHERRY_QUEUE_MESSAGE(.message_id = ids[i], .topic = "t",
					     .body = "", .body_len = 0);

		WHERRY_PASS(wherry_queue_send(queue, &msg, NULL, &err));
	}
	wherry_queue_close(queue);
}

static void begin(handling *h, const char *model)
{
	wherry_error err = WHERRY_ERROR_INIT;

	fault_rewind();
	(void)snprintf(h->url, sizeof(h->url), "sqlite:%s",
		       wherry_temp_make(&h->temp, "shop.db"));
	WHERRY_PASS(wherry_config_new(&h->config, &err));
	set(h, "db.create", "on");
	set(h, "handlers.threads", "2");
	set(h, "retry.attempts", "100");
	WHERRY_PASS(wherry_db_open(h->url, h->config, &h->db, &err));
	WHERRY_PASS(wherry_outbox_create(h->db, "events", NULL, &err));
	if (strcmp(model, "queue") == 0)
		send(h);
	else
		enqueue(h);
	WHERRY_PASS(wherry_handlers_open(h->url, h->config, &h->pub, &err));
	WHERRY_PASS(wherry_handlers_on(h->pub, "t", follow, NULL, &err));
	WHERRY_PASS(wherry_relay_open_on(h->db, h->pub, h->config, &h->relay, &err));
}

static void end(handling *h)
{
	wherry_relay_close(h->relay);
	wherry_publisher_close(h->pub);
	wherry_db_close(h->db);
	wherry_config_free(h->config);
	wherry_temp_clear(&h->temp);
}

/* The clock stands while a handler runs: its time is not what is tested here. */
static void wait_a_little(handling *h, int64_t wake_us)
{
	struct pollfd fds[WHERRY_RELAY_FDS];
	size_t n = wherry_relay_fds(h->relay, fds);

	if (poll(fds, (nfds_t)n, wherry_handlers_running(h->pub) ? 1 : 0) == 0 &&
	    !wherry_handlers_running(h->pub) && wake_us > fault_clock_us &&
	    wake_us != WH_NEVER)
		fault_clock_us = wake_us;
}

static void run(handling *h)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool finished = false;

	wherry_relay_target(h->relay, WHERRY_UNTIL_EMPTY);
	for (int i = 0; i < STEPS && !finished; i++) {
		int64_t wake_us = 0;

		WHERRY_PASS(wherry_relay_step(h->relay, &wake_us, &finished, &err));
		if (!finished)
			wait_a_little(h, wake_us);
	}
	if (!finished)
		fail_msg("failed %s: it does not end", fault_where());
}

static int64_t number(handling *h, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *handle = NULL;
	int64_t n = -1;

	assert_int_equal(sqlite3_open(h->temp.path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL), SQLITE_OK);
	if (sqlite3_step(stmt) == SQLITE_ROW)
		n = sqlite3_column_int64(stmt, 0);
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
	return n;
}

static int64_t n_open(handling *h, const char *model)
{
	if (strcmp(model, "queue") == 0)
		return number(h, "SELECT count(*) FROM outbox");
	return number(
		h, "SELECT (SELECT count(*) FROM outbox, outbox_progress WHERE id > high)"
		   " + (SELECT count(*) FROM outbox_exception WHERE state <> 2)");
}

static void check(handling *h, const char *model)
{
	int64_t left = n_open(h, model);
	int64_t all = number(h, "SELECT count(*) FROM events");
	int64_t each = number(h, "SELECT count(DISTINCT payload) FROM events");

	if (left || all != MESSAGES || each != MESSAGES)
		fail_msg("failed %s, %d in a row: %d open, %d rows, of %d messages",
			 fault_where(), h->plan.n, (int)left, (int)all, (int)each);
}

/* From the first call on to where none is left that could fail. */
static void sweep(const char *model, fault_kind kind, wherry_code with, int n)
{
	handling h = {.plan = {.kind = kind, .with = with, .n = n}};
	bool hit = true;

	for (int at = 1; hit && at < TRIES; at++) {
		h.plan.at = at;
		begin(&h, model);
		fault_arm(h.plan);
		run(&h);
		hit = fault_hit();
		fault_disarm();
		check(&h, model);
		end(&h);
	}
	assert_false(hit);
}

static void whatever_call_fails_each_is_handled_once(void **state)
{
	sweep(*state, FAULT_DATABASE, WHERRY_BUSY, 1);
	sweep(*state, FAULT_DATABASE, WHERRY_IO, 3);
}

static void whatever_answer_is_lost_each_is_handled_once(void **state)
{
	sweep(*state, FAULT_ANSWER, WHERRY_INDOUBT, 1);
	sweep(*state, FAULT_ANSWER, WHERRY_IO, 3);
}

/* Was a commit met of which none but the answer was lost, so that nothing was retried? */
static bool one_is_uncounted(const char *model)
{
	handling h = {.plan = {.kind = FAULT_ANSWER, .with = WHERRY_INDOUBT, .n = 1}};
	wherry_relay_stats stats;
	bool hit = true, not_counted = false;

	for (int at = 1; hit && at < TRIES; at++) {
		h.plan.at = at;
		begin(&h, model);
		fault_arm_for(h.plan, "commit");
		run(&h);
		hit = fault_hit();
		wherry_relay_get_stats(h.relay, &stats, sizeof(wherry_relay_stats));
		not_counted |= hit && !stats.retried;
		fault_disarm();
		end(&h);
	}
	return not_counted;
}

/*
 * A commit whose answer alone is lost is found out to have been made.  (Where it is that of
 * the savepoint inside, all is rolled back, and the attempt counts; and so it does where the
 * relay and a handler were in each other's way, which they may be, but not each time.)
 */
static void a_lost_answer_counts_no_attempt(void **state)
{
	enum { ROUNDS = 20 };
	int round = 0;

	while (round < ROUNDS && !one_is_uncounted(*state))
		round++;
	assert_true(round < ROUNDS);
}

int main(void)
{
	static char outbox[] = "outbox", queue[] = "queue";
	const struct CMUnitTest tests[] = {
		{"outbox: whatever_call_fails_each_is_handled_once",
		 whatever_call_fails_each_is_handled_once, NULL, NULL, outbox},
		{"queue: whatever_call_fails_each_is_handled_once",
		 whatever_call_fails_each_is_handled_once, NULL, NULL, queue},
		{"outbox: whatever_answer_is_lost_each_is_handled_once",
		 whatever_answer_is_lost_each_is_handled_once, NULL, NULL, outbox},
		{"queue: whatever_answer_is_lost_each_is_handled_once",
		 whatever_answer_is_lost_each_is_handled_once, NULL, NULL, queue},
		{"outbox: a_lost_answer_counts_no_attempt",
		 a_lost_answer_counts_no_attempt, NULL, NULL, outbox},
	};

	fault_set_up();
	return cmocka_run_group_tests_name("handlers", tests, NULL, NULL);
}
