/*
 * Several at once: groups B and C of the portable checklist.  Each thread has a connection.
 */
#include "delayed_suite.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS_MOST = 10, KEYS = 200 };

typedef struct racer {
	delayed_fixture *f;
	int number;
	wherry_db *db;
	wherry_delayed *queue;
	wherry_code code;
	wherry_error err;
	int outcomes[3]; /* By wherry_offer_outcome. */
	int polled;
	atomic_int *seen; /* How often each key was polled. */
} racer;

static int64_t clock_of(void *ctx)
{
	return ((const delayed_fixture *)ctx)->now_us;
}

/* Run `work` on so many threads, which must all succeed; the racers are filled in. */
static void race(delayed_fixture *f, int n, void *(*work)(void *), racer *racers)
{
	static atomic_int seen[1000];
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t threads[THREADS_MOST];

	for (int i = 0; i < 1000; i++)
		atomic_store(&seen[i], 0);
	for (int i = 0; i < n; i++) {
		racer *r = &racers[i];

		*r = (racer){.f = f, .number = i, .seen = seen};
		r->db = f->backend->connect(f->place);
		assert_non_null(r->db);
		WHERRY_PASS(wherry_delayed_open(r->db, "later", "my-queue",
						"java.lang.String", &r->queue, &err));
		wherry_delayed_set_clock(r->queue, clock_of, f);
	}
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &racers[i]), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < n; i++) {
		wherry_delayed_close(racers[i].queue);
		assert_true(f->backend->disconnect(racers[i].db));
		if (racers[i].code != WHERRY_OK)
			print_error("thread %d: %s\n", i, racers[i].err.message);
		assert_int_equal(racers[i].code, WHERRY_OK);
	}
}

static int sum(const racer *racers, int n, wherry_offer_outcome outcome)
{
	int total = 0;

	for (int i = 0; i < n; i++)
		total += racers[i].outcomes[outcome];
	return total;
}

static void offer(racer *r, const char *key, const char *text, bool if_absent)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = key, .body = text, .body_len = WHERRY_TEXT,
				       .at_us = r->f->now_us, .if_absent = if_absent);
	wherry_offer_outcome outcome = WHERRY_IGNORED;

	r->code = delayed_does.offer(r->queue, &msg, &outcome, &r->err);
	if (r->code == WHERRY_OK)
		r->outcomes[outcome]++;
}

static void *offer_one_key(void *ctx)
{
	racer *r = ctx;

	offer(r, "k", (char[]){'0' + (char)r->number, 0}, false);
	return NULL;
}

static void of_many_offers_of_one_key_one_creates_it(void **state)
{
	racer racers[10];

	race(*state, 10, offer_one_key, racers);
	assert_int_equal(sum(racers, 10, WHERRY_CREATED), 1);
	assert_int_equal(sum(racers, 10, WHERRY_UPDATED), 9);
}

static void *offer_one_key_if_absent(void *ctx)
{
	offer(ctx, "k", "a", true);
	return NULL;
}

static void of_many_offers_if_absent_one_creates_the_key(void **state)
{
	racer racers[10];

	race(*state, 10, offer_one_key_if_absent, racers);
	assert_int_equal(sum(racers, 10, WHERRY_CREATED), 1);
	assert_int_equal(sum(racers, 10, WHERRY_IGNORED), 9);
}

static void *update_often(void *ctx)
{
	racer *r = ctx;
	char text[16];

	for (int i = 0; r->code == WHERRY_OK && i < 10; i++) {
		(void)snprintf(text, sizeof(text), "%d-%d", r->number, i);
		offer(r, "k", text, false);
	}
	return NULL;
}

static void rapid_updates_of_one_key_all_succeed(void **state)
{
	racer racers[10];

	(void)delayed_offer(*state, "k", "a", 0);
	race(*state, 10, update_often, racers);
	assert_int_equal(sum(racers, 10, WHERRY_UPDATED), 100);
}

static wherry_code count_and_ack(void *ctx, const wherry_delayed_message *msg)
{
	racer *r = ctx;
	wherry_ack_outcome outcome = WHERRY_LEASE_LOST;

	atomic_fetch_add(&r->seen[strtol(msg->key, NULL, 10)], 1);
	r->polled++;
	r->code = delayed_does.ack(r->queue, &msg->token, 1, &outcome, &r->err);
	if (r->code == WHERRY_OK && outcome != WHERRY_ACKNOWLEDGED)
		return wherry_error_set(&r->err, WHERRY_STALE, "a lease was lost");
	return r->code;
}

/* Until it finds the queue empty. */
static void *poll_all(void *ctx)
{
	racer *r = ctx;
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = r->number % 2 ? 1 : 7);
	int64_t n = 1;

	while (r->code == WHERRY_OK && n)
		r->code = delayed_does.poll(r->queue, &options, count_and_ack, r, &n,
					    &r->err);
	return NULL;
}

static void *offer_all_if_absent(void *ctx)
{
	racer *r = ctx;
	char key[16];

	for (int i = 0; r->code == WHERRY_OK && i < KEYS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		offer(r, key, "x", true);
	}
	return NULL;
}

/* A consumer that finds only locked rows ends early: the last one finds the rest. */
static void producers_and_consumers_handle_each_message_once(void **state)
{
	racer producers[4], consumers[4], last[1];
	int total = 0;

	race(*state, 4, offer_all_if_absent, producers);
	assert_int_equal(sum(producers, 4, WHERRY_CREATED), KEYS);
	race(*state, 4, poll_all, consumers);
	for (int i = 0; i < 4; i++)
		total += consumers[i].polled;
	for (int i = 0; i < KEYS; i++)
		assert_true(atomic_load(&consumers[0].seen[i]) <= 1);
	race(*state, 1, poll_all, last);
	assert_int_equal(total + last[0].polled, KEYS);
	delayed_counts(*state, "0 0 0 0");
}

/* Batches with the same keys in different orders: C7, and defect 7 of the reference. */
static void *offer_batches(void *ctx)
{
	enum { BATCH = 40, ROUNDS = 20 };
	racer *r = ctx;
	wherry_delayed_message msgs[BATCH];
	char keys[BATCH][16], text[16];

	for (int round = 0; r->code == WHERRY_OK && round < ROUNDS; round++) {
		(void)snprintf(text, sizeof(text), "%d-%d", r->number, round);
		for (int i = 0; i < BATCH; i++) {
			int key = r->number % 2 ? i : BATCH - 1 - i;

			(void)snprintf(keys[i], sizeof(keys[i]), "%d", key);
			msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = text,
							 .body_len = WHERRY_TEXT,
							 .at_us = r->f->now_us,
							 .if_absent = key % 3 == 0);
		}
		r->code = delayed_does.offer_many(r->queue, msgs, BATCH, NULL, &r->err);
	}
	return NULL;
}

static void two_batches_with_the_same_keys_do_not_deadlock(void **state)
{
	racer racers[4];

	race(*state, 4, offer_batches, racers);
	delayed_counts(*state, "40 0 0 0");
}

/* Batches and single offers of the same keys: C4. */
static void *offer_batch_or_singles(void *ctx)
{
	racer *r = ctx;
	char key[16];

	if (r->number == 0)
		return offer_batches(ctx);
	for (int i = 0; r->code == WHERRY_OK && i < 40; i += 2) {
		(void)snprintf(key, sizeof(key), "%d", i);
		offer(r, key, "single", false);
	}
	return NULL;
}

static void a_batch_and_single_offers_of_its_keys_all_succeed(void **state)
{
	racer racers[4];

	race(*state, 4, offer_batch_or_singles, racers);
	delayed_counts(*state, "40 0 0 0");
}

/* C6, and defect 6 of the reference: an offer whose key was dropped meanwhile never ended. */
static void *offer_or_drop(void *ctx)
{
	racer *r = ctx;

	for (int i = 0; r->code == WHERRY_OK && i < 200; i++) {
		if (r->number % 2)
			r->code = delayed_does.drop_key(r->queue, "k", NULL, &r->err);
		else
			offer(r, "k", i % 2 ? "a" : "b", false);
	}
	return NULL;
}

static void an_offer_that_races_a_drop_ends(void **state)
{
	racer racers[4];

	race(*state, 4, offer_or_drop, racers);
	assert_int_equal(racers[0].outcomes[0] + racers[0].outcomes[1] +
				 racers[0].outcomes[2],
			 200);
}

/* Defect 10 of the reference: a poll that reads first and then writes fails under other writers;
 * defect 21: it leased more than it was asked for. */
static void *poll_under_writers(void *ctx)
{
	racer *r = ctx;
	const wherry_poll_options options = WHERRY_POLL_OPTIONS(.limit = 3);
	char key[16];

	for (int i = 0; r->code == WHERRY_OK && i < 100; i++) {
		delayed_got got = {.n = 0};

		(void)snprintf(key, sizeof(key), "%d", r->number * 100 + i);
		offer(r, key, "x", false);
		if (r->code == WHERRY_OK)
			r->code = delayed_does.poll(r->queue, &options, delayed_note,
						    &got, NULL, &r->err);
		if (r->code == WHERRY_OK && got.n > 3)
			r->code = wherry_error_set(&r->err, WHERRY_CORRUPT, "too many");
	}
	return NULL;
}

static void polls_among_writers_succeed_and_lease_no_more_than_asked(void **state)
{
	racer racers[4];

	race(*state, 4, poll_under_writers, racers);
}

static void *create(void *ctx)
{
	racer *r = ctx;

	r->code = wherry_delayed_create(r->db, "made", r->f->layout, &r->err);
	return NULL;
}

static void of_several_that_create_at_once_all_succeed(void **state)
{
	racer racers[4];

	race(*state, 4, create, racers);
}

const delayed_case delayed_races_cases[] = {
	DELAYED_CASE_OF_SEVERAL(of_many_offers_of_one_key_one_creates_it),
	DELAYED_CASE_OF_SEVERAL(of_many_offers_if_absent_one_creates_the_key),
	DELAYED_CASE_OF_SEVERAL(rapid_updates_of_one_key_all_succeed),
	DELAYED_CASE_OF_SEVERAL(producers_and_consumers_handle_each_message_once),
	DELAYED_CASE_OF_SEVERAL(two_batches_with_the_same_keys_do_not_deadlock),
	DELAYED_CASE_OF_SEVERAL(a_batch_and_single_offers_of_its_keys_all_succeed),
	DELAYED_CASE_OF_SEVERAL(an_offer_that_races_a_drop_ends),
	DELAYED_CASE_OF_SEVERAL(polls_among_writers_succeed_and_lease_no_more_than_asked),
	{"of_several_that_create_at_once_all_succeed",
	 of_several_that_create_at_once_all_succeed, true, true},
	{NULL, NULL, false, false},
};
