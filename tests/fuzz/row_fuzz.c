/* A row as the commands write it with --json: JSON whatever is in the row. */
#include "fuzz.h"

#include <jansson.h>

#include "base/json.h"
#include "cli/item.h"

static void check(const wherry_row *row, bool whole)
{
	const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
	const wherry_message *m = row->message;
	const char *headers = m->headers && *m->headers ? m->headers : "{}";
	const wh_item item = wh_item_of_row(row);
	wh_buf buf = WH_BUF_INIT(1 << 20);
	json_t *object;

	wh_put_item(&buf, &item, whole);
	CHECK(wh_buf_check(&buf, NULL) == WHERRY_OK);
	CHECK(!memchr(buf.ptr, '\n', buf.len));
	object = json_loadb(buf.ptr, buf.len, flags, NULL);
	CHECK(json_is_object(object));
	CHECK(strcmp(json_string_value(json_object_get(object, "state")),
		     wherry_state_name(row->state)) == 0);
	CHECK(json_real_value(json_object_get(object, "id")) == (double)m->id);
	if (whole)
		CHECK(!json_object_get(object, "malformed_headers") ==
		      (wh_json_headers(headers, strlen(headers), NULL) == WHERRY_OK));
	json_decref(object);
	wh_buf_clear(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wherry_row row = {0};
	fuzz_message f;

	fuzz_message_read(&f, data, len);
	row.message = &f.message;
	row.state = (wherry_state)(len % WHERRY_STATE_COUNT);
	row.last_error = f.message.trace_id;
	row.claimed_at_us = f.message.id;
	row.processed_at_us = -f.message.id;
	check(&row, false);
	check(&row, true);
	fuzz_message_clear(&f);
	return 0;
}
