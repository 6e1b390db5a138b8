/* Lines of JSON behind a pointer on a line of its own: what is wrong has a place inside of
 * the input, what is picked is what Jansson finds there. */
#include "fuzz.h"

#include <jansson.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/ndjson.h"

enum { MOST = 512 };

/* The value by the letter of RFC 6901; NULL if there is none. */
static json_t *find(json_t *at, const char *pointer)
{
	while (at && *pointer == '/') {
		size_t len = strcspn(++pointer, "/"), n = 0;
		char *part = calloc(1, len + 1);
		int64_t place = -1;

		if (!part)
			abort();
		for (size_t i = 0; i < len; i++)
			part[n++] = pointer[i] != '~'     ? pointer[i]
				    : pointer[++i] == '1' ? '/'
							  : '~';
		if (json_is_object(at))
			at = json_object_get(at, part);
		else if (*part != '-' && (*part != '0' || n == 1) &&
			 wh_parse_int(part, &place))
			at = json_array_get(at, (size_t)place);
		else
			at = NULL;
		pointer += len;
		free(part);
	}
	return at;
}

static void check_pick(wh_view line, const char *pointer)
{
	json_t *root =
		json_loadb(line.ptr, line.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	json_t *value = find(root, pointer), *again = NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf picked = WH_BUF_INIT(MOST * 4);

	if (!root)
		return; /* an integer of more than 64 bits */
	if (wh_line_pick(line, pointer, &picked, &err) != WHERRY_OK) {
		CHECK(err.code == WHERRY_INVALID && *err.message && !picked.len);
		CHECK(!value || json_is_null(value) || json_is_object(value) ||
		      json_is_array(value) ||
		      memchr(json_string_value(value), 0, json_string_length(value)));
	} else if (json_is_string(value)) {
		CHECK(picked.len == json_string_length(value));
		CHECK(strcmp(wh_buf_str(&picked), json_string_value(value)) == 0);
	} else {
		again = json_loadb(picked.ptr, picked.len, JSON_DECODE_ANY, NULL);
		CHECK(again && json_equal(again, value));
	}
	json_decref(again);
	json_decref(root);
	wh_buf_clear(&picked);
}

static void check_line(wh_view line, const char *pointer)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int column = 0;

	CHECK(line.len && line.len <= MOST && !memchr(line.ptr, '\n', line.len));
	if (wh_json_check(line.ptr, line.len, &column, &err) == WHERRY_OK) {
		CHECK(column == 0 && wh_json_valid(line.ptr, line.len));
		if (wh_json_pointer_valid(pointer))
			check_pick(line, pointer);
	} else {
		CHECK(column >= 1 && (size_t)column <= line.len + 1);
		CHECK(*err.message && !strpbrk(err.message, "\n\r\033"));
	}
}

/* The line of this number is too long, without what is trimmed. */
static void check_too_long(const char *text, size_t len, int64_t number)
{
	const char *line = text, *end = text + len, *next;

	for (int64_t i = 1; i < number; i++) {
		line = memchr(line, '\n', (size_t)(end - line));
		CHECK(line++);
	}
	if (number == 1 && end - line >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0)
		line += 3;
	next = memchr(line, '\n', (size_t)(end - line));
	end = next ? next : end;
	CHECK(end - line - (end[-1] == '\r') > MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *pointer = fuzz_next(&data, &len, '\n');
	char *text = fuzz_text(data, len);
	FILE *file = len ? fmemopen(text, len, "r") : NULL;
	wh_lines lines = {.file = file, .most = MOST, .line = WH_BUF_INIT(0)};
	int64_t n = 1;
	wherry_code code = WHERRY_OK;
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	while (file) {
		wh_view line;

		code = wh_lines_next(&lines, &line, &err);
		CHECK(lines.number <= n && (size_t)lines.bytes <= len);
		if (code != WHERRY_OK || !line.ptr)
			break;
		check_line(line, pointer);
	}
	if (code != WHERRY_OK) {
		CHECK(code == WHERRY_TOOBIG && *err.message);
		check_too_long(text, len, lines.number);
	} else if (file) {
		CHECK((size_t)lines.bytes == len);
	}
	wh_buf_clear(&lines.line);
	if (file)
		(void)fclose(file);
	free(text);
	free(pointer);
	return 0;
}
