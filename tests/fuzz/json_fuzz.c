/* JSON: valid means that it parses; what is escaped comes back as it was. */
#include "fuzz.h"

#include <jansson.h>

#include "base/json.h"
#include "base/text.h"

static void round_trip(const char *text, size_t len)
{
	wh_buf buf = WH_BUF_INIT(1 << 20);
	json_t *value;

	wh_buf_json(&buf, text, len);
	CHECK(wh_buf_check(&buf, NULL) == WHERRY_OK);
	CHECK(wh_utf8_valid(buf.ptr, buf.len));
	value = json_loadb(buf.ptr, buf.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	CHECK(json_is_string(value));
	if (wh_utf8_valid(text, len)) {
		CHECK(json_string_length(value) == len);
		CHECK(len == 0 || memcmp(json_string_value(value), text, len) == 0);
	}
	json_decref(value);
	wh_buf_clear(&buf);
}

static void check_place(const char *text, size_t len)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int column = 0;

	if (wh_json_check(text, len, &column, &err) == WHERRY_OK) {
		CHECK(wh_json_valid(text, len) && column == 0);
		CHECK(memchr(text, 0, len) == NULL);
	} else {
		CHECK(!wh_json_valid(text, len));
		CHECK(column >= 1 && (size_t)column <= len + 1);
		CHECK(err.code == WHERRY_INVALID && *err.message);
		CHECK(!strpbrk(err.message, "\n\r\033"));
	}
}

/* Headers that pass are an object of strings, and nothing else. */
static void check_headers(const char *text, size_t len)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *name;
	json_t *object, *value;

	if (wh_json_headers(text, len, &err) != WHERRY_OK) {
		CHECK(err.code == WHERRY_INVALID && *err.message);
		return;
	}
	CHECK(wh_json_valid(text, len));
	object = json_loadb(text, len, 0, NULL);
	CHECK(json_is_object(object));
	json_object_foreach (object, name, value)
		CHECK(json_is_string(value) || json_is_null(value));
	json_decref(object);
}

/* ~0 and ~1 are the only escapes; with them any bytes can be a part. */
static void check_pointer(const char *text)
{
	char *pointer = calloc(1, strlen(text) * 2 + 2);
	size_t n = 0;

	if (!pointer)
		abort();
	pointer[n++] = '/';
	for (const char *s = text; *s; s++) {
		pointer[n++] = *s == '/' ? '~' : *s;
		if (*s == '/' || *s == '~')
			pointer[n++] = *s == '/' ? '1' : '0';
	}
	CHECK(wh_json_pointer_valid(pointer));
	CHECK(!*text || *text == '/' || !wh_json_pointer_valid(text));
	free(pointer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);

	round_trip(text, len);
	check_place(text, len);
	check_headers(text, len);
	check_pointer(text);
	free(text);
	return 0;
}
