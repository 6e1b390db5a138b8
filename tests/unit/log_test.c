/* Rendering of log records, as text and as JSON, with values that try to be more. */
#include "wherry_test.h"

#include "base/log.h"
#include "log_line.h"

typedef struct row {
	const char *name;
	const char *value; /* bytes up to NUL, unless len says otherwise */
	const char *text;  /* how it is written behind "v=" */
	const char *means; /* what it parses back to; NULL: value */
	size_t len;
} row;

static const row rows[] = {
	{"word", "abc-1.2:3", "abc-1.2:3", NULL, 0},
	{"empty", "", "\"\"", NULL, 0},
	{"blank", "two words", "\"two words\"", NULL, 0},
	{"pair", "a b=c", "\"a b=c\"", NULL, 0},
	{"equals", "a=b", "\"a=b\"", NULL, 0},
	{"quote", "he said \"no\"", "\"he said \\\"no\\\"\"", NULL, 0},
	{"quote and pair", "x\" level=error event=\"y",
	 "\"x\\\" level=error event=\\\"y\"", NULL, 0},
	{"backslash", "C:\\new", "\"C:\\\\new\"", NULL, 0},
	{"line", "a\nevent=dead id=7", "\"a\\nevent=dead id=7\"", NULL, 0},
	{"carriage return", "a\rb", "\"a\\rb\"", NULL, 0},
	{"tab", "a\tb", "\"a\\tb\"", NULL, 0},
	{"escape sequence", "\x1b[2J\x1b]0;x\a", "\"\\u001b[2J\\u001b]0;x\\u0007\"", NULL,
	 0},
	{"delete", "a\x7f", "\"a\\u007f\"", NULL, 0},
	{"C1 control",
	 "\xc2\x9b"
	 "31m",
	 "\"\\u009b31m\"", NULL, 0},
	{"next line",
	 "a\xc2\x85"
	 "b",
	 "\"a\\u0085b\"", NULL, 0},
	{"line separator",
	 "a\xe2\x80\xa8"
	 "b",
	 "\"a\\u2028b\"", NULL, 0},
	{"right to left",
	 "a\xe2\x80\xae"
	 "b",
	 "\"a\\u202eb\"", NULL, 0},
	{"NUL", "a\0b", "\"a\\u0000b\"", "a\0b", 3},
	{"UTF-8", "Zürich 日本 🚀", "\"Zürich 日本 🚀\"", NULL, 0},
	{"no UTF-8", "a\xff\xc3(", "\"a\xef\xbf\xbd\xef\xbf\xbd(\"",
	 "a\xef\xbf\xbd\xef\xbf\xbd(", 0},
	{"half a character", "a\xe2\x82", "\"a\xef\xbf\xbd\xef\xbf\xbd\"",
	 "a\xef\xbf\xbd\xef\xbf\xbd", 0},
	{"surrogate", "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"",
	 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 0},
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

static size_t length(const row *r)
{
	return r->len ? r->len : strlen(r->value);
}

static wherry_log_record record_of(const wherry_log_field *fields, size_t n)
{
	return (wherry_log_record){.size = sizeof(wherry_log_record),
				   .level = WHERRY_LOG_WARN,
				   .part = "test",
				   .event = "tried",
				   .fields = fields,
				   .n_fields = n};
}

static void assert_means(const json_t *fields, const row *r)
{
	const json_t *value = json_object_get(fields, "v");
	const char *means = r->means ? r->means : r->value;
	size_t len = r->len ? r->len : strlen(means);

	if (json_string_length(value) != len ||
	    memcmp(json_string_value(value), means, len) != 0)
		fail_msg("%s: '%s' is read back", r->name, json_string_value(value));
}

WHERRY_TEST(a_value_stays_one_field_of_one_line)
{
	for (size_t i = 0; i < ROWS; i++) {
		const wherry_log_field fields[] = {
			wh_log_bytes("v", rows[i].value, length(&rows[i])),
			wh_log_int("n", -5)};
		wherry_log_record record = record_of(fields, 2);
		wh_buf line = WH_BUF_INIT(10000);
		char wanted[200];
		json_t *back;

		wh_log_fields(&line, &record);
		(void)snprintf(wanted, sizeof(wanted), "event=tried v=%s n=-5",
			       rows[i].text);
		assert_string_equal(wh_buf_str(&line), wanted);
		back = log_line_parse(wh_buf_str(&line));
		assert_non_null(back);
		assert_int_equal(json_object_size(back), 3);
		assert_means(back, &rows[i]);
		json_decref(back);
		wh_buf_clear(&line);
	}
}

WHERRY_TEST(a_line_of_json_is_made_of_the_fields)
{
	for (size_t i = 0; i < ROWS; i++) {
		const wherry_log_field fields[] = {
			wh_log_bytes("v", rows[i].value, length(&rows[i])),
			wh_log_int("n", INT64_MIN), wh_log_us("wait", 250000)};
		wherry_log_record record = record_of(fields, 3);
		wh_log_head head = {.json = true, .time = "now", .relay = "orders"};
		wh_buf line = WH_BUF_INIT(10000);
		json_t *back;

		wh_log_line(&line, &head, &record);
		for (size_t k = 0; k + 1 < line.len; k++)
			assert_in_range(line.ptr[k], ' ', 0x7f);
		assert_int_equal(line.ptr[line.len - 1], '\n');
		back = json_loadb(line.ptr, line.len,
				  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
		assert_non_null(back);
		assert_int_equal(json_object_size(back), 8);
		assert_true(log_line_has(back, "time", "now"));
		assert_true(log_line_has(back, "level", "warn"));
		assert_true(log_line_has(back, "part", "test"));
		assert_true(log_line_has(back, "relay", "orders"));
		assert_true(log_line_has(back, "event", "tried"));
		assert_true(json_integer_value(json_object_get(back, "n")) == INT64_MIN);
		assert_true(json_real_value(json_object_get(back, "wait")) == 0.25);
		assert_means(back, &rows[i]);
		json_decref(back);
		wh_buf_clear(&line);
	}
}

WHERRY_TEST(a_line_of_text_begins_with_when_how_bad_and_where)
{
	wherry_log_record record = record_of(NULL, 0);
	wh_log_head head = {.time = "now"};
	wh_buf line = WH_BUF_INIT(10000);

	wh_log_line(&line, &head, &record);
	assert_string_equal(wh_buf_str(&line),
			    "time=now level=warn part=test event=tried\n");
	wh_buf_reset(&line);
	head.relay = "orders";
	wh_log_line(&line, &head, &record);
	assert_string_equal(wh_buf_str(&line),
			    "time=now level=warn part=test relay=orders event=tried\n");
	wh_buf_clear(&line);
}

WHERRY_TEST(durations_are_seconds)
{
	static const struct {
		int64_t us;
		const char *text;
	} durations[] = {
		{0, "d=0s"},
		{1, "d=0.000001s"},
		{250000, "d=0.25s"},
		{-1500000, "d=-1.5s"},
		{90 * WH_SECOND, "d=90s"},
		{-1, "d=-0.000001s"},
		{INT64_MAX, "d=9223372036854.775807s"},
		{INT64_MIN, "d=-9223372036854.775808s"},
	};

	for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++) {
		const wherry_log_field field = wh_log_us("d", durations[i].us);
		wherry_log_record record = record_of(&field, 1);
		wh_buf line = WH_BUF_INIT(1000);

		wh_log_fields(&line, &record);
		assert_string_equal(wh_buf_str(&line) + strlen("event=tried "),
				    durations[i].text);
		wh_buf_clear(&line);
	}
}

/* 1000 bytes, no character in halves, and an ellipsis. */
WHERRY_TEST(a_long_value_is_cut_between_characters)
{
	wherry_log_field field = wh_log_text("v", "");
	wherry_log_record record = record_of(&field, 1);
	wh_buf line = WH_BUF_INIT(10000);
	char text[2001];
	const char *value;
	json_t *back;

	for (int i = 0; i < 1000; i++)
		memcpy(text + 2 * i, "ü", 2);
	memcpy(text, "ab", 2);
	text[2000] = 0;
	field = wh_log_text("v", text + 1);
	wh_log_fields(&line, &record);
	back = log_line_parse(wh_buf_str(&line));
	assert_non_null(back);
	value = json_string_value(json_object_get(back, "v"));
	assert_int_equal(strlen(value), 999 + strlen("…"));
	assert_string_equal(value + 997, "ü…");
	json_decref(back);
	wh_buf_clear(&line);
}

typedef struct kept {
	int calls;
	size_t n_fields;
	wherry_log_level level;
	char event[20];
} kept;

static void keep(void *ctx, const wherry_log_record *record)
{
	kept *k = ctx;

	k->calls++;
	k->n_fields = record->n_fields;
	k->level = record->level;
	(void)snprintf(k->event, sizeof(k->event), "%s", record->event);
}

WHERRY_TEST(an_event_has_any_number_of_fields)
{
	kept k = {0};
	wh_env env = {.log = keep, .log_ctx = &k};

	wh_log(&env, WHERRY_LOG_INFO, "test", "started");
	assert_int_equal(k.n_fields, 0);
	assert_string_equal(k.event, "started");
	wh_log(&env, WHERRY_LOG_DEBUG, "test", "moved", wh_log_text("from", NULL),
	       wh_log_int("n", 1), wh_log_note("a remark"));
	assert_int_equal(k.n_fields, 3);
	assert_int_equal(k.level, WHERRY_LOG_DEBUG);
	wh_log(&wh_env_system, WHERRY_LOG_INFO, "test", "goes-nowhere");
	assert_int_equal(k.calls, 2);
}

WHERRY_TEST_MAIN
