/*
 * Small questions about text: is it UTF-8, is it an identifier, which word is nearest.
 */
#ifndef WH_BASE_TEXT_H
#define WH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WH_IDENT_MAX 48 /* bytes; leaves room for suffixes within PostgreSQL's 63 */

/* Bytes of the well-formed UTF-8 character at text, 0 if there is none. */
size_t wh_utf8_len(const char *text, size_t len);
bool wh_utf8_valid(const char *text, size_t len);

/* The longest prefix of text of at most `most` bytes that does not cut a character. */
size_t wh_utf8_cut(const char *text, size_t len, size_t most);

/* A letter or _, then letters, digits and _, at most WH_IDENT_MAX bytes. */
bool wh_ident_valid(const char *name);

/* All of text is a decimal integer in range. */
bool wh_parse_int(const char *text, int64_t *out);

/* The word nearest to `word` by edit distance, for "did you mean"; NULL if none is near.
 * next(ctx, i) gives the i-th known word, NULL at the end. */
const char *wh_nearest(const char *word, const char *(*next)(const void *ctx, size_t i),
		       const void *ctx);

#endif
