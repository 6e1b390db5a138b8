/*
 * Conversion between UTF-8 and the UTF-16 of ODBC's wide functions.  Nothing is replaced:
 * a text without an equivalent is refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/date.h"
#include "base/text.h"
#include "db/odbc/odbc.h"

enum { SURROGATE = 0xd800, LOW_SURROGATE = 0xdc00, BEHIND_SURROGATES = 0xe000 };

/* The code point of a well-formed UTF-8 character of len bytes. */
static uint32_t code_point(const unsigned char *c, size_t len)
{
	static const uint32_t first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t point = c[0] & first[len];

	for (size_t i = 1; i < len; i++)
		point = point << 6 | (c[i] & 0x3fU);
	return point;
}

wherry_code wh_odbc_widen(wh_arena *arena, wh_view text, SQLWCHAR **out, size_t *out_n,
			  wherry_error *err)
{
	SQLWCHAR *wide = wh_arena_alloc(arena, (text.len + 1) * sizeof(*wide));
	size_t n = 0, len;

	if (!wide)
		return wh_oom(err);
	for (size_t i = 0; i < text.len; i += len) {
		uint32_t point;

		len = wh_utf8_len(text.ptr + i, text.len - i);
		if (!len)
			return wh_fail(err, WHERRY_INVALID,
				       "a text for the database is not UTF-8: byte %zu",
				       i);
		point = code_point((const unsigned char *)text.ptr + i, len);
		if (point >= 0x10000) {
			wide[n++] = (SQLWCHAR)(SURROGATE + ((point - 0x10000) >> 10));
			wide[n++] = (SQLWCHAR)(LOW_SURROGATE + (point & 0x3ff));
		} else {
			wide[n++] = (SQLWCHAR)point;
		}
	}
	wide[n] = 0;
	*out = wide;
	*out_n = n;
	return WHERRY_OK;
}

static void put_point(wh_buf *out, uint32_t point)
{
	if (point < 0x80) {
		wh_buf_putc(out, (char)point);
		return;
	}
	if (point < 0x800) {
		wh_buf_putc(out, (char)(0xc0 | point >> 6));
	} else if (point < 0x10000) {
		wh_buf_putc(out, (char)(0xe0 | point >> 12));
		wh_buf_putc(out, (char)(0x80 | (point >> 6 & 0x3f)));
	} else {
		wh_buf_putc(out, (char)(0xf0 | point >> 18));
		wh_buf_putc(out, (char)(0x80 | (point >> 12 & 0x3f)));
		wh_buf_putc(out, (char)(0x80 | (point >> 6 & 0x3f)));
	}
	wh_buf_putc(out, (char)(0x80 | (point & 0x3f)));
}

bool wh_odbc_narrow(const SQLWCHAR *wide, size_t n, wh_buf *out)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t point = wide[i];

		if (point >= SURROGATE && point < BEHIND_SURROGATES) {
			if (point >= LOW_SURROGATE || i + 1 == n ||
			    wide[i + 1] < LOW_SURROGATE ||
			    wide[i + 1] >= BEHIND_SURROGATES)
				return false;
			point = 0x10000 + ((point - SURROGATE) << 10) +
				(wide[++i] - LOW_SURROGATE);
		}
		put_point(out, point);
	}
	return true;
}

wherry_code wh_odbc_time(const char *text, int64_t *out_us, wherry_error *err)
{
	char joined[64] = "";
	size_t n = 0;

	/* Without its second space, "2026-11-23 04:30:00.1230000 +02:00" is RFC 3339. */
	for (const char *at = text; *at && n + 1 < sizeof(joined); at++)
		if (*at != ' ' || !strchr(joined, ' '))
			(void)snprintf(joined + n++, 2, "%c", *at);
	return wh_time_parse(n ? joined : "", out_us, err);
}
