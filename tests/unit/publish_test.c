/*
 * Opening destinations, lines of JSON, and the two destinations that go nowhere.
 */
#include "publish_fixture.h"

#include <jansson.h>

#include "base/text.h"
#include "publish/parts.h"

/* ---- publish.c ---- */

WHERRY_TEST_WITH(an_unknown_scheme_names_the_nearest_and_all, set_up, tear_down)
{
	refuses("stdot:", WHERRY_INVALID, "did you mean 'stdout:'?");
	refuses("stdot:", WHERRY_INVALID,
		"known are stdout:, file:, exec:, memory:, null:");
	refuses("kafka://host", WHERRY_INVALID,
		"unknown destination 'kafka:'; known are");
	refuses("stdout", WHERRY_INVALID, "is not a URL");
	refuses("", WHERRY_INVALID, "is not a URL");
	refuses("/var/log/x", WHERRY_INVALID, "write file:/var/log/x");
}

WHERRY_TEST(an_answer_is_cut_and_what_stands_around_it_is_not)
{
	static const struct {
		size_t cap;
		const char *before, *answer, *advice, *out;
	} rows[] = {
		{40, "refused", "NO way", "go", "refused: NO way; go"},
		{40, "refused", "NO user is disabled.", "see x",
		 "refused: NO user is disabled; see x"},
		{40, "", "ends in a line.\r\n", NULL, "ends in a line"},
		{40, NULL, "", "go", "; go"},
		{40, "a", "b\tc\033[1m", NULL, "a: b c [1m"},
		{40, NULL, "an answer that is a little too long", "go back",
		 "an answer that is a little …; go back"},
		{20, "before", "grün", "go", "before: grün; go"},
		{17, "before", "grün", "go", "before: g…; go"},
		{12, "before", "an answer", "advice", "before: ; a"},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		wh_put_answer(out, rows[i].cap, rows[i].before, rows[i].answer,
			      rows[i].advice);
		assert_true(strlen(out) < rows[i].cap);
		assert_true(wh_utf8_valid(out, strlen(out)));
		assert_string_equal(out, rows[i].out);
	}
}

WHERRY_TEST_WITH(what_needs_nothing_refuses_a_rest, set_up, tear_down)
{
	refuses("stdout:x", WHERRY_INVALID, "file:x");
	refuses("memory:x", WHERRY_INVALID, "stands alone");
	refuses("null:x", WHERRY_INVALID, "stands alone");
	refuses("file:", WHERRY_INVALID, "needs a path");
	refuses("exec:", WHERRY_INVALID, "needs a command");
	refuses("exec: \t", WHERRY_INVALID, "needs a command");
}

WHERRY_TEST_WITH(missing_arguments_are_an_error, set_up, tear_down)
{
	wherry_publisher *pub = NULL;

	assert_int_equal(wherry_publisher_open(NULL, NULL, &pub, NULL), WHERRY_INVALID);
	assert_int_equal(wherry_publisher_open("null:", NULL, NULL, NULL),
			 WHERRY_INVALID);
	wherry_publisher_close(NULL);
}

/* ---- line.c ---- */

static void assert_line(const wherry_message *msg, const char *want)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf buf = WH_BUF_INIT(BIG);
	json_t *parsed;

	WHERRY_PASS(wh_message_line(&buf, msg, &err));
	assert_string_equal(wh_buf_str(&buf), want);
	parsed = json_loads(wh_buf_str(&buf), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
			    NULL);
	assert_non_null(parsed);
	json_decref(parsed);
	wh_buf_clear(&buf);
}

WHERRY_TEST_WITH(a_line_has_all_fields_in_order, set_up, tear_down)
{
	wherry_message m = message("{\"a\":1}");

	m.id = 7;
	m.aggregate_type = "order";
	m.aggregate_id = "42";
	m.trace_id = "tr";
	m.headers = "{\"h\": \"v\",\n\"n\":null}";
	m.created_at_us = 1700000000123456;
	m.attempts = 2;
	assert_line(&m, "{\"id\":7,\"message_id\":\"m\",\"topic\":\"t\",\"key\":\"42\","
			"\"aggregate_type\":\"order\",\"aggregate_id\":\"42\","
			"\"trace_id\":\"tr\",\"headers\":{\"h\": \"v\", \"n\":null},"
			"\"body\":{\"a\":1},\"created_at\":\"2023-11-14T22:13:20.123Z\","
			"\"attempts\":2}\n");
	m.key = "k\"\n";
	m.aggregate_type = m.aggregate_id = m.trace_id = m.headers = "";
	m.created_at_us = -1;
	assert_line(&m,
		    "{\"id\":7,\"message_id\":\"m\",\"topic\":\"t\",\"key\":\"k\\\"\\n\","
		    "\"headers\":{},\"body\":{\"a\":1},"
		    "\"created_at\":\"1969-12-31T23:59:59.999Z\",\"attempts\":2}\n");
}

static void assert_body(const void *body, size_t len, const char *want)
{
	wherry_message m = message("");
	char line[256];

	m.body = body;
	m.body_len = len;
	(void)snprintf(line, sizeof(line),
		       "{\"id\":0,\"message_id\":\"m\",\"topic\":\"t\",\"key\":null,"
		       "\"headers\":{},%s,\"created_at\":null,"
		       "\"attempts\":0}\n",
		       want);
	assert_line(&m, line);
}

WHERRY_TEST_WITH(odd_bodies_become_json, set_up, tear_down)
{
	assert_body("", 0, "\"body\":\"\"");
	assert_body(NULL, 0, "\"body\":\"\"");
	assert_body("{\n\"a\":\r\n[1]}\n", 13, "\"body\":{ \"a\":  [1]} ");
	assert_body(" null ", 6, "\"body\": null ");
	assert_body("\"x\\u0000\"", 9, "\"body\":\"x\\u0000\"");
	assert_body("plain\ntext", 10, "\"body\":\"plain\\ntext\"");
	assert_body("{} {}", 5, "\"body\":\"{} {}\"");
	assert_body("{}\0", 3, "\"body\":\"{}\\u0000\"");
	assert_body("\"a\nb\"", 5, "\"body\":\"\\\"a\\nb\\\"\"");
	assert_body("\xc3\xa4", 2, "\"body\":\"\xc3\xa4\"");
	assert_body("\xff\xfe", 2, "\"body_base64\":\"//4=\"");
	assert_body("\"\xff\"", 3, "\"body_base64\":\"Iv8i\"");
	assert_body("1e999", 5, "\"body\":\"1e999\"");
}

WHERRY_TEST_WITH(malformed_headers_leave_the_buffer_alone, set_up, tear_down)
{
	static const char *const bad[] = {"[]", "{", "{\"a\":1}", "nonsense", "{}{}"};
	wh_buf buf = WH_BUF_INIT(40);
	wherry_message m = message("a body longer than the ceiling of the buffer");
	wherry_error err = WHERRY_ERROR_INIT;

	wh_buf_puts(&buf, "before");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		m.headers = bad[i];
		assert_int_equal(wh_message_line(&buf, &m, &err), WHERRY_INVALID);
		assert_string_equal(wh_buf_str(&buf), "before");
	}
	m.headers = NULL;
	assert_int_equal(wh_message_line(&buf, &m, &err), WHERRY_TOOBIG);
	assert_string_equal(wh_buf_str(&buf), "before");
	wh_buf_puts(&buf, "!");
	assert_string_equal(wh_buf_str(&buf), "before!");
	wh_buf_clear(&buf);
}

/* ---- memory: and null: ---- */

WHERRY_TEST_WITH(memory_keeps_deep_copies, set_up, tear_down)
{
	char topic[] = "topic", body[] = "bo\0dy", key[] = "key";
	wherry_message m = WHERRY_MESSAGE(.topic = topic, .body = body, .body_len = 5);
	wherry_publisher *pub = open_url("memory:");
	const wherry_message *got;

	m.key = key;
	m.id = 3;
	assert_null(wherry_memory_get(pub, 0));
	for (int i = 0; i < 1000; i++)
		delivers(pub, &m);
	topic[0] = body[0] = key[0] = 'X';
	assert_int_equal(wherry_memory_count(pub), 1000);
	got = wherry_memory_get(pub, 999);
	assert_string_equal(got->topic, "topic");
	assert_string_equal(got->key, "key");
	assert_memory_equal(got->body, "bo\0dy", 5);
	assert_int_equal(got->body_len, 5);
	assert_int_equal(got->id, 3);
	assert_null(got->headers);
	assert_null(wherry_memory_get(pub, 1000));
	is_idle(pub);
	wherry_publisher_close(pub);
}

/* Messages of topic "bad" fail. */
static wherry_verdict answer(void *ctx, const wherry_message *msg, char *reason,
			     size_t cap)
{
	++*(int *)ctx;
	if (strcmp(msg->topic, "bad") != 0)
		return WHERRY_DELIVERED;
	(void)snprintf(reason, cap + 1, "%0300d", 1);
	return WHERRY_REJECTED;
}

WHERRY_TEST_WITH(memory_fails_what_is_behind_a_failed_message, set_up, tear_down)
{
	enum { N = 8 };
	static const struct {
		const char *topic, *key, *type, *id;
		wherry_verdict want;
	} table[N] = {
		{"good", "k", NULL, NULL, WHERRY_DELIVERED},
		{"bad", "k", NULL, NULL, WHERRY_REJECTED},
		{"good", "other", NULL, NULL, WHERRY_DELIVERED},
		{"good", "k", "type", "id", WHERRY_RETRY},
		{"bad", "", "ab", "c", WHERRY_REJECTED},
		{"good", NULL, "a", "bc", WHERRY_DELIVERED},
		{"good", NULL, "ab", "c", WHERRY_RETRY},
		{"good", NULL, NULL, "", WHERRY_DELIVERED},
	};
	wherry_publisher *pub = open_url("memory:");
	const wherry_message *all[N];
	wherry_message m[N];
	wh_receipt receipts[N];
	int calls = 0;

	wherry_memory_answer(pub, answer, &calls);
	for (int i = 0; i < N; i++) {
		m[i] = message("x");
		m[i].topic = table[i].topic;
		m[i].key = table[i].key;
		m[i].aggregate_type = table[i].type;
		m[i].aggregate_id = table[i].id;
		all[i] = &m[i];
	}
	assert_int_equal(submit(pub, all, N), N);
	assert_int_equal(wh_publisher_deadline(pub), 0);
	collect(pub, receipts, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(receipts[i].verdict, table[i].want);
	assert_string_equal(receipts[3].reason, "behind a failed message of its key");
	assert_int_equal(strlen(receipts[1].reason), sizeof(receipts[1].reason) - 1);
	assert_int_equal(calls, N - 2);
	assert_int_equal(wherry_memory_count(pub), 4);
	delivers(pub, &m[3]); /* all is collected: its key is free again */
	wherry_memory_answer(pub, NULL, NULL);
	delivers(pub, &m[1]);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(memory_blames_only_what_was_taken_before_the_failure, set_up, tear_down)
{
	wherry_publisher *pub = open_url("memory:");
	wherry_message m[3] = {message("1"), message("2"), message("3")};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];
	int calls = 0;
	size_t n;

	wherry_memory_answer(pub, answer, &calls);
	m[0].key = m[1].key = m[2].key = "k";
	m[0].topic = "bad";
	submit_one(pub, &m[0]);
	submit_one(pub, &m[1]);
	WHERRY_PASS(wh_publisher_collect(pub, receipts, 1, &n, &err));
	assert_int_equal(receipts[0].verdict, WHERRY_REJECTED);
	submit_one(pub, &m[2]); /* by one who knows of the failure */
	collect(pub, receipts, 2);
	assert_int_equal(receipts[0].verdict, WHERRY_RETRY);
	assert_int_equal(receipts[1].verdict, WHERRY_DELIVERED);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(memory_remembers_many_failed_keys, set_up, tear_down)
{
	enum { KEYS = 1000 };
	static wherry_message m[KEYS * 2];
	static char keys[KEYS][16];
	wherry_publisher *pub = open_url("memory:");
	wh_receipt receipt;
	int calls = 0;

	wherry_memory_answer(pub, answer, &calls);
	for (int i = 0; i < KEYS * 2; i++) {
		(void)snprintf(keys[i % KEYS], sizeof(keys[0]), "key-%d", i % KEYS);
		m[i] = message("x");
		m[i].topic = i < KEYS ? "bad" : "good";
		m[i].key = keys[i % KEYS];
		submit_one(pub, &m[i]);
	}
	for (int i = 0; i < KEYS * 2; i++) {
		collect(pub, &receipt, 1);
		assert_ptr_equal(receipt.message, &m[i]);
		assert_int_equal(receipt.verdict,
				 i < KEYS ? WHERRY_REJECTED : WHERRY_RETRY);
	}
	assert_int_equal(wherry_memory_count(pub), 0);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(null_delivers_everything, set_up, tear_down)
{
	wherry_publisher *pub = open_url("null:");
	const wherry_message *all[MOST];
	wherry_message m[MOST];
	wh_receipt receipts[MOST];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MOST; i++) {
			m[i] = numbered(i);
			all[i] = &m[i];
		}
		submit_one(pub, &m[0]);
		collect(pub, receipts, 1);
		assert_int_equal(submit(pub, all, MOST), MOST);
		assert_int_equal(submit(pub, all, 10),
				 10); /* the ring grows while it is bent */
		collect(pub, receipts, MOST);
		for (int i = 0; i < MOST; i++)
			assert_ptr_equal(receipts[i].message, all[i]);
		collect(pub, receipts, 10);
		is_idle(pub);
	}
	assert_int_equal(wherry_memory_count(pub), 0);
	assert_null(wherry_memory_get(pub, 0));
	wherry_memory_answer(pub, answer, NULL);
	wherry_publisher_close(pub);
}

/* ---- any destination ---- */

static int count_lines(const char *path)
{
	char *text = read_file(path, NULL);
	int n = 0;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		n++;
	free(text);
	return n;
}

WHERRY_TEST_WITH(after_a_drop_messages_are_taken_anew, set_up, tear_down)
{
	char in_file[600], by_command[600];
	const char *const urls[] = {"memory:", "null:", in_file, by_command};

	(void)snprintf(in_file, sizeof(in_file), "file:%s", in_dir("out"));
	(void)snprintf(by_command, sizeof(by_command), "exec:cat >>%s", in_dir("said"));
	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		wherry_message gone = message("1"), next = message("2");
		wherry_publisher *pub = open_url(urls[i]);

		submit_one(pub, &gone);
		wh_publisher_drop(pub);
		memset(&gone, 0xee, sizeof(gone)); /* nobody looks at it again */
		is_idle(pub);
		delivers(pub, &next);
		is_idle(pub);
		wherry_publisher_close(pub);
	}
	assert_int_equal(count_lines(in_dir("out")), 1);
}

WHERRY_TEST_MAIN
