/* JSON: valid means that it parses; what is escaped comes back as it was. */
#include "fuzz.h"

#include "base/json.h"
#include "base/text.h"

static void round_trip(const char *text, size_t len)
{
	wh_buf buf = WH_BUF_INIT(1 << 20);
	wherry_error err = WHERRY_ERROR_INIT;
	json_t *value = NULL;

	wh_buf_json(&buf, text, len);
	if (wh_buf_check(&buf, &err) == WHERRY_OK) {
		CHECK(wh_utf8_valid(buf.ptr, buf.len));
		CHECK(wh_json_parse(buf.ptr, buf.len, &value, &err) == WHERRY_OK);
		CHECK(json_is_string(value));
		if (wh_utf8_valid(text, len)) {
			CHECK(json_string_length(value) == len);
			CHECK(len == 0 ||
			      memcmp(json_string_value(value), text, len) == 0);
		}
		json_decref(value);
	}
	wh_buf_clear(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	wherry_error err = WHERRY_ERROR_INIT;
	json_t *value = NULL;

	round_trip(text, len);
	if (wh_json_parse(text, len, &value, &err) == WHERRY_OK) {
		CHECK(wh_json_valid(text, len));
		CHECK(wh_json_pointer(value, "") == value);
		(void)wh_json_pointer(value, text);
		json_decref(value);
	} else {
		CHECK(value == NULL && err.code == WHERRY_INVALID && *err.message);
	}
	if (wh_json_headers(text, len, &err) == WHERRY_OK)
		CHECK(wh_json_valid(text, len));
	if (wh_json_valid(text, len))
		CHECK(memchr(text, 0, len) == NULL);
	(void)wh_json_pointer_valid(text);
	free(text);
	return 0;
}
