#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t wh_utf8_len(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (!len)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (len < n)
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0; /* Lower bytes would be longer forms of other characters. */
	else if (s[0] == 0xed)
		high = 0x9f; /* Higher bytes would be surrogates. */
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f; /* Higher bytes would be above U+10FFFF. */
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

unsigned wh_utf8_code(const char *text, size_t n)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned value = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		value = value << 6 | (s[i] & 0x3f);
	return value;
}

bool wh_utf8_unsafe(unsigned c)
{
	return c < ' ' || (c >= 0x7f && c <= 0x9f) || c == 0x61c ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

void wh_hex(const void *bytes, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *in = bytes;

	for (size_t i = 0; i < n; i++) {
		*out++ = digits[in[i] >> 4];
		*out++ = digits[in[i] & 15];
	}
}

/* Are these eight bytes ASCII?  Most text is, and bodies are long. */
static bool eight_ascii(const char *text)
{
	uint64_t word;

	memcpy(&word, text, sizeof(word));
	return !(word & 0x8080808080808080u);
}

bool wh_utf8_valid(const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		if (len - i >= 8 && eight_ascii(text + i)) {
			n = 8;
			continue;
		}
		n = wh_utf8_len(text + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

size_t wh_utf8_cut(const char *text, size_t len, size_t most)
{
	size_t n = len < most ? len : most;

	if (n == len)
		return n;
	while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

bool wh_ident_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > WH_IDENT_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];
		bool letter =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return true;
}

bool wh_parse_int(const char *text, int64_t *out)
{
	char *end = NULL;
	long long value;

	if ((*text < '0' || *text > '9') && *text != '-')
		return false;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || *end || end == text)
		return false;
	*out = value;
	return true;
}

enum { WORD_MAX = 63 };

/* The Levenshtein distance, where swapping two neighbours counts once.  The words are
 * short. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t row[3][WORD_MAX + 1];

	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *now = row[i % 3], *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
				best = up2[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[n % 3][m];
}

const char *wh_nearest(const char *word, const char *(*next)(const void *ctx, size_t i),
		       const void *ctx)
{
	size_t len = strlen(word), best = len / 3 + 2;
	const char *nearest = NULL;

	if (len > WORD_MAX)
		return NULL;
	for (size_t i = 0;; i++) {
		const char *known = next(ctx, i);
		size_t d;

		if (!known)
			return nearest;
		if (strlen(known) > WORD_MAX)
			continue;
		d = distance(word, len, known, strlen(known));
		if (d < best) {
			best = d;
			nearest = known;
		}
	}
}
