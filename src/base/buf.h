/*
 * Views and buffers with a limit.  A buffer remembers its first failure, so that many
 * appends need only one check at the end.
 */
#ifndef WH_BASE_BUF_H
#define WH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Borrowed bytes. */
typedef struct wh_view {
	const char *ptr; /* NULL: absent. */
	size_t len;
} wh_view;

wh_view wh_view_of(const char *text);  /* NULL: an absent view. */
bool wh_view_eq(wh_view a, wh_view b); /* Equal bytes, or both absent. */

typedef struct wh_buf {
	char *ptr; /* Ends in NUL once something was appended. */
	size_t len;
	size_t cap;
	size_t most;        /* Limit in bytes. */
	wherry_code failed; /* TOOBIG or NOMEM, until wh_buf_reset(). */
} wh_buf;

/* clang-format off */
#define WH_BUF_INIT(most_) {NULL, 0, 0, (most_), WHERRY_OK}
/* clang-format on */

void wh_buf_put(wh_buf *buf, const void *data, size_t len);
void wh_buf_puts(wh_buf *buf, const char *text);
void wh_buf_putc(wh_buf *buf, char c);
void wh_buf_int(wh_buf *buf, int64_t number); /* In decimal. */
void wh_buf_printf(wh_buf *buf, const char *fmt, ...) WH_PRINTF(2, 3);

/* Append text as a JSON string with quotes.  Invalid UTF-8 becomes U+FFFD. */
void wh_buf_json(wh_buf *buf, const char *text, size_t len);

/* Append the JSON escape of a character up to U+FFFF, such as \n or \u001b. */
void wh_buf_escape(wh_buf *buf, unsigned code);

/* Append bytes in base64. */
void wh_buf_base64(wh_buf *buf, const void *data, size_t len);

wherry_code wh_buf_check(const wh_buf *buf, wherry_error *err) WHERRY_MUST_USE;
/* "" while empty; borrowed until the next change. */
const char *wh_buf_str(const wh_buf *buf);
/* The same text, to be written into another buffer, which fails if this one failed. */
const char *wh_buf_into(const wh_buf *buf, wh_buf *to);
void wh_buf_reset(wh_buf *buf);         /* Make it empty, but keep the memory. */
void wh_buf_cut(wh_buf *buf, size_t n); /* Drop the first n bytes. */
/* The bytes, which the caller frees; NULL if it failed. */
char *wh_buf_take(wh_buf *buf);
void wh_buf_clear(wh_buf *buf);

#endif
