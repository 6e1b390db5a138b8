/* Text for people and databases: what is cut stays UTF-8, what is shown moves no cursor,
 * what is indented is the same JSON. */
#include "fuzz.h"

#include <jansson.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"

enum { FLAGS = JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL };

static void check_cuts(const char *text, size_t len)
{
	bool valid = wh_utf8_valid(text, len);

	for (size_t most = 0; most <= len + 1 && most < 64; most++) {
		size_t n = wh_utf8_cut(text, len, most);

		CHECK(n <= most && n <= len);
		if (valid) {
			CHECK(wh_utf8_valid(text, n));
			CHECK(n == len || n + wh_utf8_len(text + n, len - n) > most);
		}
	}
}

static void check_cell(const char *text, size_t columns)
{
	wh_buf cell = WH_BUF_INIT(1 << 20), again = WH_BUF_INIT(1 << 20);
	const char *shown;

	wh_put_cell(&cell, text, columns);
	shown = wh_buf_str(&cell);
	CHECK(wh_utf8_valid(shown, cell.len));
	CHECK(wh_columns(shown) ==
	      (!columns || wh_columns(text) < columns ? wh_columns(text) : columns));
	for (size_t i = 0; i < cell.len; i++)
		CHECK((unsigned char)shown[i] >= ' ' && shown[i] != 0x7f);
	CHECK(!strstr(shown, "\xc2\x9b")); /* as good as ESC [ */
	wh_put_cell(&again, shown, columns);
	CHECK(strcmp(wh_buf_str(&again), shown) == 0);
	wh_buf_clear(&cell);
	wh_buf_clear(&again);
}

static void check_pretty(const char *text, size_t len)
{
	wh_buf pretty = WH_BUF_INIT(1 << 24);
	json_t *before, *after;

	wh_put_pretty(&pretty, text, len);
	CHECK(wh_buf_check(&pretty, NULL) == WHERRY_OK);
	before = json_loadb(text, len, FLAGS, NULL);
	after = json_loadb(pretty.ptr, pretty.len, FLAGS, NULL);
	CHECK(json_equal(before, after));
	json_decref(before);
	json_decref(after);
	wh_buf_clear(&pretty);
}

static const char *states(const void *ctx, size_t i)
{
	(void)ctx;
	return i < WHERRY_STATE_COUNT ? wherry_state_name((wherry_state)i) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);

	check_cuts(text, len);
	if (len < 512)
		for (size_t columns = 0; columns < 8; columns++)
			check_cell(text, columns);
	if (wh_json_valid(text, len))
		check_pretty(text, len);
	if (wh_ident_valid(text))
		CHECK(strlen(text) <= WH_IDENT_MAX && !strpbrk(text, "\"'`[; -"));
	for (size_t i = 0; i < WHERRY_STATE_COUNT; i++)
		if (strcmp(text, states(NULL, i)) == 0)
			CHECK(wh_nearest(text, states, NULL) == states(NULL, i));
	(void)wh_nearest(text, states, NULL);
	free(text);
	return 0;
}
