#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/text.h"

const char *wh_span_text(int64_t us, char out[WH_SPAN_LEN])
{
	wh_duration_print(us > 0 ? us : 0, out, WH_SPAN_LEN);
	return out;
}

const char *wh_plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

const char *wh_painted(wh_paint paint)
{
	static const char *const begins[] = {"\033[0m", "\033[32m", "\033[33m",
					     "\033[31m"};
	const char *none = secure_getenv("NO_COLOR"), *term = secure_getenv("TERM");

	if ((none && *none) || !term || strcmp(term, "dumb") == 0 ||
	    !isatty(STDOUT_FILENO))
		return "";
	return begins[paint];
}

size_t wh_terminal_width(int fd)
{
	struct winsize size;

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
		return 80;
	return size.ws_col;
}

/* Counts characters, which is the number of columns in most scripts.  In other scripts
 * tables are not aligned. */
size_t wh_columns(const char *text)
{
	size_t columns = 0;

	for (size_t len = strlen(text), n; len; text += n, len -= n) {
		n = wh_utf8_len(text, len);
		n = n ? n : 1;
		columns++;
	}
	return columns;
}

/* Append a character, or '?' for one that is unsafe.  Texts such as keys must not move
 * the terminal's cursor. */
static void put_safe(wh_buf *buf, const char *text, size_t n)
{
	if (n == 0 || wh_utf8_unsafe(wh_utf8_code(text, n)))
		wh_buf_putc(buf, '?');
	else
		wh_buf_put(buf, text, n);
}

void wh_put_escaped(wh_buf *buf, const char *text, size_t len)
{
	for (size_t n; len; text += n, len -= n) {
		unsigned c;

		n = wh_utf8_len(text, len);
		c = n ? wh_utf8_code(text, n) : 0;
		if (n && wh_utf8_unsafe(c))
			wh_buf_escape(buf, c);
		else
			put_safe(buf, text, n);
		n = n ? n : 1;
	}
}

void wh_put_body_begin(wh_buf *buf, const void *body, size_t len)
{
	enum { MOST = 200 };
	size_t shown = wh_utf8_cut(body, len, MOST);

	wh_put_escaped(buf, body, shown);
	if (shown < len)
		wh_buf_puts(buf, "\xe2\x80\xa6");
}

void wh_put_cell(wh_buf *buf, const char *text, size_t columns)
{
	size_t len = strlen(text), left = columns;
	bool cut = columns && wh_columns(text) > columns;

	while (len && (!columns || left > (cut ? 1 : 0))) {
		size_t n = wh_utf8_len(text, len);

		put_safe(buf, text, n);
		n = n ? n : 1;
		text += n;
		len -= n;
		left--;
	}
	if (cut)
		wh_buf_puts(buf, "\xe2\x80\xa6");
}

static void put_break(wh_buf *buf, size_t depth)
{
	wh_buf_putc(buf, '\n');
	while (depth--)
		wh_buf_puts(buf, "  ");
}

/* Length of the string that begins at json, with its quotes. */
static size_t string_len(const char *json, size_t len)
{
	size_t n = 1;

	while (n < len && json[n] != '"')
		n += json[n] == '\\' ? 2 : 1;
	return n < len ? n + 1 : len;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Append an opening bracket.  An empty pair of brackets stays on one line.  Returns the
 * number of bytes read. */
static size_t put_opening(wh_buf *buf, const char *json, size_t len, size_t *depth)
{
	size_t n = 1;

	wh_buf_putc(buf, *json);
	while (n < len && blank(json[n]))
		n++;
	if (n < len && (json[n] == '}' || json[n] == ']')) {
		wh_buf_putc(buf, json[n]);
		return n + 1;
	}
	put_break(buf, ++*depth);
	return n;
}

void wh_put_pretty(wh_buf *buf, const char *json, size_t len)
{
	size_t depth = 0;

	for (size_t i = 0, n; i < len; i += n) {
		char c = json[i];

		n = 1;
		if (c == '"') {
			n = string_len(json + i, len - i);
			wh_buf_put(buf, json + i, n);
		} else if (c == '{' || c == '[') {
			n = put_opening(buf, json + i, len - i, &depth);
		} else if (c == '}' || c == ']') {
			put_break(buf, --depth);
			wh_buf_putc(buf, c);
		} else if (c == ',') {
			wh_buf_putc(buf, c);
			put_break(buf, depth);
		} else if (c == ':') {
			wh_buf_puts(buf, ": ");
		} else if (!blank(c)) {
			wh_buf_putc(buf, c);
		}
	}
}
