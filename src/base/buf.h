/*
 * Views and capped buffers.  A buffer has a mandatory ceiling and remembers its first
 * failure, so that many appends need one check, at the end.
 */
#ifndef WH_BASE_BUF_H
#define WH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Bytes that belong to someone else. */
typedef struct wh_view {
	const char *ptr; /* NULL: absent */
	size_t len;
} wh_view;

wh_view wh_view_of(const char *text);  /* NULL gives an absent view */
bool wh_view_eq(wh_view a, wh_view b); /* byte for byte; absent equals absent only */

typedef struct wh_buf {
	char *ptr; /* ends in NUL once something was added */
	size_t len;
	size_t cap;
	size_t most;        /* the ceiling, bytes */
	wherry_code failed; /* TOOBIG or NOMEM, sticky until wh_buf_reset */
} wh_buf;

/* clang-format off */
#define WH_BUF_INIT(most_) {NULL, 0, 0, (most_), WHERRY_OK}
/* clang-format on */

void wh_buf_put(wh_buf *buf, const void *data, size_t len);
void wh_buf_puts(wh_buf *buf, const char *text);
void wh_buf_putc(wh_buf *buf, char c);
void wh_buf_int(wh_buf *buf, int64_t number); /* in decimal */
void wh_buf_printf(wh_buf *buf, const char *fmt, ...) WH_PRINTF(2, 3);

/* Append text as a JSON string with quotes; invalid UTF-8 becomes U+FFFD. */
void wh_buf_json(wh_buf *buf, const char *text, size_t len);

void wh_buf_escape(wh_buf *buf, unsigned char c); /* as it is escaped there: \n, \u001b */

/* Append bytes in base64. */
void wh_buf_base64(wh_buf *buf, const void *data, size_t len);

wherry_code wh_buf_check(const wh_buf *buf, wherry_error *err);
const char *wh_buf_str(const wh_buf *buf); /* "" while empty; borrowed until changed */
void wh_buf_reset(wh_buf *buf);            /* empty again, memory kept */
void wh_buf_cut(wh_buf *buf, size_t n);    /* drop the first n bytes */
char *wh_buf_take(wh_buf *buf);            /* the bytes, given; NULL if it failed */
void wh_buf_clear(wh_buf *buf);

#endif
