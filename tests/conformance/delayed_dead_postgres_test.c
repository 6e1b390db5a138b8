/*
 * Messages of delayed queues on PostgreSQL that become dead, while others replace or retry them.
 */
#include "delayed_suite.h"

#include <pthread.h>

#include "db/trace.h"
#include "delayed/delayed.h"
#include "store/claims.h"
#include "store/leases.h"
#include "store/settlement.h"

#include "postgres/backends.h"
#include "postgres/delayed.h"
#include "postgres/server.h"

/* What a relay writes of a message that it gives up. */
typedef struct giving_up {
	wherry_delayed *queue;
	wherry_lease lease;
	int64_t id;
	wh_settled settled;
	wherry_code code;
	wherry_error err;
} giving_up;

static wherry_code take_claimed(void *ctx, int64_t id, const wh_row *row,
				wherry_error *err)
{
	((giving_up *)ctx)->id = id;
	return WHERRY_OK;
}

/* Claim the one message that is due. */
static void claim(giving_up *g)
{
	const wherry_claim_options options =
		WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = 3600LL * SECOND_US);
	const wh_claim_ask ask = {.lease = &g->lease,
				  .options = &options,
				  .text_most = 1000,
				  .body_most = 1000,
				  .visit = take_claimed,
				  .ctx = g};
	wherry_error err = WHERRY_ERROR_INIT;
	bool more;

	WHERRY_PASS(wh_store_join_as(&g->queue->store, "a", SECOND_US, &g->lease, &err));
	WHERRY_PASS(wh_store_claim(&g->queue->store, &ask, &more, &err));
	assert_true(g->id > 0);
}

static void *give_up(void *ctx)
{
	giving_up *g = ctx;
	const wherry_failure failure =
		WHERRY_FAILURE(.id = g->id, .dead = true, .error = "no route");
	const wh_settlement s = {.failed = &failure, .n_failed = 1};

	g->err = (wherry_error)WHERRY_ERROR_INIT;
	g->code = wh_store_settle(&g->queue->store, &g->lease, &s, &g->settled, &g->err);
	return NULL;
}

static void offer_due(wherry_delayed *queue, const char *body)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = "a", .body = body, .body_len = WHERRY_TEXT,
				       .at_us = SECOND_US);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_delayed_offer(queue, &msg, NULL, &err));
}

/* The relay gives the message up while an open transaction offers its key again. */
static void replace_while_it_dies(wherry_db *db, const char *layout)
{
	wherry_error err = WHERRY_ERROR_INIT;
	giving_up g = {.id = 0};
	wherry_delayed *others = NULL;
	wherry_db *other = NULL;
	delayed_got got = {.n = 0};
	pthread_t thread;

	WHERRY_PASS(wherry_delayed_create(db, layout, layout, &err));
	WHERRY_PASS(wherry_delayed_open(db, layout, "mail", NULL, &g.queue, &err));
	WHERRY_PASS(wherry_db_open(postgres_here.url, NULL, &other, &err));
	WHERRY_PASS(wherry_delayed_open(other, layout, "mail", NULL, &others, &err));
	offer_due(others, "old");
	claim(&g);
	WHERRY_PASS(wherry_db_begin(other, &err));
	offer_due(others, "new");
	assert_int_equal(pthread_create(&thread, NULL, give_up, &g), 0);
	postgres_await_lock();
	WHERRY_PASS(wherry_db_commit(other, &err));
	assert_int_equal(pthread_join(thread, NULL), 0);
	WHERRY_PASS(g.code);
	assert_int_equal(g.settled.n, 0);
	WHERRY_PASS(wherry_delayed_list_dead(others, 0, 0, delayed_note, &got, &err));
	assert_string_equal(got.text, "");
	WHERRY_PASS(wherry_delayed_poll(others, NULL, delayed_note, &got, NULL, &err));
	assert_string_equal(got.text, "new");
	wherry_delayed_close(others);
	wherry_db_close(other);
	wherry_delayed_close(g.queue);
}

WHERRY_TEST(a_message_that_is_replaced_while_it_dies_lives)
{
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	replace_while_it_dies(db, "native");
	replace_while_it_dies(db, "funfix");
	postgres_delayed_leave(db, queue);
}

/* An earlier version could leave a dead message under the id of one that lives. */
static void leave_dead(void)
{
	postgres_says("INSERT INTO delayed_dead(id, \"pKey\", \"pKind\", payload, "
		      "\"scheduledAtInitially\", \"createdAt\", attempts, died_at, "
		      "last_error) SELECT id, 'stale', \"pKind\", 'stale', 1, 1, 9, 1, "
		      "'stale' FROM delayed",
		      "");
}

/* The one dead message is this one, and no longer the one that was left. */
static void is_dead(const char *wanted)
{
	postgres_says("SELECT concat_ws(' ', \"pKey\", convert_from(payload, 'UTF8'), "
		      "attempts, last_error) FROM delayed_dead",
		      wanted);
	postgres_says("SELECT count(*) FROM delayed", "0");
	postgres_says("DELETE FROM delayed_dead", "");
}

WHERRY_TEST(a_message_that_dies_in_sql_replaces_a_dead_one_of_its_id)
{
	wherry_db *db;
	wherry_delayed *queue = postgres_delayed_enter(&db);

	postgres_says(
		"SELECT wherry_offer('mail', 'a', 'a function', at => '2020-01-01')",
		"created");
	leave_dead();
	postgres_says("SELECT wherry_delayed_dead_letter('mail', token, 'no') FROM "
		      "wherry_poll('mail')",
		      "acknowledged");
	is_dead("a a function 1 no");
	postgres_says("SELECT wherry_offer('mail', 'a', 'a poll', at => '2020-01-01')",
		      "created");
	postgres_says("UPDATE delayed SET attempts = 5, last_error = 'no'", "");
	leave_dead();
	postgres_says("SELECT count(*) FROM wherry_poll('mail', max_attempts => 5)", "0");
	is_dead("a a poll 5 no");
	postgres_delayed_leave(db, queue);
}

/* A relay makes messages dead again, as soon as they are retried. */
static wherry_code bury_again(void *ctx, const char *op, const char *what,
			      wherry_code code, int64_t took_us, wherry_error *err)
{
	int *n_commits = ctx;

	if (strcmp(op, "commit") != 0)
		return code;
	if (++*n_commits > 5)
		return wherry_error_set(err, WHERRY_INTERRUPTED, "it does not end");
	postgres_says(
		"WITH gone AS (DELETE FROM delayed RETURNING *) INSERT INTO delayed_dead "
		"SELECT id, \"pKey\", \"pKind\", payload, \"scheduledAtInitially\", "
		"\"createdAt\", 1, 1, 'no route' FROM gone",
		"");
	return code;
}

WHERRY_TEST(a_message_that_dies_again_is_retried_once_in_a_call)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wherry_db *inner = NULL, *db = NULL;
	char url[200];
	int n_commits = 0;
	const wh_trace trace = {.after = bury_again, .ctx = &n_commits};
	int64_t n = 0;

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &inner, &err));
	WHERRY_PASS(wherry_delayed_create(inner, NULL, NULL, &err));
	postgres_says("SELECT count(wherry_offer('mail', 'k' || i, 'x')) FROM "
		      "generate_series(1, 1500) AS i",
		      "1500");
	WHERRY_PASS(wh_db_trace(inner, &trace, &db, &err));
	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &queue, &err));
	(void)bury_again(&n_commits, "commit", "", WHERRY_OK, 0, &err);
	n_commits = 0;
	WHERRY_PASS(wherry_delayed_retry(queue, 0, &n, &err));
	assert_int_equal(n, 1500);
	assert_int_equal(n_commits, 3); /* the last found none */
	wherry_delayed_close(queue);
	wherry_db_close(db);
	postgres_leave();
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
