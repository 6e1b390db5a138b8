/* A message as a line of JSON: it parses, and gives back every field and the body. */
#include "fuzz.h"

#include <jansson.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

enum { FLAGS = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL };

/* What is no UTF-8 comes back changed, but as a string. */
static void check_text(const json_t *line, const char *name, const char *text)
{
	const json_t *value = json_object_get(line, name);

	CHECK(json_is_string(value));
	if (wh_utf8_valid(text, strlen(text)))
		CHECK(strcmp(json_string_value(value), text) == 0);
}

static void check_field(const json_t *line, const char *name, const char *text)
{
	if (text)
		check_text(line, name, text);
	else
		CHECK(json_is_null(json_object_get(line, name)));
}

static void check_if_any(const json_t *line, const char *name, const char *text)
{
	if (text && *text)
		check_text(line, name, text);
	else
		CHECK(!json_object_get(line, name));
}

static int sextet(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : 0; /* = counts for nothing */
}

static void check_base64(const char *text, const uint8_t *body, size_t len)
{
	CHECK(strlen(text) == (len + 2) / 3 * 4);
	for (size_t i = 0; i < len; i++) {
		const char *four = text + i / 3 * 4;
		int bits = sextet(four[0]) << 18 | sextet(four[1]) << 12 |
			   sextet(four[2]) << 6 | sextet(four[3]);

		CHECK((bits >> (16 - i % 3 * 8) & 0xff) == body[i]);
	}
}

static void check_body(const json_t *line, const char *body, size_t len)
{
	const json_t *value = json_object_get(line, "body");
	const json_t *base64 = json_object_get(line, "body_base64");
	json_t *alone;

	CHECK(!value != !base64);
	if (base64) {
		CHECK(!wh_utf8_valid(body, len));
		check_base64(json_string_value(base64), (const uint8_t *)body, len);
	} else if (len && wh_json_valid(body, len)) {
		alone = json_loadb(body, len, FLAGS, NULL);
		CHECK(json_equal(alone, value));
		json_decref(alone);
	} else {
		CHECK(json_string_length(value) == len);
		CHECK(!len || memcmp(json_string_value(value), body, len) == 0);
	}
}

static void check_line(const char *text, size_t len, const wherry_message *m)
{
	json_t *line = json_loadb(text, len, FLAGS, NULL);
	const char *headers = wh_message_headers(m);
	json_t *alone = json_loadb(headers, strlen(headers), FLAGS, NULL);

	CHECK(json_is_object(line));
	CHECK(len && memchr(text, '\n', len) == text + len - 1 &&
	      !memchr(text, '\r', len));
	CHECK(json_real_value(json_object_get(line, "id")) == (double)m->id);
	CHECK(json_real_value(json_object_get(line, "attempts")) == m->attempts);
	check_field(line, "message_id", m->message_id);
	check_field(line, "topic", m->topic);
	check_field(line, "key", wh_message_key(m));
	check_if_any(line, "aggregate_type", m->aggregate_type);
	check_if_any(line, "aggregate_id", m->aggregate_id);
	check_if_any(line, "trace_id", m->trace_id);
	CHECK(m->created_at_us ? json_is_string(json_object_get(line, "created_at"))
			       : json_is_null(json_object_get(line, "created_at")));
	CHECK(json_equal(alone, json_object_get(line, "headers")));
	check_body(line, m->body ? m->body : "", m->body_len);
	json_decref(alone);
	json_decref(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf buf = WH_BUF_INIT(1 << 20);
	const char *headers;
	fuzz_message f;

	fuzz_message_read(&f, data, len);
	headers = wh_message_headers(&f.message);
	wh_buf_puts(&buf, "before\n");
	if (wh_message_line(&buf, &f.message, &err) == WHERRY_OK) {
		check_line(buf.ptr + 7, buf.len - 7, &f.message);
		/* Without room for it nothing is written. */
		buf.most = buf.len;
		CHECK(wh_message_line(&buf, &f.message, &err) == WHERRY_TOOBIG);
		CHECK(buf.len == buf.most && buf.ptr[buf.len] == 0);
	} else {
		CHECK(err.code == WHERRY_INVALID && *err.message);
		CHECK(wh_json_headers(headers, strlen(headers), NULL) != WHERRY_OK);
		CHECK(buf.len == 7);
	}
	wh_buf_clear(&buf);
	fuzz_message_clear(&f);
	return 0;
}
