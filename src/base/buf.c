#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

wh_view wh_view_of(const char *text)
{
	wh_view view = {text, text ? strlen(text) : 0};

	return view;
}

bool wh_view_eq(wh_view a, wh_view b)
{
	if (!a.ptr || !b.ptr)
		return a.ptr == b.ptr;
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* Make room for n more bytes and a NUL. */
static bool reserve(wh_buf *buf, size_t n)
{
	size_t cap = buf->cap ? buf->cap : 128;
	char *ptr;

	if (buf->failed)
		return false;
	if (n > buf->most - buf->len || buf->len + n > buf->most) {
		buf->failed = WHERRY_TOOBIG;
		return false;
	}
	if (buf->len + n + 1 <= buf->cap)
		return true;
	while (cap < buf->len + n + 1)
		cap *= 2;
	ptr = realloc(buf->ptr, cap);
	if (!ptr) {
		buf->failed = WHERRY_NOMEM;
		return false;
	}
	buf->ptr = ptr;
	buf->cap = cap;
	return true;
}

void wh_buf_put(wh_buf *buf, const void *data, size_t len)
{
	if (!reserve(buf, len))
		return;
	if (len)
		memcpy(buf->ptr + buf->len, data, len);
	buf->len += len;
	buf->ptr[buf->len] = 0;
}

void wh_buf_puts(wh_buf *buf, const char *text)
{
	wh_buf_put(buf, text, strlen(text));
}

void wh_buf_putc(wh_buf *buf, char c)
{
	wh_buf_put(buf, &c, 1);
}

/* Faster than printf(), for lists of ids. */
void wh_buf_int(wh_buf *buf, int64_t number)
{
	uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	char text[20], *at = text + sizeof(text);

	do
		*--at = (char)('0' + left % 10);
	while (left /= 10);
	if (number < 0)
		*--at = '-';
	wh_buf_put(buf, at, (size_t)(text + sizeof(text) - at));
}

void wh_buf_printf(wh_buf *buf, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0 || !reserve(buf, (size_t)n))
		return;
	va_start(args, fmt);
	(void)vsnprintf(buf->ptr + buf->len, (size_t)n + 1, fmt, args);
	va_end(args);
	buf->len += (size_t)n;
}

void wh_buf_escape(wh_buf *buf, unsigned code)
{
	static const char digit[] = "0123456789abcdef";
	static const char letter[128] = {
		['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
	char out[] = {'\\',
		      'u',
		      digit[code >> 12 & 15],
		      digit[code >> 8 & 15],
		      digit[code >> 4 & 15],
		      digit[code & 15]};

	if (code < sizeof(letter) && letter[code])
		out[1] = letter[code];
	wh_buf_put(buf, out, out[1] == 'u' ? sizeof(out) : 2);
}

void wh_buf_json(wh_buf *buf, const char *text, size_t len)
{
	size_t i = 0, from = 0;

	wh_buf_putc(buf, '"');
	while (i < len) {
		unsigned char c = (unsigned char)text[i];
		size_t n = wh_utf8_len(text + i, len - i);

		if (n && c >= ' ' && c != '"' && c != '\\' && c != 0x7f) {
			i += n;
			continue;
		}
		wh_buf_put(buf, text + from, i - from);
		if (n)
			wh_buf_escape(buf, c);
		else
			wh_buf_puts(buf, "\xef\xbf\xbd");
		from = ++i;
	}
	wh_buf_put(buf, text + from, i - from);
	wh_buf_putc(buf, '"');
}

void wh_buf_base64(wh_buf *buf, const void *data, size_t len)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = data;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		unsigned bits = (unsigned)in[i] << 16;
		char out[4];

		if (left > 1)
			bits |= (unsigned)in[i + 1] << 8;
		if (left > 2)
			bits |= in[i + 2];
		out[0] = digit[bits >> 18];
		out[1] = digit[bits >> 12 & 63];
		out[2] = left > 1 ? digit[bits >> 6 & 63] : '=';
		out[3] = left > 2 ? digit[bits & 63] : '=';
		wh_buf_put(buf, out, sizeof(out));
	}
}

wherry_code wh_buf_check(const wh_buf *buf, wherry_error *err)
{
	if (buf->failed == WHERRY_TOOBIG)
		return wh_fail(err, WHERRY_TOOBIG, "text is over its limit of %zu bytes",
			       buf->most);
	return buf->failed ? wh_oom(err) : WHERRY_OK;
}

const char *wh_buf_str(const wh_buf *buf)
{
	return buf->ptr ? buf->ptr : "";
}

const char *wh_buf_into(const wh_buf *buf, wh_buf *to)
{
	if (!to->failed)
		to->failed = buf->failed;
	return wh_buf_str(buf);
}

void wh_buf_reset(wh_buf *buf)
{
	buf->len = 0;
	buf->failed = WHERRY_OK;
	if (buf->ptr)
		buf->ptr[0] = 0;
}

void wh_buf_cut(wh_buf *buf, size_t n)
{
	if (n >= buf->len) {
		buf->len = 0;
	} else {
		memmove(buf->ptr, buf->ptr + n, buf->len - n);
		buf->len -= n;
	}
	if (buf->ptr)
		buf->ptr[buf->len] = 0;
}

char *wh_buf_take(wh_buf *buf)
{
	char *ptr = NULL;

	wh_buf_put(buf, "", 0); /* Makes an empty buffer "". */
	if (!buf->failed) {
		ptr = buf->ptr;
		buf->ptr = NULL;
	}
	wh_buf_clear(buf);
	return ptr;
}

void wh_buf_clear(wh_buf *buf)
{
	free(buf->ptr);
	buf->ptr = NULL;
	buf->len = buf->cap = 0;
	buf->failed = WHERRY_OK;
}
