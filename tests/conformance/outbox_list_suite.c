/*
 * Reading an outbox: for people, and for relays.
 */
#include "outbox_suite.h"

#include "outbox/outbox.h"

#define BIT(state) (1u << (state))

/* Ids 1 to 6: pending, processing, done, failed, dead, pending. */
static void one_of_each(outbox_fixture *f)
{
	assert_int_equal(fixture_send_many(f, 6), 1);
	fixture_try(f, 2);
	fixture_done(f, 3);
	fixture_fail(f, 4, 60000000);
	fixture_kill(f, 5);
}

static int64_t add(outbox_fixture *f, const char *type, const char *aggregate_id,
		   const char *key)
{
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .aggregate_type = type,
			       .aggregate_id = aggregate_id, .key = key, .body = "");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id,
					  &err));
	return id;
}

static int64_t add_named(outbox_fixture *f, const char *message_id)
{
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .message_id = message_id, .body = "");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id,
					  &err));
	return id;
}

/* ---- list ---- */

WHERRY_CASE(rows_are_listed_by_state, outbox_fixture *f)
{
	one_of_each(f);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 2 3 4 5 6");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_PENDING)), "1 6");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_PROCESSING)), "2");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_DONE)), "3");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_FAILED)), "4");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_DEAD)), "5");
	fixture_lists(
		f,
		&WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_DEAD) | BIT(WHERRY_PENDING)),
		"1 5 6");
	fixture_lists(
		f, &WHERRY_OUTBOX_FILTER(.states = BIT(WHERRY_DEAD) | BIT(WHERRY_DONE)),
		"3 5");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = 31), "1 2 3 4 5 6");
}

/* Every filter works with the states that are done and with those that are not, which a
 * database may read in different ways. */
static void lists_both(outbox_fixture *f, wherry_outbox_filter filter, const char *ids)
{
	fixture_lists(f, &filter, ids);
	filter.states = 31u & ~BIT(WHERRY_DONE);
	fixture_lists(f, &filter, ids);
}

WHERRY_CASE(rows_are_listed_by_topic, outbox_fixture *f)
{
	fixture_send(f, "a", NULL);
	fixture_send(f, "b", NULL);
	fixture_send(f, "a", NULL);
	fixture_send(f, "A", NULL);
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic = "a"), "1 3");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic = "%"), "");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic = ""), "");
}

WHERRY_CASE(rows_are_listed_by_the_beginning_of_a_topic, outbox_fixture *f)
{
	fixture_send(f, "orders.eu", NULL);
	fixture_send(f, "orders", NULL);
	fixture_send(f, "invoices", NULL);
	fixture_send(f, "Orders", NULL);
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic_prefix = "orders"), "1 2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic_prefix = "orders."), "1");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic_prefix = "%"), "");
}

WHERRY_CASE(rows_are_listed_from_the_newest_down, outbox_fixture *f)
{
	fixture_send_many(f, 5);
	lists_both(f, WHERRY_OUTBOX_FILTER(.newest = true), "5 4 3 2 1");
	lists_both(f, WHERRY_OUTBOX_FILTER(.newest = true, .limit = 2), "5 4");
	lists_both(f, WHERRY_OUTBOX_FILTER(.newest = true, .limit = 2, .before_id = 4),
		   "3 2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.newest = true, .topic_prefix = "none"), "");
}

static void add_text(outbox_fixture *f, const char *topic, const char *body)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = topic, .message_id = body + 2,
					    .body = body, .body_len = strlen(body));
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					  &err));
}

WHERRY_CASE(rows_are_listed_by_a_text_in_them, outbox_fixture *f)
{
	add_text(f, "orders", "{\"who\":\"Zo\u00eb\"}");
	add_text(f, "invoices", "{\"for\":\"orders\"}");
	add_text(f, "other", "{\"n\":17}");
	lists_both(f, WHERRY_OUTBOX_FILTER(.text = "orders"), "1 2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.text = "Zo\u00eb"), "1");
	lists_both(f, WHERRY_OUTBOX_FILTER(.text = "17", .newest = true), "3");
	lists_both(f, WHERRY_OUTBOX_FILTER(.text = "%"), "");
	lists_both(f, WHERRY_OUTBOX_FILTER(.text = "orders", .topic = "invoices"), "2");
}

WHERRY_CASE(rows_are_listed_by_the_key_a_broker_sees, outbox_fixture *f)
{
	add(f, "order", "42", NULL);
	add(f, "invoice", "42", NULL);
	add(f, "order", "42", "k");
	add(f, "order", "7", "42");
	add(f, NULL, NULL, NULL);
	lists_both(f, WHERRY_OUTBOX_FILTER(.key = "42"), "1 2 4");
	lists_both(f, WHERRY_OUTBOX_FILTER(.key = "k"), "3");
	lists_both(f, WHERRY_OUTBOX_FILTER(.key = "order"), "");
	lists_both(f, WHERRY_OUTBOX_FILTER(.key = "7"), "");
}

WHERRY_CASE(rows_are_listed_by_age, outbox_fixture *f)
{
	fixture_send_many(f, 3);
	fixture_raw(f,
		    "UPDATE outbox SET created_at = created_at - 3600000 WHERE id = 2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.since_us = 60000000), "1 3");
	lists_both(f, WHERRY_OUTBOX_FILTER(.since_us = 3700000000), "1 2 3");
	lists_both(f, WHERRY_OUTBOX_FILTER(.older_us = 60000000), "2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.older_us = 3700000000), "");
}

WHERRY_CASE(rows_are_listed_by_ident, outbox_fixture *f)
{
	add_named(f, "a");
	add_named(f, "b");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "b"), "2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "1"), "1");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "A"), "");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "1x"), "");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = ""), "");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "99999999999999999999"), "");
}

WHERRY_CASE(a_message_id_wins_over_a_number, outbox_fixture *f)
{
	add_named(f, "2");
	add_named(f, "1");
	add_named(f, "x");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "2"), "1");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "1"), "2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.ident = "3"), "3");
}

WHERRY_CASE(conditions_are_joined_by_and, outbox_fixture *f)
{
	fixture_send(f, "a", "k");
	fixture_send(f, "a", "l");
	fixture_send(f, "b", "k");
	fixture_send(f, "a", "k");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic = "a", .key = "k"), "1 4");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic = "a", .key = "k", .after_id = 1), "4");
	lists_both(f, WHERRY_OUTBOX_FILTER(.topic = "b", .ident = "1"), "");
}

WHERRY_CASE(a_list_is_read_page_by_page, outbox_fixture *f)
{
	fixture_send_many(f, 5);
	lists_both(f, WHERRY_OUTBOX_FILTER(.limit = 2), "1 2");
	lists_both(f, WHERRY_OUTBOX_FILTER(.limit = 2, .after_id = 2), "3 4");
	lists_both(f, WHERRY_OUTBOX_FILTER(.limit = 2, .after_id = 4), "5");
	lists_both(f, WHERRY_OUTBOX_FILTER(.limit = 2, .after_id = 5), "");
}

WHERRY_CASE(rows_are_listed_in_id_order_whatever_their_state, outbox_fixture *f)
{
	fixture_send_many(f, 6);
	fixture_kill(f, 1);
	fixture_fail(f, 2, 0);
	fixture_try(f, 4);
	fixture_kill(f, 6);
	lists_both(f, WHERRY_OUTBOX_FILTER(), "1 2 3 4 5 6");
	lists_both(f, WHERRY_OUTBOX_FILTER(.limit = 3), "1 2 3");
}

static wherry_code count_rows(void *ctx, const wherry_row *row)
{
	++*(int *)ctx;
	return WHERRY_OK;
}

WHERRY_CASE(without_a_limit_a_hundred_are_listed, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER();
	int n = 0;

	for (int i = 0; i < 5; i++)
		fixture_raw(f,
			    "INSERT INTO outbox(topic, payload) VALUES ('t', ''), ('t', "
			    "''), ('t', ''), ('t', ''), ('t', ''), ('t', ''), ('t', '')");
	for (int i = 0; i < 2; i++)
		fixture_raw(f, "INSERT INTO outbox(topic, payload) SELECT topic, payload "
			       "FROM outbox");
	WHERRY_PASS(wherry_outbox_list(f->outbox, &filter, count_rows, &n, &err));
	assert_int_equal(n, 100);
	n = 0;
	filter.limit = 1000;
	WHERRY_PASS(wherry_outbox_list(f->outbox, &filter, count_rows, &n, &err));
	assert_int_equal(n, 140);
}

static wherry_code stop_at_two(void *ctx, const wherry_row *row)
{
	int *n = ctx;

	return ++*n == 2 ? WHERRY_TIMEOUT : WHERRY_OK;
}

WHERRY_CASE(a_visitor_s_code_ends_the_list_and_is_returned, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int n = 0;

	fixture_send_many(f, 3);
	WHERRY_FAILS(WHERRY_TIMEOUT,
		     wherry_outbox_list(f->outbox, &WHERRY_OUTBOX_FILTER(), stop_at_two,
					&n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(err.code, WHERRY_TIMEOUT);
	/* and leaves nothing locked */
	fixture_send(f, "t", NULL);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 2 3 4");
	n = 1;
	WHERRY_FAILS(WHERRY_TIMEOUT,
		     wherry_outbox_show(f->outbox, "1", stop_at_two, &n, &err));
}

/* ---- show ---- */

typedef struct seen {
	int64_t id, held_by, parked_by;
	wherry_state state;
} seen;

static wherry_code take_seen(void *ctx, const wherry_row *row)
{
	*(seen *)ctx = (seen){row->message->id, row->held_by, row->parked_by, row->state};
	return WHERRY_OK;
}

static seen show(outbox_fixture *f, const char *ident)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen out = {0};

	WHERRY_PASS(wherry_outbox_show(f->outbox, ident, take_seen, &out, &err));
	return out;
}

WHERRY_CASE(a_row_is_shown_by_message_id_or_number, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	seen out = {0};

	add_named(f, "a");
	add_named(f, "1");
	add_named(f, "c");
	assert_int_equal(show(f, "a").id, 1);
	assert_int_equal(show(f, "1").id, 2); /* the message_id wins */
	assert_int_equal(show(f, "2").id, 2);
	assert_int_equal(show(f, "3").id, 3);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_show(f->outbox, "4", take_seen, &out, &err));
	assert_non_null(strstr(err.message, "'4'"));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_show(f->outbox, "", take_seen, &out, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_show(f->outbox, NULL, take_seen, &out, &err));
	assert_int_equal(out.id, 0);
}

static int64_t held_by(outbox_fixture *f, int64_t id)
{
	char ident[24];

	(void)snprintf(ident, sizeof(ident), "%lld", (long long)id);
	return show(f, ident).held_by;
}

WHERRY_CASE(a_message_is_held_by_the_first_open_one_of_its_key, outbox_fixture *f)
{
	add(f, NULL, NULL, "k");
	add(f, NULL, NULL, "l");
	add(f, NULL, NULL, "k");
	add(f, NULL, NULL, "k");
	add(f, NULL, NULL, "K");
	assert_int_equal(held_by(f, 1), 0);
	assert_int_equal(held_by(f, 2), 0);
	assert_int_equal(held_by(f, 3), 1);
	assert_int_equal(held_by(f, 4), 1);
	assert_int_equal(held_by(f, 5), 0);
	fixture_fail(f, 1, 60000000);
	assert_int_equal(held_by(f, 4), 1);
	fixture_done(f, 1);
	assert_int_equal(held_by(f, 3), 0);
	assert_int_equal(held_by(f, 4), 3);
	fixture_kill(f, 3);
	assert_int_equal(held_by(f, 4), 0);
}

WHERRY_CASE(without_a_key_the_aggregate_s_pair_holds, outbox_fixture *f)
{
	add(f, "order", "1", NULL);
	add(f, "orde", "r1", NULL); /* another pair */
	add(f, "order", "1", NULL);
	add(f, "order", "1", "1"); /* a key of its own */
	add(f, NULL, NULL, NULL);  /* not ordered */
	add(f, NULL, NULL, NULL);
	add(f, "order", NULL, NULL);
	add(f, "order", NULL, NULL);
	add(f, NULL, "order", NULL);
	add(f, NULL, "1", NULL);
	add(f, NULL, "1", NULL);
	assert_int_equal(held_by(f, 2), 0);
	assert_int_equal(held_by(f, 3), 1);
	assert_int_equal(held_by(f, 4), 0);
	assert_int_equal(held_by(f, 6), 0);
	assert_int_equal(held_by(f, 8), 7);
	assert_int_equal(held_by(f, 9), 0);
	assert_int_equal(held_by(f, 11), 10);
}

static int64_t parked_by(outbox_fixture *f, int64_t id)
{
	char ident[24];

	(void)snprintf(ident, sizeof(ident), "%lld", (long long)id);
	return show(f, ident).parked_by;
}

WHERRY_CASE(an_open_message_names_the_first_dead_one_of_its_key, outbox_fixture *f)
{
	add(f, NULL, NULL, "k");
	add(f, NULL, NULL, "k");
	add(f, NULL, NULL, "k");
	add(f, NULL, NULL, "K");
	add(f, "order", "1", NULL);
	add(f, "orde", "r1", NULL);
	add(f, "order", "1", NULL);
	add(f, NULL, NULL, NULL);
	add(f, NULL, NULL, NULL);
	assert_int_equal(parked_by(f, 3), 0);
	fixture_kill(f, 2);
	fixture_kill(f, 5);
	fixture_kill(f, 8);
	assert_int_equal(parked_by(f, 1), 2); /* a park looks at no order */
	assert_int_equal(parked_by(f, 2), 0); /* itself */
	assert_int_equal(parked_by(f, 3), 2);
	assert_int_equal(parked_by(f, 4), 0);
	assert_int_equal(parked_by(f, 6), 0);
	assert_int_equal(parked_by(f, 7), 5);
	assert_int_equal(parked_by(f, 9), 0);
	fixture_done(f, 3);
	assert_int_equal(parked_by(f, 3), 0); /* has left */
}

/* ---- counts and ages ---- */

WHERRY_CASE(rows_are_counted_by_state, outbox_fixture *f)
{
	static const int64_t wanted[] = {2, 1, 1, 1, 1};
	int64_t count[WHERRY_STATE_COUNT];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;
	wh_backlog backlog;

	WHERRY_PASS(wherry_outbox_count(f->outbox, count, &err));
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		assert_int_equal(count[i], 0);
	one_of_each(f);
	WHERRY_PASS(wherry_outbox_count(f->outbox, count, &err));
	assert_memory_equal(count, wanted, sizeof(wanted));
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_memory_equal(status.count, wanted, sizeof(wanted));
	assert_int_equal(status.ready, 2);
	WHERRY_PASS(wh_outbox_backlog(f->outbox, &backlog, &err));
	assert_int_equal(backlog.pending, 2);
	assert_int_equal(backlog.processing, 1);
	assert_int_equal(backlog.failed, 1);
	assert_int_equal(backlog.dead, 1);
	assert_true(backlog.oldest_ready_us >= 0);
}

static int64_t oldest(outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;
	int64_t age = -7;

	WHERRY_PASS(wherry_outbox_oldest_ready(f->outbox, &age, &err));
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_in_range((uint64_t)(status.oldest_ready_us - age + 1000000), 1000000,
			30000000);
	return age / 60000000; /* minutes */
}

WHERRY_CASE(the_age_is_of_the_oldest_that_may_leave_now, outbox_fixture *f)
{
	assert_int_equal(oldest(f), 0);
	fixture_send_many(f, 5);
	fixture_raw(f, "UPDATE outbox SET created_at = created_at - (100 - id) * 60000");
	assert_int_equal(oldest(f), 99);
	fixture_fail(f, 1, 60000000); /* waits for its retry */
	assert_int_equal(oldest(f), 98);
	fixture_done(f, 2);
	fixture_kill(f, 3);
	assert_int_equal(oldest(f), 96);
	fixture_raw(
		f,
		"UPDATE outbox SET next_retry_at = next_retry_at - 60000 WHERE id = 1");
	assert_int_equal(oldest(f), 99); /* due */
	fixture_done(f, 1);
	fixture_done(f, 4);
	fixture_done(f, 5);
	assert_int_equal(oldest(f), 0);
}

WHERRY_CASE(a_hundred_that_are_held_do_not_hide_the_oldest_that_may_leave,
	    outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;

	for (int i = 0; i < 101; i++)
		fixture_send(f, "t", "held");
	fixture_raw(f, "UPDATE outbox SET created_at = created_at - 3600000");
	fixture_fail(f, 1, 60000000);
	assert_int_equal(oldest(f), 0);
	fixture_send(f, "t", "other");
	fixture_raw(f,
		    "UPDATE outbox SET created_at = created_at - 600000 WHERE id = 102");
	assert_int_equal(oldest(f), 10);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status, sizeof(status), &err));
	assert_int_equal(status.ready, 1);
}

WHERRY_CASE(messages_that_are_due_again_are_ready, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;

	fixture_send_many(f, 3);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.ready, 3);
	fixture_fail(f, 1, 0);
	fixture_fail(f, 2, 60000000);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.ready, 2);
}

/* ---- what relays read ---- */

static wherry_code put_open(void *ctx, const wh_open_row *row, wherry_error *err)
{
	wh_buf *out = ctx;

	wh_buf_printf(out, out->len ? " %lld" : "%lld", (long long)row->id);
	return WHERRY_OK;
}

/* Which rows a read visits: 'p'ending, all 'o'pen, or those 'd'ead. */
static void reads(outbox_fixture *f, char what, int64_t after, int64_t limit,
		  const char *ids)
{
	wh_buf out = WH_BUF_INIT(4096);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(what == 'd' ? wh_outbox_dead_keys(f->outbox, UINT64_MAX, after, limit,
						      put_open, &out, &err)
				: wh_outbox_read(f->outbox, UINT64_MAX, after, limit,
						 put_open, &out, &err));
	assert_string_equal(wh_buf_str(&out), ids);
	wh_buf_clear(&out);
}

WHERRY_CASE(a_relay_reads_the_keys_of_the_dead, outbox_fixture *f)
{
	fixture_send_many(f, 4);
	fixture_kill(f, 2);
	fixture_kill(f, 4);
	reads(f, 'd', 0, 100, "2 4");
	reads(f, 'd', 2, 100, "4");
	reads(f, 'd', 0, 1, "2");
}

WHERRY_CASE(a_relay_asks_whether_anything_is_open, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t last = -7;
	bool any = true;

	WHERRY_PASS(wh_store_last_open(&f->outbox->store, &last, &err));
	assert_int_equal(last, 0);
	WHERRY_PASS(wh_store_open_upto(&f->outbox->store, INT64_MAX, &any, &err));
	assert_false(any);
	one_of_each(f);
	fixture_done(f, 6);
	fixture_done(f, 1);
	WHERRY_PASS(wh_store_last_open(&f->outbox->store, &last, &err));
	assert_int_equal(last, 4);
	for (int64_t id = 0; id < 7; id++) {
		WHERRY_PASS(wh_store_open_upto(&f->outbox->store, id, &any, &err));
		assert_int_equal(any, id >= 2);
	}
}

const outbox_case outbox_list_cases[] = {
	CASE(rows_are_listed_by_state),
	CASE(rows_are_listed_by_the_beginning_of_a_topic),
	CASE(rows_are_listed_from_the_newest_down),
	CASE(rows_are_listed_by_a_text_in_them),
	CASE(rows_are_listed_by_topic),
	CASE(rows_are_listed_by_the_key_a_broker_sees),
	CASE(rows_are_listed_by_age),
	CASE(rows_are_listed_by_ident),
	CASE(a_message_id_wins_over_a_number),
	CASE(conditions_are_joined_by_and),
	CASE(a_list_is_read_page_by_page),
	CASE(rows_are_listed_in_id_order_whatever_their_state),
	CASE(without_a_limit_a_hundred_are_listed),
	CASE(a_visitor_s_code_ends_the_list_and_is_returned),
	CASE(a_row_is_shown_by_message_id_or_number),
	CASE(a_message_is_held_by_the_first_open_one_of_its_key),
	CASE(an_open_message_names_the_first_dead_one_of_its_key),
	CASE(without_a_key_the_aggregate_s_pair_holds),
	CASE(rows_are_counted_by_state),
	CASE(the_age_is_of_the_oldest_that_may_leave_now),
	CASE_THAT_NEEDS(a_hundred_that_are_held_do_not_hide_the_oldest_that_may_leave,
			NEEDS_KEYS),
	CASE(messages_that_are_due_again_are_ready),
	CASE(a_relay_reads_the_keys_of_the_dead),
	CASE(a_relay_asks_whether_anything_is_open),
	{NULL, NULL, 0},
};
