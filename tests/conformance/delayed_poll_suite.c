/*
 * Polling: groups A and E of the portable checklist.
 */
#include "delayed_suite.h"

static void an_empty_queue_has_nothing_to_poll(void **state)
{
	(void)delayed_polls(*state, 1, "");
	(void)delayed_polls(*state, 10, "");
}

static void a_due_message_is_polled(void **state)
{
	const delayed_got *got;

	(void)delayed_offer(*state, "k", "a", -10);
	got = delayed_polls(*state, 1, "a");
	assert_string_equal(got->keys, "k");
	assert_int_equal(got->attempts[0], 1);
	assert_false(got->redelivery[0]);
	(void)delayed_polls(*state, 1, "");
}

static void a_future_message_is_not_polled(void **state)
{
	(void)delayed_offer(*state, "k", "a", 10);
	(void)delayed_polls(*state, 1, "");
	delayed_counts(*state, "0 0 1 0");
}

static void a_message_is_due_at_its_very_time(void **state)
{
	(void)delayed_offer(*state, "k", "a", 10);
	delayed_pass(*state, 9.999);
	(void)delayed_polls(*state, 1, "");
	delayed_pass(*state, 0.001);
	(void)delayed_polls(*state, 1, "a");
}

static void a_poll_takes_at_most_its_limit(void **state)
{
	for (int i = 0; i < 10; i++)
		(void)delayed_offer(*state, (char[]){'0' + (char)i, 0}, "x", -10 + i);
	(void)delayed_polls(*state, 5, "x x x x x");
	(void)delayed_polls(*state, 10, "x x x x x");
}

WHERRY_CASE(a_limit_out_of_range_is_refused_and_polls_nothing, delayed_fixture *f)
{
	const wherry_poll_options wrong[] = {WHERRY_POLL_OPTIONS(.limit = -1),
					     WHERRY_POLL_OPTIONS(.limit = 10001),
					     WHERRY_POLL_OPTIONS(.lease_us = -1),
					     WHERRY_POLL_OPTIONS(.max_attempts = -1),
					     {.limit = 1}};
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};

	(void)delayed_offer(f, "a", "1", -2);
	(void)delayed_offer(f, "b", "2", -1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     delayed_does.poll(f->queue, &wrong[i], delayed_note, &got,
					       NULL, &err));
	assert_int_equal(got.n, 0);
	(void)delayed_polls(f, 3, "1 2");
}

/* Also defect 9 of the reference: a batch came in the order of ids. */
static void messages_are_polled_in_the_order_of_their_times(void **state)
{
	(void)delayed_offer(*state, "a", "3", 3);
	(void)delayed_offer(*state, "b", "1", 1);
	(void)delayed_offer(*state, "c", "2", 2);
	delayed_pass(*state, 4);
	(void)delayed_polls(*state, 1, "1");
	(void)delayed_polls(*state, 9, "2 3");
}

/* Defect 17 of the reference: equal times had no order. */
WHERRY_CASE(messages_of_one_time_are_polled_in_the_order_they_were_offered,
	    delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_message msgs[] = {
		WHERRY_DELAYED_MESSAGE(.key = "b", .body = "3", .body_len = 1,
				       .at_us = f->now_us),
		WHERRY_DELAYED_MESSAGE(.key = "a", .body = "4", .body_len = 1,
				       .at_us = f->now_us),
		WHERRY_DELAYED_MESSAGE(.key = "c", .body = "5", .body_len = 1,
				       .at_us = f->now_us),
	};

	(void)delayed_offer(f, "z", "1", 0);
	(void)delayed_offer(f, "y", "2", 0);
	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs, 3, NULL, &err));
	(void)delayed_polls(f, 1, "1");
	(void)delayed_polls(f, 9, "2 3 4 5");
}

static void a_message_is_redelivered_when_its_lease_ends(void **state)
{
	const delayed_got *got;

	(void)delayed_offer(*state, "k", "a", 0);
	assert_false(delayed_polls(*state, 1, "a")->redelivery[0]);
	delayed_pass(*state, 4.9);
	(void)delayed_polls(*state, 1, "");
	delayed_counts(*state, "0 1 0 0");
	delayed_pass(*state, 0.1);
	got = delayed_polls(*state, 1, "a");
	assert_true(got->redelivery[0]);
	assert_int_equal(got->attempts[0], 2);
}

static void a_batch_says_of_each_message_whether_it_was_redelivered(void **state)
{
	const delayed_got *got;

	(void)delayed_offer(*state, "a", "1", -2);
	(void)delayed_offer(*state, "b", "2", -1);
	(void)delayed_polls(*state, 1, "1");
	delayed_pass(*state, 6);
	got = delayed_polls(*state, 10, "2 1");
	assert_false(got->redelivery[0]);
	assert_true(got->redelivery[1]);
}

/* Defect 2 of the reference: a batch was always a redelivery. */
static void a_batch_of_fresh_messages_is_a_first_delivery(void **state)
{
	const delayed_got *got;

	(void)delayed_offer(*state, "a", "1", -2);
	(void)delayed_offer(*state, "b", "2", 0);
	got = delayed_polls(*state, 10, "1 2");
	assert_false(got->redelivery[0]);
	assert_false(got->redelivery[1]);
}

/* As the library whose tables these are does: it counts no attempts. */
WHERRY_CASE(a_message_that_another_program_polled_is_a_redelivery, delayed_fixture *f)
{
	(void)delayed_offer(f, "k", "a", -10);
	delayed_raw(f, "UPDATE later SET \"scheduledAt\" = \"scheduledAt\" + 5000, "
		       "\"lockUuid\" = 'b7c0e5a2-6a0e-4a0e-9d43-0a8f6b1a3c11'");
	assert_true(delayed_polls(f, 1, "a")->redelivery[0]);
}

/* Message i is due i seconds before the last one; each is named by its number. */
static void offer_so_many(delayed_fixture *f, int n, bool backwards)
{
	wherry_delayed_message msgs[250] = {{.size = 0}};
	wherry_error err = WHERRY_ERROR_INIT;
	char texts[250][16];

	for (int place = 0; place < n; place++) {
		int i = backwards ? n - 1 - place : place;

		(void)snprintf(texts[place], sizeof(texts[place]), "%d", i);
		msgs[place] =
			WHERRY_DELAYED_MESSAGE(.key = texts[place], .body = texts[place],
					       .body_len = WHERRY_TEXT,
					       .at_us = f->now_us -
							(int64_t)(n - i) * SECOND_US);
	}
	WHERRY_PASS(delayed_does.offer_many(f->queue, msgs, (size_t)n, NULL, &err));
}

static void large_batch(delayed_fixture *f, int n, bool backwards)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome out[250];
	const char *tokens[250];
	const delayed_got *got;
	char wanted[2000] = "";

	offer_so_many(f, n, backwards);
	for (int i = 0; i < n; i++)
		(void)snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted),
			       i ? " %d" : "%d", i);
	got = delayed_polls(f, n, wanted);
	for (int i = 0; i < n; i++)
		tokens[i] = got->tokens[i];
	WHERRY_PASS(delayed_does.ack(f->queue, tokens, (size_t)n, out, &err));
	for (int i = 0; i < n; i++)
		assert_int_equal(out[i], WHERRY_ACKNOWLEDGED);
	delayed_pass(f, 600);
	(void)delayed_polls(f, n, "");
}

static void batches_of_50_100_and_250_are_polled_whole_and_in_order(void **state)
{
	large_batch(*state, 50, false);
	large_batch(*state, 100, false);
	large_batch(*state, 250, false);
}

static void a_batch_offered_backwards_is_polled_in_order(void **state)
{
	large_batch(*state, 250, true);
}

/* Defect 5 of the reference: a body that could not be read was met again by each poll. */
static void poison_does_not_block_what_is_behind_it(void **state)
{
	(void)delayed_offer(*state, "bad", "\xff\xfe", -10);
	(void)delayed_offer(*state, "good", "2", -5);
	(void)delayed_polls(*state, 1, "\xff\xfe");
	(void)delayed_polls(*state, 1, "2");
}

WHERRY_CASE(a_rolled_back_poll_never_was, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)delayed_offer(f, "k", "a", 0);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	(void)delayed_polls(f, 1, "a");
	wherry_db_rollback(f->db);
	assert_int_equal(delayed_polls(f, 1, "a")->attempts[0], 1);
}

WHERRY_CASE(without_a_clock_of_the_caller_the_databases_counts, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_message now =
		WHERRY_DELAYED_MESSAGE(.key = "now", .body = "1", .body_len = 1);
	const wherry_delayed_message later =
		WHERRY_DELAYED_MESSAGE(.key = "later", .body = "2", .body_len = 1,
				       .delay_us = 3600LL * SECOND_US);

	wherry_delayed_set_clock(f->queue, NULL, NULL);
	WHERRY_PASS(delayed_does.offer(f->queue, &now, NULL, &err));
	WHERRY_PASS(delayed_does.offer(f->queue, &later, NULL, &err));
	assert_true(delayed_int(f, "SELECT count(*) FROM later WHERE \"createdAt\" > "
				   "1750000000000") == 2);
	(void)delayed_polls(f, 9, "1");
	delayed_counts(f, "0 1 1 0");
}

/* Two queues of one table, and two types of one queue, have their own keys. */
WHERRY_CASE(queues_of_one_table_do_not_see_each_other, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *first = f->queue, *other = NULL;

	assert_string_equal(wherry_delayed_kind(f->queue),
			    "7ab2b0dfa43e1a1f12169da88468fb53");
	WHERRY_PASS(wherry_delayed_open(f->db, "later", "my-queue", NULL, &other, &err));
	assert_string_not_equal(wherry_delayed_kind(other), wherry_delayed_kind(first));
	(void)delayed_offer(f, "k", "1", 0);
	f->queue = other;
	assert_false(delayed_has(f, "k"));
	assert_int_equal(delayed_offer_absent(f, "k", "2", -1000000000), WHERRY_CREATED);
	f->queue = first;
	(void)delayed_polls(f, 9, "1");
	f->queue = other;
	(void)delayed_polls(f, 9, "2");
	f->queue = first;
	wherry_delayed_close(other);
}

/* Group B of the checklist: k1 to k4, two of them due. */
static void fill(delayed_fixture *f)
{
	assert_int_equal(delayed_offer(f, "k1", "1", -20), WHERRY_CREATED);
	assert_int_equal(delayed_offer(f, "k2", "2", -20), WHERRY_CREATED);
	assert_int_equal(delayed_offer(f, "k3", "3", 3600), WHERRY_CREATED);
	assert_int_equal(delayed_offer(f, "k4", "4", 3600), WHERRY_CREATED);
	assert_int_equal(delayed_offer_absent(f, "k1", "x", -10), WHERRY_IGNORED);
	assert_int_equal(delayed_offer_absent(f, "k3", "x", -10), WHERRY_IGNORED);
	assert_int_equal(delayed_offer(f, "k2", "2b", -10), WHERRY_UPDATED);
	assert_int_equal(delayed_offer(f, "k4", "4b", 3600), WHERRY_UPDATED);
	(void)delayed_polls(f, 1, "1");
	(void)delayed_polls(f, 1, "2b");
	(void)delayed_polls(f, 1, "");
	assert_true(delayed_has(f, "k3") && delayed_has(f, "k4"));
}

static int64_t stand(void *ctx)
{
	return ((delayed_fixture *)ctx)->now_us;
}

WHERRY_CASE(tables_work_independently, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *first = f->queue, *second = NULL;
	int64_t n = -7;

	WHERRY_PASS(wherry_delayed_create(f->db, "other", f->layout, &err));
	WHERRY_PASS(wherry_delayed_open(f->db, "other", "my-queue", "java.lang.String",
					&second, &err));
	wherry_delayed_set_clock(second, stand, f);
	fill(f);
	f->queue = second;
	fill(f);
	WHERRY_PASS(wherry_delayed_drop_all(first, WHERRY_DELAYED_DROP_ALL, &n, &err));
	assert_int_equal(n, 4);
	delayed_counts(f, "0 2 2 0");
	WHERRY_PASS(wherry_delayed_drop_all(second, WHERRY_DELAYED_DROP_ALL, &n, &err));
	assert_int_equal(n, 4);
	f->queue = first;
	wherry_delayed_close(second);
}

const delayed_case delayed_poll_cases[] = {
	DELAYED_CASE(an_empty_queue_has_nothing_to_poll),
	DELAYED_CASE(a_due_message_is_polled),
	DELAYED_CASE(a_future_message_is_not_polled),
	DELAYED_CASE(a_message_is_due_at_its_very_time),
	DELAYED_CASE(a_poll_takes_at_most_its_limit),
	DELAYED_CASE(a_limit_out_of_range_is_refused_and_polls_nothing),
	DELAYED_CASE(messages_are_polled_in_the_order_of_their_times),
	DELAYED_CASE(messages_of_one_time_are_polled_in_the_order_they_were_offered),
	DELAYED_CASE(a_message_is_redelivered_when_its_lease_ends),
	DELAYED_CASE(a_batch_says_of_each_message_whether_it_was_redelivered),
	DELAYED_CASE(a_batch_of_fresh_messages_is_a_first_delivery),
	DELAYED_CASE(a_message_that_another_program_polled_is_a_redelivery),
	DELAYED_CASE(batches_of_50_100_and_250_are_polled_whole_and_in_order),
	DELAYED_CASE(a_batch_offered_backwards_is_polled_in_order),
	DELAYED_CASE(poison_does_not_block_what_is_behind_it),
	DELAYED_CASE(a_rolled_back_poll_never_was),
	DELAYED_CASE(without_a_clock_of_the_caller_the_databases_counts),
	DELAYED_CASE(queues_of_one_table_do_not_see_each_other),
	DELAYED_OWNER_CASE(tables_work_independently),
	{NULL, NULL, false, false},
};
