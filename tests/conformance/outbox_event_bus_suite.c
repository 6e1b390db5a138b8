/*
 * What operators and producers do in the tables of outbox-event-bus.
 */
#include "event_bus.h"
#include "outbox_claims.h"

#define ISO                                                                              \
	"'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9]Z'"

/* ---- the tables ---- */

#define SCHEMA "SELECT group_concat(name || sql) FROM sqlite_schema"

WHERRY_CASE(foreign_tables_are_known_and_left_as_they_are, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char before[sizeof(f->text)];
	wherry_outbox_status status;

	(void)snprintf(before, sizeof(before), "%s", bus_text(f, SCHEMA));
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_string_equal(status.layout, "event-bus");
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	assert_string_equal(bus_text(f, SCHEMA), before);
}

WHERRY_CASE(an_archive_that_is_missing_is_told_and_made, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	bus_raw(f, "DROP TABLE outbox_archive");
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_open(f->db, "outbox", &outbox, &err));
	assert_non_null(strstr(err.message, "outbox_archive"));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	bus_raw(f, "CREATE TABLE outbox_archive(id)");
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(f->db, "outbox", NULL, &err));
	assert_non_null(strstr(err.message, "with another purpose"));
	bus_raw(f, "DROP TABLE outbox_archive");
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &outbox, &err));
	wherry_outbox_close(outbox);
}

WHERRY_CASE(a_table_that_only_resembles_them_is_none, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	bus_raw(f, "CREATE TABLE near AS SELECT id, type, payload, occurred_at, status, "
		   "retry_count, last_error, next_retry_at, created_on, started_on, "
		   "completed_on, expire_in_seconds FROM outbox");
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_open(f->db, "near", &outbox, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(f->db, "near", NULL, &err));
	WHERRY_FAILS(
		WHERRY_INVALID,
		wherry_outbox_open(f->db, "x\"; DROP TABLE outbox; --", &outbox, &err));
	assert_null(outbox);
}

WHERRY_CASE(an_outbox_beside_them_stays_one, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_outbox_status status;

	WHERRY_PASS(wherry_outbox_create(f->db, "mine", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "mine", &outbox, &err));
	WHERRY_PASS(wherry_outbox_get_status(outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_string_equal(status.layout, "log");
	wherry_outbox_close(outbox);
}

/* ---- enqueue ---- */

WHERRY_CASE(what_is_enqueued_is_as_the_library_publishes, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg = WHERRY_MESSAGE(.topic = "user.created", .headers = "{}",
					    .body = "{\"a\": [1]}", .body_len = 10);

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					  &err));
	assert_string_equal(
		bus_text(f,
			 "SELECT type || payload || status || retry_count || "
			 "typeof(payload) || (occurred_at GLOB " ISO ") || "
			 "(created_on GLOB " ISO ") || length(id) || expire_in_seconds "
			 "FROM outbox WHERE coalesce(last_error, next_retry_at, "
			 "started_on, completed_on, keep_alive) IS NULL"),
		"user.created{\"a\": [1]}created0text1136300");
	assert_int_equal(bus_claimable(f, 5), 1);
}

WHERRY_CASE(what_there_is_no_column_for_is_refused, outbox_fixture *f)
{
	const wherry_message bad[] = {
		WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2, .key = "k"),
		WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2,
			       .headers = "{\"a\":\"b\"}"),
		WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2,
			       .aggregate_type = "o"),
		WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2,
			       .aggregate_id = "1"),
		WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2,
			       .trace_id = "x"),
	};
	static const char *const names[] = {"key", "headers", "aggregate_type",
					    "aggregate_id", "trace_id"};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_enqueue(f->outbox, &bad[i],
						   WHERRY_OWN_TRANSACTION, NULL, &err));
		assert_non_null(strstr(err.message, names[i]));
		assert_non_null(strstr(err.message, "an outbox of Wherry's own layout"));
	}
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox"), 0);
}

WHERRY_CASE(a_body_that_is_no_json_is_refused_with_the_way_out, outbox_fixture *f)
{
	static const char *const bodies[] = {"hello", "", "{\"a\":1", "\xff", NULL};
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; bodies[i]; i++) {
		wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = bodies[i],
						    .body_len = strlen(bodies[i]));

		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_enqueue(f->outbox, &msg,
						   WHERRY_OWN_TRANSACTION, NULL, &err));
		assert_non_null(strstr(err.message, "JSON string"));
	}
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox"), 0);
}

WHERRY_CASE(an_id_that_is_open_or_archived_is_a_duplicate, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .message_id = "m", .body = "1",
					    .body_len = 1);
	int64_t id = -7;

	WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id,
					  &err));
	assert_int_equal(id, 1);
	for (int i = 0; i < 2; i++) {
		WHERRY_FAILS(WHERRY_DUPLICATE,
			     wherry_outbox_enqueue(f->outbox, &msg,
						   WHERRY_OWN_TRANSACTION, &id, &err));
		if (!i) {
			claim_takes(f, &a, &claim_ten, "1");
			claim_done(f, &a, 1);
		}
	}
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox"), 0);
}

/* ---- operators ---- */

/* One of each state: pending p, processing a, failed f, dead d, done o. */
static void fill(outbox_fixture *f)
{
	static const char *const ids[] = {"p", "a", "f", "d", NULL};

	for (int i = 0; ids[i]; i++)
		bus_publish(f, ids[i], "{}");
	bus_raw(f,
		"UPDATE outbox SET status = 'active', started_on = occurred_at, "
		"keep_alive = occurred_at WHERE id = 'a';"
		"UPDATE outbox SET status = 'failed', retry_count = 2, last_error = 'no', "
		"next_retry_at = '2999-01-01T00:00:00.000Z' WHERE id = 'f';"
		"UPDATE outbox SET status = 'failed', retry_count = 5, last_error = 'no' "
		"WHERE id = 'd';"
		"INSERT INTO outbox_archive SELECT 'o', type, payload, occurred_at, "
		"'completed', 1, 'once', created_on, started_on, created_on FROM outbox "
		"WHERE id = 'a'");
}

typedef struct seen {
	char text[400];
} seen;

static wherry_code see(void *ctx, const wherry_row *row)
{
	char *text = ((seen *)ctx)->text;
	size_t n = strlen(text);

	(void)snprintf(text + n, sizeof(((seen *)ctx)->text) - n, "%s:%s:%d:%s ",
		       row->message->message_id, wherry_state_name(row->state),
		       row->message->attempts, row->last_error ? row->last_error : "");
	return WHERRY_OK;
}

WHERRY_CASE(every_state_is_listed_and_counted, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t count[WHERRY_STATE_COUNT];
	wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER();
	seen s = {""};

	fill(f);
	WHERRY_PASS(wherry_outbox_list(f->outbox, &filter, see, &s, &err));
	assert_string_equal(s.text, "p:pending:0: a:processing:0: f:failed:2:no "
				    "d:dead:5:no o:done:1:once ");
	WHERRY_PASS(wherry_outbox_count(f->outbox, count, &err));
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		assert_int_equal(count[i], 1);
	*s.text = 0;
	filter.states = 1u << WHERRY_DEAD | 1u << WHERRY_FAILED;
	WHERRY_PASS(wherry_outbox_list(f->outbox, &filter, see, &s, &err));
	assert_string_equal(s.text, "f:failed:2:no d:dead:5:no ");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.after_id = 3), "4 1000000000001");
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = 1u << WHERRY_DONE),
		      "1000000000001");
	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_outbox_list(f->outbox, &WHERRY_OUTBOX_FILTER(.key = "k"), see,
					&s, &err));
}

WHERRY_CASE(a_message_is_shown_by_its_id_or_its_number, outbox_fixture *f)
{
	static const char *const idents[][2] = {{"f", "f:failed:2:no "},
						{"3", "f:failed:2:no "},
						{"o", "o:done:1:once "},
						{"1000000000001", "o:done:1:once "}};
	wherry_error err = WHERRY_ERROR_INIT;

	fill(f);
	for (size_t i = 0; i < sizeof(idents) / sizeof(*idents); i++) {
		seen s = {""};

		WHERRY_PASS(wherry_outbox_show(f->outbox, idents[i][0], see, &s, &err));
		assert_string_equal(s.text, idents[i][1]);
	}
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_show(f->outbox, "nix", see, NULL, &err));
}

static int64_t retry(outbox_fixture *f, const char *ident)
{
	wherry_outbox_filter filter =
		WHERRY_OUTBOX_FILTER(.ident = ident,
				     .states = 1u << WHERRY_DEAD | 1u << WHERRY_FAILED);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_outbox_retry(f->outbox, &filter, &n, &err));
	return n;
}

WHERRY_CASE(a_retry_is_as_the_library_retries_but_of_no_active_row, outbox_fixture *f)
{
	fill(f);
	assert_int_equal(retry(f, "a"), 0);
	assert_int_equal(retry(f, "p"), 0);
	assert_int_equal(retry(f, "f"), 1);
	assert_int_equal(retry(f, "4"), 1);
	assert_int_equal(bus_int(f,
				 "SELECT count(*) FROM outbox WHERE status = 'created' "
				 "AND retry_count = 0 AND last_error IS NULL AND "
				 "next_retry_at IS NULL"),
			 3);
	assert_string_equal(bus_text(f, "SELECT status FROM outbox WHERE id = 'a'"),
			    "active");
	assert_int_equal(retry(f, NULL), 0);
}

WHERRY_CASE(an_event_is_discarded_by_its_id_or_its_number, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	bus_publish(f, "one", "{}");
	bus_publish(f, "two", "{}");
	bus_publish(f, "three", "{}");
	claim_takes(f, &a, &WHERRY_CLAIM_OPTIONS(.limit = 1, .lasts_us = MINUTE_US), "1");
	claim_done(f, &a, 1);
	WHERRY_PASS(wherry_outbox_discard(f->outbox, "two", &err));
	WHERRY_PASS(wherry_outbox_discard(f->outbox, "3", &err));
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox"), 0);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(f->outbox, "one", &err));
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox_archive"), 1);
}

WHERRY_CASE(reaping_frees_what_expired_and_nothing_else, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	bus_publish(f, "one", "{}");
	bus_publish(f, "two", "{}");
	claim_takes(f, &a, &claim_ten, "1 2");
	bus_raw(f, "UPDATE outbox SET keep_alive = '2020-01-01T00:00:00.000Z', "
		   "started_on = '2020-01-01T00:00:00.000Z' WHERE id = 'one'");
	WHERRY_PASS(wherry_outbox_reap(f->outbox, MINUTE_US, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(bus_text(f, "SELECT id FROM outbox WHERE status = 'created'"),
			    "one");
	claim_done(f, &a, 2);
}

const outbox_case outbox_event_bus_cases[] = {
	CASE(foreign_tables_are_known_and_left_as_they_are),
	CASE(an_archive_that_is_missing_is_told_and_made),
	CASE(a_table_that_only_resembles_them_is_none),
	CASE(an_outbox_beside_them_stays_one),
	CASE(what_is_enqueued_is_as_the_library_publishes),
	CASE(what_there_is_no_column_for_is_refused),
	CASE(a_body_that_is_no_json_is_refused_with_the_way_out),
	CASE(an_id_that_is_open_or_archived_is_a_duplicate),
	CASE(every_state_is_listed_and_counted),
	CASE(a_message_is_shown_by_its_id_or_its_number),
	CASE(a_retry_is_as_the_library_retries_but_of_no_active_row),
	CASE(an_event_is_discarded_by_its_id_or_its_number),
	CASE(reaping_frees_what_expired_and_nothing_else),
	{NULL, NULL, 0},
};
