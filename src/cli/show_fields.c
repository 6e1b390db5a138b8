/*
 * The fields and the body of a message, for a person.
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "publish/parts.h"

enum {
	BODY_SHOWN = 4096,
	TEXT_MAX = BODY_SHOWN * 32, /* Bytes of a body with its indentation. */
	HEX_SHOWN = 256,
	HEX_LINE = 16
};

void wh_print_field(const char *name, const char *text)
{
	wh_buf safe = WH_BUF_INIT(1024 * 1024);

	if (text && *text) {
		wh_put_cell(&safe, text, 0);
		(void)printf("%-15s %s\n", name, wh_buf_str(&safe));
	}
	wh_buf_clear(&safe);
}

void wh_print_time(int64_t now_us, const char *name, int64_t us)
{
	char text[WH_TIME_LEN], span[WH_SPAN_LEN];
	int64_t ago = wh_since(now_us, us);

	if (!us)
		return;
	wh_time_print(us, text);
	(void)printf("%-15s %s, %s%s%s\n", name, text, ago < 0 ? "in " : "",
		     wh_span_text(ago < 0 ? -ago : ago, span), ago < 0 ? "" : " ago");
}

void wh_print_number(const char *name, int64_t number)
{
	(void)printf("%-15s %" PRId64 "\n", name, number);
}

/* ---- the body ---- */

static void print_hex(const unsigned char *body, size_t len)
{
	for (size_t at = 0; at < len && at < HEX_SHOWN; at += HEX_LINE) {
		size_t n = len - at < HEX_LINE ? len - at : HEX_LINE;

		(void)printf("%08zx ", at);
		for (size_t i = 0; i < HEX_LINE; i++)
			(void)(i < n ? printf(" %02x", body[at + i]) : printf("   "));
		(void)printf("  ");
		for (size_t i = 0; i < n; i++)
			(void)putchar(isprint(body[at + i]) ? body[at + i] : '.');
		(void)putchar('\n');
	}
}

/* Print text line by line: line breaks stay, other control characters are replaced. */
static void print_lines(const char *text)
{
	wh_buf line = WH_BUF_INIT(TEXT_MAX), safe = WH_BUF_INIT(WH_OUTPUT_MOST);

	while (*text) {
		size_t n = strcspn(text, "\n");

		wh_buf_reset(&line);
		wh_buf_reset(&safe);
		wh_buf_put(&line, text, n);
		wh_put_cell(&safe, wh_buf_into(&line, &safe), 0);
		wh_print_buf(&safe, "\n");
		text += n + (text[n] == '\n');
	}
	wh_buf_clear(&line);
	wh_buf_clear(&safe);
}

static void print_text(const char *body, size_t len)
{
	size_t n = wh_utf8_cut(body, len, BODY_SHOWN);
	wh_buf text = WH_BUF_INIT(TEXT_MAX);

	if (n == len && wh_json_valid(body, len))
		wh_put_pretty(&text, body, len);
	if (!text.len || text.failed) { /* no JSON, or nested too deeply to be indented */
		wh_buf_reset(&text);
		wh_buf_put(&text, body, n);
	}
	print_lines(wh_buf_str(&text));
	if (n < len)
		(void)printf("... %zu bytes more; --json has all\n", len - n);
	wh_buf_clear(&text);
}

void wh_print_body(const char *body, size_t len)
{
	bool text;

	if (!body) {
		body = "";
		len = 0;
	}
	text = wh_utf8_valid(body, len) && !memchr(body, 0, len);

	(void)printf("%-15s %zu byte%s%s\n", "body:", len, wh_plural((int64_t)len),
		     text ? "" : " that are not text");
	if (!len)
		return;
	(void)putchar('\n');
	if (text)
		print_text(body, len);
	else
		print_hex((const unsigned char *)body, len);
	if (!text && len > HEX_SHOWN)
		(void)printf("... %zu bytes more; --json has all\n", len - HEX_SHOWN);
}
