/*
 * Questions about text: is it UTF-8, is it an identifier, which word is nearest.
 */
#ifndef WH_BASE_TEXT_H
#define WH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WH_IDENT_MAX 48 /* Bytes; with a suffix, names fit PostgreSQL's limit of 63. */

/* Length of the well-formed UTF-8 character at text, in bytes; 0: there is none. */
size_t wh_utf8_len(const char *text, size_t len);

/* The code point of the well-formed character of n bytes at text. */
unsigned wh_utf8_code(const char *text, size_t n);

/* Does the character end a line, start an escape sequence, or change the order in which a
 * terminal shows others? */
bool wh_utf8_unsafe(unsigned code);

/* Of ASCII, whatever the locale of the program. */
static inline bool wh_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool wh_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* FNV-1a: a hash of short texts.  It begins with WH_HASH_START, or goes on from the hash of an earlier text. */
#define WH_HASH_START 0xcbf29ce484222325u
#define WH_HASH_PRIME 0x100000001b3u

static inline uint64_t wh_hash(uint64_t hash, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)text[i]) * WH_HASH_PRIME;
	return hash;
}

/* Write each byte as two lower-case hexadecimal digits, without a NUL. */
void wh_hex(const void *bytes, size_t n, char *out);

bool wh_utf8_valid(const char *text, size_t len);

/* Length of the longest prefix of at most `most` bytes that does not cut a character. */
size_t wh_utf8_cut(const char *text, size_t len, size_t most);

/* Is it a letter or _, then letters, digits and _, at most WH_IDENT_MAX bytes? */
bool wh_ident_valid(const char *name);

/* Parse a decimal integer.  False: text has other characters, or is out of range. */
bool wh_parse_int(const char *text, int64_t *out);

/* Find the known word nearest to `word` by edit distance, for "did you mean"; NULL: none
 * is near.  next(ctx, i) returns the i-th known word, NULL after the last. */
const char *wh_nearest(const char *word, const char *(*next)(const void *ctx, size_t i),
		       const void *ctx);

#endif
