/*
 * Texts that are made of other texts, with each allocation failing in turn: they are whole,
 * or the function fails.
 */
#include "fault.h"

#include "base/log.h"
#include "base/url.h"
#include "db/sql.h"
#include "queue/queue.h"

/* Longer than a buffer is at first. */
#define LONG                                                                                \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

typedef wherry_code (*making)(wh_buf *out, wherry_error *err);

static wherry_code address(wh_buf *out, wherry_error *err)
{
	return wh_queue_address("[" LONG "]@[" LONG "]@[shop]", "shop", out, err);
}

static wherry_code own_address(wh_buf *out, wherry_error *err)
{
	return wh_queue_address("orders@dbo@shop", "shop", out, err);
}

/* A part as a string. */
static wherry_code statement(wh_buf *out, wherry_error *err)
{
	static const char text[] = "-- layout: native\n-- part: body\n" LONG "\n"
				   "-- name: one\nSELECT {'body} FROM {table}\n";
	wh_sql sql;
	wherry_code code = wh_sql_parse(text, "shop", &sql, err);

	if (code == WHERRY_OK) {
		wh_buf_puts(out, wh_sql_find(&sql, "one")->text);
		wh_sql_clear(&sql);
	}
	return code == WHERRY_OK ? wh_buf_check(out, err) : code;
}

static wherry_code joined(wh_buf *out, wherry_error *err)
{
	char *made = wh_url_join("sqlite:shop.db", "dq", "tasks", LONG);

	wh_buf_puts(out, made ? made : "");
	free(made);
	return made ? wh_buf_check(out, err) : wh_oom(err);
}

static wherry_code log_line(wh_buf *out, bool json, wherry_error *err)
{
	const wherry_log_field field = {.name = "why",
					.type = WHERRY_LOG_TEXT,
					.text = LONG,
					.len = sizeof(LONG) - 1};
	const wherry_log_record record = {
		.part = "relay", .event = "down", .fields = &field, .n_fields = 1};
	const wh_log_head head = {.json = json, .time = "now"};

	wh_log_line(out, &head, &record);
	if (strcmp(wh_buf_str(out), json ? "{\"event\":\"down\"}\n" : "event=down\n") ==
	    0)
		return wh_oom(err);
	return wh_buf_check(out, err);
}

static wherry_code log_text(wh_buf *out, wherry_error *err)
{
	return log_line(out, false, err);
}

static wherry_code log_json(wh_buf *out, wherry_error *err)
{
	return log_line(out, true, err);
}

WHERRY_TEST(a_text_is_whole_or_its_function_fails)
{
	static const struct {
		const char *name;
		making make;
	} makings[] = {
		{"address", address},     {"own_address", own_address},
		{"statement", statement}, {"joined", joined},
		{"log_text", log_text},   {"log_json", log_json},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int cut = 0;

	for (size_t i = 0; i < sizeof(makings) / sizeof(*makings); i++) {
		wh_buf whole = WH_BUF_INIT(64 * 1024);
		bool hit = true;

		WHERRY_PASS(makings[i].make(&whole, &err));
		if (!whole.len)
			fail_msg("%s is empty", makings[i].name);
		for (int at = 1; hit; at++) {
			wh_buf made = WH_BUF_INIT(64 * 1024);
			wherry_code code;

			fault_arm((fault_plan){.kind = FAULT_MEMORY, .at = at, .n = 1});
			code = makings[i].make(&made, &err);
			hit = fault_hit();
			fault_disarm();
			if (code == WHERRY_OK &&
			    strcmp(wh_buf_str(&made), wh_buf_str(&whole)) != 0) {
				print_message("%s, allocation %d (%s): %s\n",
					      makings[i].name, at, fault_where(),
					      wh_buf_str(&made));
				cut++;
			}
			wh_buf_clear(&made);
		}
		wh_buf_clear(&whole);
	}
	assert_int_equal(cut, 0);
}

int main(void)
{
	fault_set_up();
	return wherry_run_tests(NULL, NULL);
}
