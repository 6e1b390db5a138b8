/* Log lines: whatever a value is, a line is one line, parses back into the fields, and both
 * forms mean the same. */
#include "fuzz.h"

#include "base/log.h"
#include "base/text.h"
#include "log_line.h"

static void check_json(const wherry_log_record *record, const json_t *fields)
{
	wh_log_head head = {.json = true, .time = "now", .relay = "r"};
	wh_buf line = WH_BUF_INIT(1 << 20);
	json_t *back;

	wh_log_line(&line, &head, record);
	for (size_t i = 0; i + 1 < line.len; i++)
		CHECK((unsigned char)(line.ptr[i] - ' ') < 0x60);
	back = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
			  NULL);
	CHECK(back && json_object_size(back) == 5 + record->n_fields);
	CHECK(json_equal(json_object_get(back, "a"), json_object_get(fields, "a")));
	CHECK(json_equal(json_object_get(back, "b"), json_object_get(fields, "b")));
	json_decref(back);
	wh_buf_clear(&line);
}

static void check_field(const json_t *fields, const char *name, const uint8_t *data,
			size_t len)
{
	const json_t *value = json_object_get(fields, name);
	const char *text = json_string_value(value);

	CHECK(text);
	CHECK(wh_utf8_valid(text, json_string_length(value)));
	if (len <= WH_LOG_TEXT_MAX && wh_utf8_valid((const char *)data, len))
		CHECK(json_string_length(value) == len && memcmp(text, data, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	size_t half = len / 2;
	const char *text = len ? (const char *)data : "";
	const wherry_log_field all[] = {wh_log_bytes("a", text, half),
					wh_log_bytes("b", text + half, len - half)};
	const wherry_log_record record = {.size = sizeof(record),
					  .level = WHERRY_LOG_INFO,
					  .part = "fuzz",
					  .event = "tried",
					  .fields = all,
					  .n_fields = 2};
	wh_buf line = WH_BUF_INIT(1 << 20);
	json_t *fields;

	wh_log_fields(&line, &record);
	CHECK(wh_buf_check(&line, NULL) == WHERRY_OK);
	fields = log_line_parse(wh_buf_str(&line));
	CHECK(fields && json_object_size(fields) == 3);
	check_field(fields, "a", data, half);
	check_field(fields, "b", data + half, len - half);
	check_json(&record, fields);
	json_decref(fields);
	wh_buf_clear(&line);
	return 0;
}
