/*
 * The outbox in the table of eventferry: what every outbox promises of claims, and what the
 * library's producers and relays see of it.
 */
#include "event_bus.h"
#include "outbox_claims.h"

#include "outbox/outbox.h"
#include "postgres/eventferry.h"
#include "postgres/server.h"

static void *make(void)
{
	postgres_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	postgres_make(place);
	assert_true(postgres_raw(place->url, eventferry_tables, NULL, 0));
	return place;
}

static void *make_with_views(void)
{
	postgres_place *place = make();

	assert_true(postgres_raw(place->url, eventferry_views, NULL, 0));
	return place;
}

static void drop(void *place)
{
	postgres_drop(place);
	free(place);
}

static wherry_db *connect(void *place)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	if (wherry_db_open(((postgres_place *)place)->url, NULL, &db, &err) != WHERRY_OK)
		print_error("%s\n", err.message);
	return db;
}

static bool disconnect(wherry_db *db)
{
	wherry_db_close(db);
	return true;
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	char native[8192];

	event_bus_translate(sql, native, sizeof(native));
	return postgres_raw(((postgres_place *)place)->url, native, out, cap);
}

static const outbox_backend eventferry = {
	.name = "eventferry",
	.several = true,
	.lacks = NEEDS_LEASE | NEEDS_TOKEN | NEEDS_EVENT_BUS | NEEDS_NUL |
		 NEEDS_CASELESS | NEEDS_IDENTS | NEEDS_NATIVE,
	.make = make_with_views,
	.drop = drop,
	.connect = connect,
	.disconnect = disconnect,
	.raw = raw,
};

/* ---- of this table alone ---- */

#define SCHEMA                                                                           \
	"SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("                           \
	"SELECT relname::text AS line FROM pg_class WHERE relnamespace = "               \
	"current_schema()::regnamespace "                                                \
	"UNION ALL SELECT table_name || '.' || column_name || ' ' || data_type || ' ' "  \
	"|| is_nullable || ' ' || coalesce(column_default, '') || ' ' || "               \
	"coalesce(character_maximum_length, 0) || is_identity "                          \
	"FROM information_schema.columns WHERE table_schema = current_schema() "         \
	"UNION ALL SELECT replace(indexdef, current_schema(), '') FROM pg_indexes "      \
	"WHERE schemaname = current_schema() "                                           \
	"UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) FROM "             \
	"pg_constraint WHERE connamespace = current_schema()::regnamespace "             \
	"UNION ALL SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal AND "      \
	"tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = "                     \
	"current_schema()::regnamespace) "                                               \
	"UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = "              \
	"current_schema()::regnamespace) AS lines"

typedef struct plain {
	postgres_place *place;
	wherry_db *db;
	wherry_outbox *outbox;
	char text[16384];
} plain;

static int open_it(void **state)
{
	plain *p = calloc(1, sizeof(*p));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(p);
	p->place = make();
	p->db = connect(p->place);
	WHERRY_PASS(wherry_outbox_open(p->db, "outbox", &p->outbox, &err));
	*state = p;
	return 0;
}

static int close_it(void **state)
{
	plain *p = *state;

	wherry_outbox_close(p->outbox);
	wherry_db_close(p->db);
	drop(p->place);
	free(p);
	return 0;
}

static const char *text(plain *p, const char *sql)
{
	*p->text = 0;
	assert_true(postgres_raw(p->place->url, sql, p->text, sizeof(p->text)));
	return p->text;
}

static wherry_code take_none(void *ctx, const wherry_message *msg)
{
	return WHERRY_OK;
}

WHERRY_TEST_ON(create_adds_nothing_to_it, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;
	char before[sizeof(p->text)];

	(void)snprintf(before, sizeof(before), "%s", text(p, SCHEMA));
	WHERRY_PASS(wherry_outbox_create(p->db, "outbox", NULL, &err));
	assert_string_equal(text(p, SCHEMA), before);
	WHERRY_PASS(wherry_outbox_get_status(p->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_string_equal(status.layout, "eventferry");
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_outbox_make(p->db, &(wh_make){.layout = "log"}, "outbox", &err));
	assert_string_equal(text(p, SCHEMA), before);
}

WHERRY_TEST_ON(create_makes_what_the_library_makes, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char before[sizeof(p->text)];

	(void)snprintf(before, sizeof(before), "%s", text(p, SCHEMA));
	assert_true(strlen(before) > 1000);
	(void)text(p, "DROP TABLE outbox");
	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(wh_outbox_make(p->db, &(wh_make){.layout = "eventferry"},
					   "outbox", &err));
		assert_string_equal(text(p, SCHEMA), before);
	}
}

/* Beside it one of Wherry's, whose shared tables do not hide it. */
WHERRY_TEST_ON(an_outbox_may_be_beside_it, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *own = NULL;
	wherry_outbox_status status;

	WHERRY_PASS(wherry_outbox_create(p->db, "mine", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(p->db, "mine", &own, &err));
	WHERRY_PASS(wherry_outbox_get_status(own, &status, sizeof(wherry_outbox_status),
					     &err));
	assert_string_equal(status.layout, "log");
	wherry_outbox_close(own);
	wherry_outbox_close(p->outbox);
	WHERRY_PASS(wherry_outbox_open(p->db, "outbox", &p->outbox, &err));
	WHERRY_PASS(wherry_outbox_get_status(p->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_string_equal(status.layout, "eventferry");
}

static wherry_code put(plain *p, wherry_message msg, wherry_error *err)
{
	return wherry_outbox_enqueue(p->outbox, &msg,
				     WHERRY_OWN_TRANSACTION | WHERRY_LOCK_KEY, NULL, err);
}

#define BODY .topic = "t", .body = "{\"n\":1}", .body_len = 7
#define UUID "01a1fe20-57df-7029-90ce-92e5ede8ecee"

WHERRY_TEST_ON(enqueue_writes_rows_of_the_library, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(put(p,
			WHERRY_MESSAGE(BODY, .key = "k", .aggregate_type = "order",
				       .aggregate_id = "7", .message_id = UUID,
				       .headers = "{\"a\":\"b\"}", .trace_id = "x"),
			&err));
	assert_string_equal(
		text(p,
		     "SELECT concat_ws('|', message_id, topic, aggregate_type, "
		     "aggregate_id, key, payload, headers, trace_id, status, attempts) "
		     "FROM outbox"),
		UUID "|t|order|7|k|{\"n\": 1}|{\"a\": \"b\"}|x|0|0");
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     put(p, WHERRY_MESSAGE(BODY, .message_id = UUID), &err));
	WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .key = "k"), &err));
	assert_string_equal(text(p, "SELECT aggregate_id || '|' || key FROM outbox WHERE "
				    "aggregate_id <> '7'"),
			    "k|k");
	WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY), &err));
	assert_string_equal(text(p, "SELECT count(*) FROM outbox WHERE aggregate_id = "
				    "message_id::text AND key IS NULL"),
			    "1");
}

WHERRY_TEST_ON(what_it_has_no_place_for_is_refused, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	WHERRY_FAILS(WHERRY_INVALID,
		     put(p, WHERRY_MESSAGE(BODY, .message_id = "m-1"), &err));
	assert_non_null(strstr(err.message, "UUID"));
	WHERRY_FAILS(
		WHERRY_INVALID,
		put(p, WHERRY_MESSAGE(.topic = "t", .body = "x", .body_len = 1), &err));
	assert_non_null(strstr(err.message, "JSON"));
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_outbox_pause(p->outbox, &err));
	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_outbox_lease(p->outbox, "x", MINUTE_US, 1, &lease, &err));
	WHERRY_PASS(wherry_outbox_join(p->outbox, "x", MINUTE_US, &lease, &err));
	assert_string_equal(text(p, "SELECT count(*) FROM outbox"), "0");
}

WHERRY_TEST_ON(each_claim_that_was_extended_can_be_settled, plain *p, open_it, close_it)
{
	wherry_claim_options ten =
		WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = MINUTE_US);
	wherry_lease a = {0};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0, ids[] = {1, 2, 3};

	for (int i = 0; i < 3; i++)
		WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY), &err));
	WHERRY_PASS(wherry_outbox_join(p->outbox, "a", MINUTE_US, &a, &err));
	WHERRY_PASS(wherry_outbox_claim(p->outbox, &a, &ten, take_none, NULL, &n, &err));
	WHERRY_PASS(wherry_outbox_extend(p->outbox, &a, ids, 3, MINUTE_US, &n, &err));
	assert_int_equal(n, 3);
	WHERRY_PASS(wherry_outbox_done(p->outbox, &a, ids, 3, &n, &err));
	assert_int_equal(n, 3);
}

/* Of which no raw SQL could change the time without changing the mark. */
WHERRY_TEST_ON(a_claim_that_expired_can_be_settled_until_another_takes_it, plain *p,
	       open_it, close_it)
{
	wherry_claim_options soon = WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = 1);
	wherry_lease a = {0}, b = {0};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0, taken = 0, ids[] = {1, 2};

	for (int i = 0; i < 2; i++)
		WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY), &err));
	WHERRY_PASS(wherry_outbox_join(p->outbox, "a", MINUTE_US, &a, &err));
	WHERRY_PASS(wherry_outbox_join(p->outbox, "b", MINUTE_US, &b, &err));
	WHERRY_PASS(wherry_outbox_claim(p->outbox, &a, &soon, take_none, NULL, &n, &err));
	assert_int_equal(n, 2);
	WHERRY_PASS(wherry_outbox_extend(p->outbox, &a, ids, 2, MINUTE_US, &n, &err));
	assert_int_equal(n, 2);
	do
		WHERRY_PASS(wherry_outbox_claim_expired(p->outbox, &b, &soon, take_none,
							NULL, &taken, &err));
	while (!taken); /* a millisecond must pass */
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_done(p->outbox, &a, ids, 1, &n, &err));
	WHERRY_PASS(wherry_outbox_done(p->outbox, &a, ids + 1, 1, &n, &err));
	WHERRY_PASS(wherry_outbox_done(p->outbox, &b, ids, 1, &n, &err));
	assert_string_equal(text(p,
				 "SELECT string_agg(status || ':' || attempts, ' ' ORDER "
				 "BY id) FROM outbox WHERE processed_at IS NOT NULL"),
			    "2:1 2:0");
}

WHERRY_TEST_ON(an_event_is_discarded_by_its_id_or_its_number, plain *p, open_it, close_it)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY, .message_id = UUID), &err));
	for (int i = 0; i < 3; i++)
		WHERRY_PASS(put(p, WHERRY_MESSAGE(BODY), &err));
	(void)text(p, "UPDATE outbox SET status = 4 WHERE id = 2; "
		      "UPDATE outbox SET status = 2 WHERE id = 3");
	WHERRY_PASS(wherry_outbox_discard(p->outbox, UUID, &err));
	WHERRY_PASS(wherry_outbox_discard(p->outbox, "2", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(p->outbox, "3", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(p->outbox, UUID, &err));
	assert_string_equal(
		text(p, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM outbox"),
		"3 4");
}

int main(void)
{
	static const outbox_backend *const backends[] = {&eventferry};

	if (!postgres_start())
		return 0;
	return outbox_suite_run(backends, 1, wherry_tests_of_file()->all,
				wherry_tests_of_file()->n);
}
