/*
 * What a message may hold: every field comes back as it was given, or is refused.
 */
#include "outbox_suite.h"

#include "outbox/outbox.h"

static void same(const char *read, const char *sent, const char *absent)
{
	if (!sent)
		sent = absent;
	if (sent)
		assert_non_null(read);
	else
		assert_null(read);
	if (sent)
		assert_string_equal(read, sent);
}

/* As show and list tell it. */
static wherry_code compare_row(void *ctx, const wherry_row *row)
{
	const wherry_message *sent = ctx, *read = row->message;

	assert_int_equal(read->size, sizeof(*read));
	if (sent->message_id)
		same(read->message_id, sent->message_id, NULL);
	same(read->topic, sent->topic, NULL);
	same(read->aggregate_type, sent->aggregate_type, "");
	same(read->aggregate_id, sent->aggregate_id, "");
	same(read->key, sent->key && *sent->key ? sent->key : NULL, NULL);
	same(read->headers, sent->headers, "{}");
	same(read->trace_id, sent->trace_id, NULL);
	assert_int_equal(read->body_len, sent->body_len);
	if (sent->body_len)
		assert_memory_equal(read->body, sent->body, sent->body_len);
	assert_int_equal(read->attempts, 0);
	assert_true(read->created_at_us > 1600000000000000);
	assert_int_equal(row->state, WHERRY_PENDING);
	assert_int_equal(row->claimed_at_us, 0);
	assert_int_equal(row->next_retry_at_us, 0);
	assert_int_equal(row->processed_at_us, 0);
	assert_null(row->last_error);
	return WHERRY_OK;
}

static void same_view(wh_view read, const char *sent, const char *absent)
{
	assert_true(wh_view_eq(read, wh_view_of(sent ? sent : absent)));
}

/* As a relay reads it. */
static wherry_code compare_open(void *ctx, const wh_open_row *row, wherry_error *err)
{
	const wherry_message *sent = ctx;
	wh_view body = wh_open_body(row);

	if (sent->message_id)
		same_view(row->message_id, sent->message_id, NULL);
	same_view(row->topic, sent->topic, NULL);
	same_view(row->aggregate_type, sent->aggregate_type, "");
	same_view(row->aggregate_id, sent->aggregate_id, "");
	same_view(row->key, sent->key && *sent->key ? sent->key : NULL, NULL);
	same_view(row->headers, sent->headers, "{}");
	same_view(row->trace_id, sent->trace_id, NULL);
	assert_non_null(body.ptr);
	assert_int_equal(body.len, sent->body_len);
	if (sent->body_len)
		assert_memory_equal(body.ptr, sent->body, sent->body_len);
	return WHERRY_OK;
}

static void comes_back(outbox_fixture *f, const wherry_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message copy = *msg;
	char ident[24];
	int64_t id = 0;

	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, msg, WHERRY_OWN_TRANSACTION, &id, &err));
	(void)snprintf(ident, sizeof(ident), "%lld", (long long)id);
	WHERRY_PASS(wherry_outbox_show(f->outbox, ident, compare_row, &copy, &err));
	WHERRY_PASS(wh_outbox_read(f->outbox, UINT64_MAX, id - 1, 1, compare_open, &copy,
				   &err));
	WHERRY_PASS(
		wh_store_read_ids(&f->outbox->store, &id, 1, compare_open, &copy, &err));
}

static void is_refused(outbox_fixture *f, const wherry_message *msg, wherry_code code,
		       const char *says)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = -7;

	WHERRY_FAILS(code, outbox_does.enqueue(f->outbox, msg, WHERRY_OWN_TRANSACTION,
					       &id, &err));
	assert_int_equal(id, -7);
	if (!strstr(err.message, says)) {
		print_error("'%s' does not say '%s'\n", err.message, says);
		fail();
	}
	assert_int_equal(fixture_count(f), 0);
}

/* ---- coming back ---- */

static void every_field_comes_back(void **state)
{
	static const char binary[] = "\0\1\2\xff\xfe{\0}\x80";
	static const char text[] = "{\"a\": \"\xe2\x82\xac\"}";
	const wherry_message rows[] = {
		WHERRY_MESSAGE(.topic = "orders", .body = "{}", .body_len = 2),
		WHERRY_MESSAGE(.topic = "t", .message_id = "m-1",
			       .aggregate_type = "order", .aggregate_id = "42",
			       .key = "k", .headers = "{\"a\":\"b\",\"c\":null}",
			       .trace_id = "00-ab-01", .body = text,
			       .body_len = sizeof(text) - 1),
		WHERRY_MESSAGE(.topic = "t", .body = "", .body_len = 0),
		WHERRY_MESSAGE(.topic = "t", .body = NULL, .body_len = 0),
		WHERRY_MESSAGE(.topic = "t", .body = binary, .body_len = sizeof(binary)),
		WHERRY_MESSAGE(.topic = "t", .body = "a\0b", .body_len = 3),
		WHERRY_MESSAGE(.topic = "t", .body = "\0", .body_len = 1),
		WHERRY_MESSAGE(.topic = "t", .body = "\xff", .body_len = 1),
		WHERRY_MESSAGE(.topic = "t", .body = "\xef\xbb\xbf{}", .body_len = 5),
		WHERRY_MESSAGE(.topic = "t", .body = "123", .body_len = 3),
		WHERRY_MESSAGE(.topic = "t", .body = "1e400", .body_len = 5),
		WHERRY_MESSAGE(.topic = "\xf0\x9f\x9a\xa3 \xe6\xb8\xa1",
			       .message_id = "\xc3\xa4\xc3\xb6",
			       .aggregate_type = "\xd0\x96",
			       .aggregate_id = "\xe0\xa4\x95", .key = "\xef\xbf\xbd",
			       .headers = "{\"\xc3\xbc\":\"\xc3\xa9\"}",
			       .trace_id = "\xce\xb1", .body = "\xf0\x9f\x98\x80",
			       .body_len = 4),
		WHERRY_MESSAGE(.topic = "it's \"quoted\" `so` [x]",
			       .message_id = "'; DROP TABLE outbox; --",
			       .aggregate_type = "''", .aggregate_id = "\\'\\",
			       .key = "%s%n?1:a", .headers = "{\"'\":\"\\\"\"}",
			       .trace_id = "\n\t\r\x01", .body = "'\"\\", .body_len = 3),
		WHERRY_MESSAGE(.topic = " ", .aggregate_type = " ", .aggregate_id = "  ",
			       .key = " ", .trace_id = "", .body = " ", .body_len = 1),
		WHERRY_MESSAGE(.topic = "007", .message_id = "0x10",
			       .aggregate_type = "1.0", .aggregate_id = "1e3",
			       .key = "0123", .trace_id = "-0", .body = "00",
			       .body_len = 2),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		comes_back(*state, &rows[i]);
}

WHERRY_CASE(an_empty_key_is_none, outbox_fixture *f)
{
	comes_back(f, &WHERRY_MESSAGE(.topic = "t", .key = "", .aggregate_id = "a",
				      .body = "", .body_len = 0));
	assert_int_equal(
		fixture_int(f, "SELECT count(*) FROM outbox WHERE partition_key IS NULL"),
		1);
}

WHERRY_CASE(an_empty_message_id_is_made, outbox_fixture *f)
{
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .message_id = "", .body = "", .body_len = 0);
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < 2; i++)
		WHERRY_PASS(outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION,
						NULL, &err));
	assert_int_equal(strlen(fixture_text(f, "SELECT message_id FROM outbox")), 36);
}

WHERRY_CASE(a_text_body_is_text_in_the_database, outbox_fixture *f)
{
	comes_back(f, &WHERRY_MESSAGE(.topic = "t", .body = "{\"n\":7}", .body_len = 7));
	assert_int_equal(
		fixture_int(f, "SELECT count(*) FROM outbox WHERE payload = '{\"n\":7}'"),
		1);
}

WHERRY_CASE(large_bodies_come_back, outbox_fixture *f)
{
	enum { LEN = 1024 * 1024 };
	char *body = malloc(LEN);

	assert_non_null(body);
	for (size_t i = 0; i < LEN; i++)
		body[i] = (char)('a' + i * 7 % 26);
	comes_back(f, &WHERRY_MESSAGE(.topic = "text", .body = body, .body_len = LEN));
	for (size_t i = 0; i < LEN; i++)
		body[i] = (char)(i * 31 % 256);
	comes_back(f, &WHERRY_MESSAGE(.topic = "binary", .body = body, .body_len = LEN));
	free(body);
}

/* ---- limits ---- */

WHERRY_CASE(each_field_has_a_limit_and_may_reach_it, outbox_fixture *f)
{
	enum { HEADERS_MOST = 256 * 1024 };
	char *headers = malloc(HEADERS_MOST + 2);
	char text[1026];

	for (int over = 1; over >= 0; over--) {
		wherry_message base =
			WHERRY_MESSAGE(.topic = "t", .body = "", .body_len = 0);
		struct {
			const char **field;
			const char *says;
			size_t most;
		} fields[] = {
			{&base.message_id, "message_id", 255},
			{&base.topic, "topic", 255},
			{&base.aggregate_type, "aggregate_type", 255},
			{&base.aggregate_id, "aggregate_id", 255},
			{&base.key, "key", 1024},
			{&base.trace_id, "trace_id", 255},
		};

		for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
			wherry_message kept = base;

			memset(text, 'x', sizeof(text));
			text[fields[i].most + (size_t)over] = 0;
			*fields[i].field = text;
			if (over)
				is_refused(f, &base, WHERRY_TOOBIG, fields[i].says);
			else
				comes_back(f, &base);
			base = kept;
		}
		/* {"a":"…"} */
		memset(headers, 'x', HEADERS_MOST + 2);
		memcpy(headers, "{\"a\":\"", 6);
		memcpy(headers + HEADERS_MOST + over - 2, "\"}", 3);
		base.headers = headers;
		if (over)
			is_refused(f, &base, WHERRY_TOOBIG, "headers");
		else
			comes_back(f, &base);
	}
	free(headers);
}

WHERRY_CASE(a_body_over_the_limit_is_refused_and_names_the_setting, outbox_fixture *f)
{
	char body[2000];
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = body, .body_len = 1001);

	memset(body, 'x', sizeof(body));
	f->outbox->store.body_max = 1000;
	is_refused(f, &msg, WHERRY_TOOBIG, "outbox.body_max");
	msg.body_len = 1000;
	comes_back(f, &msg);
}

WHERRY_CASE(the_limit_of_a_body_is_16_MiB, outbox_fixture *f)
{
	enum { MOST = 16 * 1024 * 1024 };
	char *body = calloc(1, MOST + 1);
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .body = body, .body_len = MOST + 1);

	is_refused(f, &msg, WHERRY_TOOBIG, "16777217");
	msg.body_len = SIZE_MAX; /* of an application that took -1 for a length */
	is_refused(f, &msg, WHERRY_TOOBIG, "body");
	msg.body_len = MOST;
	comes_back(f, &msg);
	free(body);
}

/* ---- what is refused ---- */

WHERRY_CASE(text_that_is_not_UTF8_is_refused, outbox_fixture *f)
{
	static const char *const bad[] = {
		"\xff",     "a\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
		"\xe2\x82", NULL};

	for (int i = 0; bad[i]; i++) {
		wherry_message rows[] = {
			WHERRY_MESSAGE(.topic = bad[i]),
			WHERRY_MESSAGE(.topic = "t", .message_id = bad[i]),
			WHERRY_MESSAGE(.topic = "t", .aggregate_type = bad[i]),
			WHERRY_MESSAGE(.topic = "t", .aggregate_id = bad[i]),
			WHERRY_MESSAGE(.topic = "t", .key = bad[i]),
			WHERRY_MESSAGE(.topic = "t", .trace_id = bad[i]),
			WHERRY_MESSAGE(.topic = "t", .headers = bad[i]),
		};

		for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
			rows[k].body = "";
			is_refused(f, &rows[k], WHERRY_INVALID, "UTF-8");
		}
	}
}

WHERRY_CASE(headers_that_are_no_object_of_strings_are_refused, outbox_fixture *f)
{
	static const char *const bad[] = {"[]",
					  "[\"a\"]",
					  "\"a\"",
					  "7",
					  "null",
					  "",
					  "{",
					  "{\"a\":}",
					  "{\"a\":1}",
					  "{\"a\":true}",
					  "{\"a\":[\"b\"]}",
					  "{\"a\":{}}",
					  "{'a':'b'}",
					  "{\"a\":\"b\"} x",
					  "{\"a\":\"\xc3\"}",
					  "{\"a\":\"b\",}",
					  NULL};

	for (int i = 0; bad[i]; i++)
		is_refused(f,
			   &WHERRY_MESSAGE(.topic = "t", .headers = bad[i], .body = ""),
			   WHERRY_INVALID, "");
}

/* Of a program compiled for another version: its fields may lie elsewhere. */
WHERRY_CASE(a_message_of_an_older_program_is_taken, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msgs[] = {
		WHERRY_MESSAGE(.topic = "t", .body = "a", .body_len = 1),
		WHERRY_MESSAGE(.topic = "t", .body = "b", .body_len = 1)};
	const size_t older = offsetof(wherry_message, id);
	char packed[2 * sizeof(wherry_message)];

	for (int i = 0; i < 2; i++) {
		msgs[i].size = older;
		memcpy(packed + (size_t)i * older, &msgs[i], older);
	}
	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, (const wherry_message *)packed, 2,
					     WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM outbox"), 2);
	fixture_raw(f, "DELETE FROM outbox");
	msgs[0].size = older - 1;
	is_refused(f, &msgs[0], WHERRY_INVALID, "size of the message");
}

WHERRY_CASE(a_message_of_a_newer_program_is_taken_unless_it_uses_what_is_new,
	    outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	struct {
		wherry_message msg;
		const char *newer;
	} newer = {WHERRY_MESSAGE(.topic = "t", .body = ""), "new"};

	newer.msg.size = sizeof(newer);
	is_refused(f, &newer.msg, WHERRY_UNSUPPORTED, "needs a newer libwherry");
	newer.newer = NULL;
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &newer.msg, WHERRY_OWN_TRANSACTION,
					NULL, &err));
}

/* The sender's buffer may hold anything there, or end. */
static void a_body_of_length_0_is_empty_and_not_read(void **state)
{
	char *ends = malloc(1);

	assert_non_null(ends);
	*ends = 'x';
	comes_back(*state,
		   &WHERRY_MESSAGE(.topic = "t", .body = "not sent", .body_len = 0));
	comes_back(*state, &WHERRY_MESSAGE(.topic = "t", .body = ends, .body_len = 0));
	comes_back(*state,
		   &WHERRY_MESSAGE(.topic = "t", .body = ends + 1, .body_len = 0));
	free(ends);
}

WHERRY_CASE(the_library_measures_a_body_that_is_text, outbox_fixture *f)
{
	const wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = "{\"a\": 1}",
						  .body_len = WHERRY_TEXT);
	wherry_message long_as_it_is = msg;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	long_as_it_is.body_len = 8;
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	WHERRY_PASS(wh_outbox_read(f->outbox, UINT64_MAX, id - 1, 1, compare_open,
				   &long_as_it_is, &err));
}

WHERRY_CASE(init_does_what_the_macro_does, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg;

	memset(&msg, 0x55, sizeof(msg));
	wherry_message_init(&msg);
	assert_int_equal(msg.size, sizeof(msg));
	msg.topic = "t";
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
}

WHERRY_CASE(a_message_needs_a_size_a_topic_and_a_body, outbox_fixture *f)
{
	wherry_message none = {.topic = "t", .body = ""};

	is_refused(f, &none, WHERRY_INVALID, "WHERRY_MESSAGE");
	is_refused(f, &WHERRY_MESSAGE(.body = ""), WHERRY_INVALID, "topic");
	is_refused(f, &WHERRY_MESSAGE(.topic = "", .body = ""), WHERRY_INVALID, "topic");
	is_refused(f, &WHERRY_MESSAGE(.topic = "t", .body_len = WHERRY_TEXT),
		   WHERRY_INVALID, "body");
	is_refused(f, &WHERRY_MESSAGE(.topic = "t", .body_len = 1), WHERRY_INVALID,
		   "body");
	is_refused(f, NULL, WHERRY_INVALID, "message");
}

WHERRY_CASE(a_refused_message_leaves_the_transaction_as_it_was, outbox_fixture *f)
{
	wherry_message good = WHERRY_MESSAGE(.topic = "t", .body = ""),
		       bad = WHERRY_MESSAGE(.topic = "t", .headers = "[]", .body = "");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &good, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, outbox_does.enqueue(f->outbox, &bad, 0, NULL, &err));
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &good, 0, NULL, &err));
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_int_equal(fixture_count(f), 2);
}

const outbox_case outbox_field_cases[] = {
	CASE_THAT_NEEDS(every_field_comes_back, NEEDS_BYTES),
	CASE(an_empty_key_is_none),
	CASE(an_empty_message_id_is_made),
	CASE(a_text_body_is_text_in_the_database),
	CASE_THAT_NEEDS(large_bodies_come_back, NEEDS_BYTES),
	CASE(each_field_has_a_limit_and_may_reach_it),
	CASE(a_body_over_the_limit_is_refused_and_names_the_setting),
	CASE_THAT_NEEDS(the_limit_of_a_body_is_16_MiB, NEEDS_BYTES),
	CASE(text_that_is_not_UTF8_is_refused),
	CASE(headers_that_are_no_object_of_strings_are_refused),
	CASE(a_message_of_an_older_program_is_taken),
	CASE(a_message_of_a_newer_program_is_taken_unless_it_uses_what_is_new),
	CASE(a_body_of_length_0_is_empty_and_not_read),
	CASE(the_library_measures_a_body_that_is_text),
	CASE(init_does_what_the_macro_does),
	CASE(a_message_needs_a_size_a_topic_and_a_body),
	CASE(a_refused_message_leaves_the_transaction_as_it_was),
	{NULL, NULL, 0},
};
