/*
 * The archive: delivered messages that were moved out of the outbox, to be looked at,
 * delivered once more, or deleted.
 */
#include "outbox_suite.h"

#include "outbox/outbox.h"

static wherry_filter sized(wherry_filter filter)
{
	filter.size = sizeof(filter);
	return filter;
}

static void archive(outbox_fixture *f, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = fixture_lease(f, "a");

	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, &id, 1, WHERRY_ARCHIVE, NULL,
				       &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
}

/* In the archive: 1 (a, topic t, key k), 2 (b, t, l), 3 (c, u, k), 4 (d, u, l), delivered
 * two, one, one and no hours ago.  In the outbox: 5 (e, t, k), pending; 6 (g, t, k), done. */
static void four_archived(outbox_fixture *f)
{
	assert_int_equal(fixture_send_named(f, "a", "t", "k"), 1);
	fixture_send_named(f, "b", "t", "l");
	fixture_send_named(f, "c", "u", "k");
	fixture_send_named(f, "d", "u", "l");
	fixture_send_named(f, "e", "t", "k");
	fixture_send_named(f, "g", "t", "k");
	for (int64_t id = 1; id <= 4; id++)
		archive(f, id);
	fixture_done(f, 6);
	fixture_raw(f, "UPDATE outbox_archive SET processed_at = processed_at - "
		       "CASE id WHEN 1 THEN 7200000 WHEN 4 THEN 0 ELSE 3600000 END");
}

static void lists_archived(outbox_fixture *f, wherry_filter filter, const char *ids)
{
	filter.archived = true;
	fixture_lists(f, &filter, ids);
}

/* ---- looking ---- */

static void the_archive_is_listed_when_asked_for(void **state)
{
	outbox_fixture *f = *state;

	four_archived(f);
	fixture_lists(f, &WHERRY_FILTER(), "5 6");
	lists_archived(f, WHERRY_FILTER(), "1 2 3 4");
	lists_archived(f, WHERRY_FILTER(.topic = "t"), "1 2");
	lists_archived(f, WHERRY_FILTER(.key = "k"), "1 3");
	lists_archived(f, WHERRY_FILTER(.topic = "u", .key = "k"), "3");
	lists_archived(f, WHERRY_FILTER(.ident = "c"), "3");
	lists_archived(f, WHERRY_FILTER(.ident = "2"), "2");
	lists_archived(f, WHERRY_FILTER(.ident = "e"), "");
	lists_archived(f, WHERRY_FILTER(.limit = 2), "1 2");
	lists_archived(f, WHERRY_FILTER(.limit = 2, .after_id = 2), "3 4");
	lists_archived(f, WHERRY_FILTER(.states = 1u << WHERRY_DONE), "1 2 3 4");
	lists_archived(f, WHERRY_FILTER(.states = 1u << WHERRY_PENDING), "");
	fixture_raw(f, "UPDATE outbox_archive SET created_at = created_at - 3600000 "
		       "WHERE id <> 3");
	lists_archived(f, WHERRY_FILTER(.since_us = 60000000), "3");
}

static wherry_code keep_row(void *ctx, const wherry_row *row)
{
	static wherry_message message; /* until the next row is shown */
	wherry_row *out = ctx;

	*out = *row;
	message = *row->message;
	assert_string_equal(row->message->body, "");
	message.topic = strcmp(row->message->topic, "t") == 0 ? "t" : "?";
	message.message_id = out->last_error = NULL; /* borrowed */
	out->message = &message;
	return WHERRY_OK;
}

static wherry_row show(outbox_fixture *f, const char *ident)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_row out = {.held_by = -7};

	WHERRY_PASS(wherry_outbox_show(f->outbox, ident, keep_row, &out, &err));
	return out;
}

static void a_message_is_shown_from_the_archive_which_is_said(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_row row = {.held_by = -7};

	four_archived(f);
	row = show(f, "b");
	assert_int_equal(row.message->id, 2);
	assert_true(row.archived);
	assert_int_equal(row.state, WHERRY_DONE);
	assert_string_equal(row.message->topic, "t");
	assert_int_equal(row.message->created_at_us / 1000,
			 fixture_int(f, "SELECT created_at FROM outbox_archive WHERE "
					"id = 2"));
	assert_int_equal(row.processed_at_us / 1000,
			 fixture_int(f, "SELECT processed_at FROM outbox_archive WHERE "
					"id = 2"));
	assert_int_equal(row.held_by, 0);
	assert_int_equal(row.next_retry_at_us, 0);
	assert_int_equal(show(f, "3").message->id, 3);
	assert_true(show(f, "3").archived);
	assert_false(show(f, "e").archived);
	assert_false(show(f, "6").archived);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_show(f->outbox, "7", keep_row, &row, &err));
}

static void a_message_id_in_the_archive_wins_over_a_number_in_the_outbox(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "2", "t", NULL);
	fixture_send_named(f, "x", "t", NULL);
	archive(f, 1);
	assert_int_equal(show(f, "2").message->id, 1);
	assert_int_equal(show(f, "x").message->id, 2);
}

/* A message id may be used again once its first message is archived. */
static void of_a_message_id_the_outbox_comes_first(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "a", "t", NULL);
	archive(f, 1);
	assert_int_equal(fixture_send_named(f, "a", "t", NULL), 2);
	assert_int_equal(show(f, "a").message->id, 2);
	assert_int_equal(show(f, "1").message->id, 1);
	archive(f, 2);
	assert_int_equal(show(f, "a").message->id, 2); /* the later one */
}

static void status_counts_the_archive_apart(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_status status;

	WHERRY_PASS(
		wherry_outbox_status(f->outbox, &status, sizeof(wherry_status), &err));
	assert_int_equal(status.archived, 0);
	four_archived(f);
	WHERRY_PASS(
		wherry_outbox_status(f->outbox, &status, sizeof(wherry_status), &err));
	assert_int_equal(status.archived, 4);
	assert_int_equal(status.count[WHERRY_DONE], 1);
	assert_int_equal(status.count[WHERRY_PENDING], 1);
}

/* ---- purging ---- */

static int64_t purge(outbox_fixture *f, int64_t older_us, int64_t batch, int64_t max_rows)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_purge_archive(f->outbox, older_us, batch, max_rows, &n,
						&err));
	return n;
}

static void what_was_delivered_long_ago_is_purged_from_the_archive(void **state)
{
	outbox_fixture *f = *state;

	four_archived(f);
	assert_int_equal(purge(f, 7000000000, 10, 0), 1);
	lists_archived(f, WHERRY_FILTER(), "2 3 4");
	assert_int_equal(purge(f, 1800000000, 1, 0), 2);
	lists_archived(f, WHERRY_FILTER(), "4");
	assert_int_equal(purge(f, 1800000000, 1, 0), 0);
	assert_int_equal(purge(f, 0, 1, 0), 1);
	fixture_lists(f, &WHERRY_FILTER(), "5 6"); /* which it leaves alone */
}

static void a_purge_of_the_archive_stops_at_its_limit_oldest_first(void **state)
{
	outbox_fixture *f = *state;

	four_archived(f);
	fixture_raw(f, "UPDATE outbox_archive SET processed_at = 100 - id");
	assert_int_equal(purge(f, 0, 2, 3), 3);
	lists_archived(f, WHERRY_FILTER(), "1");
}

/* ---- delivering once more ---- */

static int64_t replay(outbox_fixture *f, wherry_filter filter)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_replay(f->outbox, &filter, &n, &err));
	return n;
}

static void an_archived_message_is_replayed_under_its_id(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t before, after;
	bool paused;

	four_archived(f);
	fixture_raw(f,
		    "UPDATE outbox_archive SET headers = '{\"h\":1}', trace_id = 'tr', "
		    "aggregate_type = 'order', aggregate_id = '9', attempts = 3, "
		    "generation = 4, payload = x'ff00', last_error = 'why'");
	fixture_raw(f, "CREATE TABLE before AS SELECT * FROM outbox_archive");
	WHERRY_PASS(wh_store_control(&f->outbox->store, &paused, &before, &err));
	assert_int_equal(replay(f, WHERRY_FILTER(.ident = "b")), 1);
	WHERRY_PASS(wh_store_control(&f->outbox->store, &paused, &after, &err));
	assert_true(after > before);
	lists_archived(f, WHERRY_FILTER(), "1 3 4");
	assert_int_equal(
		fixture_int(
			f,
			"SELECT count(*) FROM outbox o JOIN before b ON o.id = b.id AND "
			"o.message_id = b.message_id AND o.topic = b.topic AND "
			"o.aggregate_type = b.aggregate_type AND o.aggregate_id = "
			"b.aggregate_id AND o.partition_key = b.partition_key AND "
			"o.headers = b.headers AND o.trace_id = b.trace_id AND "
			"o.created_at = b.created_at AND o.payload = b.payload WHERE "
			"o.id = 2 AND o.status = 0 AND o.attempts = 0 AND o.generation = 5 "
			"AND o.processed_at IS NULL AND o.next_retry_at IS NULL"),
		1);
	archive(f, 2); /* and it may be archived again */
	lists_archived(f, WHERRY_FILTER(), "1 2 3 4");
	assert_int_equal(replay(f, WHERRY_FILTER(.ident = "2")), 1);
	assert_int_equal(fixture_int(f, "SELECT generation FROM outbox WHERE id = 2"), 6);
}

static void archived_messages_are_replayed_by_what_the_filter_says(void **state)
{
	static const struct {
		wherry_filter filter;
		int64_t n;
		const char *archived_then;
	} rows[] = {
		{{0}, 5, ""},
		{{.ident = "c"}, 1, "1 2 4"},
		{{.ident = "2"}, 1, "1 3 4"},
		{{.ident = "nobody"}, 0, "1 2 3 4"},
		{{.ident = "e"}, 0, "1 2 3 4"}, /* pending */
		{{.ident = "g"}, 1, "1 2 3 4"}, /* done, in the outbox */
		{{.topic = "t"}, 3, "3 4"},
		{{.key = "k"}, 3, "2 4"},
		{{.topic = "u", .key = "k"}, 1, "1 2 4"},
		{{.since_us = 60000000}, 2, "1 2 3"},
		{{.since_us = 5400000000, .topic = "u"}, 2, "1 2"},
		{{.ident = "a", .since_us = 60000000}, 0, "1 2 3 4"},
		{{.after_id = 2}, 3, "1 2"},
		{{.limit = 1}, 1, "1 2 3 4"}, /* first what is in the outbox */
		{{.limit = 2}, 2, "2 3 4"},
		{{.limit = 2, .key = "l"}, 2, "1 3"},
		{{.limit = 9}, 5, ""},
	};
	outbox_fixture *f = *state;

	four_archived(f);
	fixture_raw(f, "CREATE TABLE was AS SELECT * FROM outbox_archive");
	fixture_raw(f, "UPDATE was SET created_at = 1"); /* delivery is what counts */
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		fixture_raw(f, "DELETE FROM outbox WHERE id <= 4");
		fixture_raw(f, "DELETE FROM outbox_archive");
		fixture_raw(f, "INSERT INTO outbox_archive SELECT * FROM was");
		fixture_raw(
			f,
			"UPDATE outbox SET status = 2, processed_at = %lld WHERE id = "
			"6",
			(long long)(wh_now(&wh_env_system) / 1000));
		assert_int_equal(replay(f, sized(rows[i].filter)), rows[i].n);
		lists_archived(f, WHERRY_FILTER(), rows[i].archived_then);
	}
}

static void no_message_is_replayed_while_the_outbox_has_one_of_its_message_id(
	void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "a", "t", NULL);
	fixture_send_named(f, "b", "t", NULL);
	archive(f, 1);
	archive(f, 2);
	assert_int_equal(fixture_send_named(f, "a", "t", NULL), 3);
	assert_int_equal(replay(f, WHERRY_FILTER()), 1);
	lists_archived(f, WHERRY_FILTER(), "1"); /* it is not lost either */
	fixture_lists(f, &WHERRY_FILTER(), "2 3");
	fixture_done(f, 3);
	assert_int_equal(replay(f, WHERRY_FILTER(.ident = "a")), 1);
	assert_int_equal(fixture_int(f, "SELECT generation FROM outbox WHERE id = 3"), 1);
	lists_archived(f, WHERRY_FILTER(), "1");
}

static void of_two_archived_messages_of_one_message_id_one_is_replayed(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "a", "t", NULL);
	archive(f, 1);
	assert_int_equal(fixture_send_named(f, "a", "t", NULL), 2);
	fixture_raw(f, "UPDATE outbox SET created_at = created_at + 1");
	archive(f, 2);
	assert_int_equal(replay(f, WHERRY_FILTER()), 1);
	fixture_lists(f, &WHERRY_FILTER(), "1");
	lists_archived(f, WHERRY_FILTER(), "2");
}

static void a_message_whose_id_is_taken_is_replayed_under_another(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "a", "t", NULL);
	archive(f, 1);
	fixture_raw(f, "INSERT INTO outbox(id, message_id, topic, payload) VALUES (1, "
		       "'b', 't', '')");
	assert_int_equal(replay(f, WHERRY_FILTER(.ident = "a")), 1);
	fixture_lists(f, &WHERRY_FILTER(), "1 2");
	fixture_lists(f, &WHERRY_FILTER(.ident = "a"), "2");
	lists_archived(f, WHERRY_FILTER(), "");
}

static void a_replay_touches_no_other_whose_number_is_an_archived_name(void **state)
{
	outbox_fixture *f = *state;

	fixture_send_named(f, "2", "t", NULL);
	fixture_send_named(f, "x", "t", NULL);
	fixture_send_named(f, "3", "t", NULL);
	archive(f, 1);
	archive(f, 3);
	fixture_done(f, 2);
	assert_int_equal(replay(f, WHERRY_FILTER(.ident = "2")), 1);
	fixture_lists(f, &WHERRY_FILTER(.states = 1u << WHERRY_PENDING), "1");
	lists_archived(f, WHERRY_FILTER(), "3");
}

static void a_replay_from_the_archive_is_part_of_an_open_transaction(void **state)
{
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	four_archived(f);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(replay(f, WHERRY_FILTER(.topic = "u")), 2);
	wherry_db_rollback(f->db);
	lists_archived(f, WHERRY_FILTER(), "1 2 3 4");
	fixture_lists(f, &WHERRY_FILTER(), "5 6");
}

/* Competing relays take it as they take what was retried: before later ones of its key. */
static void later_ones_of_its_key_wait_for_a_replayed_message(void **state)
{
	outbox_fixture *f = *state;

	four_archived(f);
	assert_int_equal(replay(f, WHERRY_FILTER(.ident = "a")), 1);
	assert_int_equal(fixture_int(f,
				     "SELECT count(*) FROM outbox INDEXED BY "
				     "outbox_busy WHERE (status = 1 OR status = 3 OR "
				     "status = 4 OR claim_token IS NOT NULL AND status = "
				     "0) AND ordering_key = '=k' AND id = 1"),
			 1);
}

const outbox_case outbox_archive_cases[] = {
	CASE(the_archive_is_listed_when_asked_for),
	CASE(a_message_is_shown_from_the_archive_which_is_said),
	CASE(a_message_id_in_the_archive_wins_over_a_number_in_the_outbox),
	CASE(of_a_message_id_the_outbox_comes_first),
	CASE(status_counts_the_archive_apart),
	CASE(what_was_delivered_long_ago_is_purged_from_the_archive),
	CASE(a_purge_of_the_archive_stops_at_its_limit_oldest_first),
	CASE(an_archived_message_is_replayed_under_its_id),
	CASE(archived_messages_are_replayed_by_what_the_filter_says),
	CASE(no_message_is_replayed_while_the_outbox_has_one_of_its_message_id),
	CASE(of_two_archived_messages_of_one_message_id_one_is_replayed),
	CASE(a_message_whose_id_is_taken_is_replayed_under_another),
	CASE(a_replay_touches_no_other_whose_number_is_an_archived_name),
	CASE(a_replay_from_the_archive_is_part_of_an_open_transaction),
	CASE(later_ones_of_its_key_wait_for_a_replayed_message),
	{NULL, NULL, 0},
};
