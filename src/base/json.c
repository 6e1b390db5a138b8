#include "base/json.h"

#include <endian.h>
#include <jansson.h>
#include <string.h>

#include "base/text.h"

static const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;

/* jansson would end the text at a NUL byte and ignore the rest.  JSON may not contain a
 * NUL byte, so report it. */
static json_t *load(const char *text, size_t len, size_t how, json_error_t *why)
{
	const char *nul = len ? memchr(text, 0, len) : NULL;

	if (!nul)
		return json_loadb(text, len, how, why);
	if (why) {
		*why = (json_error_t){.column = 1, .text = "NUL byte"};
		for (const char *s = text; s < nul; s++)
			why->column += ((unsigned char)*s & 0xc0) != 0x80;
	}
	return NULL;
}

wherry_code wh_json_check(const char *text, size_t len, int *out_column,
			  wherry_error *err)
{
	json_error_t why;
	json_t *value;

	if (wh_json_valid(text, len))
		return WHERRY_OK;
	value = load(text, len, flags, &why);
	if (value) {
		json_decref(value);
		return WHERRY_OK;
	}
	*out_column = why.column > 0 ? why.column : 1;
	return wh_fail(err, WHERRY_INVALID, "%s", why.text);
}

/*
 * Checking allocates no memory, so that lack of memory never makes a valid message
 * invalid: jansson cannot always tell a failed allocation from a syntax error.  So jansson
 * is only asked where an error is (fault_json_test).
 */
enum { DEPTH_MOST = 2048 };

typedef struct checker {
	const char *at, *end;
	/* The values of the outer object must be strings or null, and contain no NUL. */
	bool flat;
	wh_view key; /* The last key read at depth 1. */
	wh_view odd; /* The first key whose value has another type. */
	size_t depth;
	unsigned char is_object[DEPTH_MOST / 8];
} checker;

static bool take(checker *c, char wanted)
{
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static void skip_space(checker *c)
{
	while (c->at < c->end &&
	       (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
		c->at++;
}

/* Read the four digits after \u; -1: they are not hexadecimal. */
static int take_hex(checker *c)
{
	int number = 0;

	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdef0123456789ABCDEF";
		const char *digit =
			c->at < c->end && *c->at ? strchr(digits, *c->at) : NULL;

		if (!digit)
			return -1;
		number = number * 16 + (int)((digit - digits) % 16);
		c->at++;
	}
	return number;
}

/* Read the characters after a backslash. */
static bool take_escape(checker *c, bool nul)
{
	int number;

	if (c->at == c->end || !*c->at)
		return false;
	if (!take(c, 'u'))
		return strchr("\"\\/bfnrt", *c->at++) != NULL;
	number = take_hex(c);
	if (number < 0xd800 || number > 0xdfff)
		return number > 0 || (number == 0 && nul);
	if (number > 0xdbff || !take(c, '\\') || !take(c, 'u'))
		return false; /* Half of a surrogate pair. */
	number = take_hex(c);
	return number >= 0xdc00 && number <= 0xdfff;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Count the plain characters in these eight bytes, up to the first that is not ASCII or
 * ends a run of plain characters.  The highest bit of each byte marks such a byte.  Only
 * a byte that is not plain borrows from the next. */
static size_t count_plain(const char *at)
{
	uint64_t v, quote, escape, ends;

	memcpy(&v, at, sizeof(v));
	v = le64toh(v);
	quote = v ^ EACH('"');
	escape = v ^ EACH('\\');
	ends = (v | (v - EACH(' ')) | (quote - EACH(1)) | (escape - EACH(1))) &
	       EACH(0x80);
	return ends ? (size_t)__builtin_ctzll(ends) / 8 : sizeof(v);
}

/* Most strings consist of plain characters. */
static void skip_plain(checker *c)
{
	for (size_t n = 8; n == 8 && c->end - c->at >= 8; c->at += n)
		n = count_plain(c->at);
	while (c->at < c->end && (unsigned char)*c->at >= ' ' &&
	       (unsigned char)*c->at < 0x80 && *c->at != '"' && *c->at != '\\')
		c->at++;
}

static bool take_string(checker *c, bool nul)
{
	if (!take(c, '"'))
		return false;
	for (skip_plain(c); !take(c, '"'); skip_plain(c)) {
		size_t n = wh_utf8_len(c->at, (size_t)(c->end - c->at));

		if (!n || (unsigned char)*c->at < ' ')
			return false;
		if (take(c, '\\')) {
			if (!take_escape(c, nul))
				return false;
		} else {
			c->at += n;
		}
	}
	return true;
}

static bool take_digits(checker *c)
{
	const char *from = c->at;

	while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
		c->at++;
	return c->at > from;
}

/* A number with this many digits before the point that begins with too_large or more is
 * too large for a double. */
enum { LARGE_DIGITS = 309 };

static const char too_large[] = "179769313486231580793728971405303415";

/* Is the number too large for a reader that keeps numbers as doubles? */
static bool is_too_large(wh_view mantissa, int64_t exponent)
{
	char digits[sizeof(too_large)] = "";
	size_t n = 0;
	bool point = false;

	if (!exponent && mantissa.len < LARGE_DIGITS)
		return false;
	for (size_t i = 0; i < mantissa.len; i++) {
		char c = mantissa.ptr[i];

		if (c < '0' || c > '9') {
			point |= c == '.';
			continue;
		}
		if (!point && (n || c != '0'))
			exponent++;
		else if (point && !n && c == '0')
			exponent--;
		if ((n || c != '0') && n + 1 < sizeof(digits))
			digits[n++] = c;
	}
	return n && (exponent > LARGE_DIGITS ||
		     (exponent == LARGE_DIGITS && strcmp(digits, too_large) >= 0));
}

static bool take_number(checker *c)
{
	wh_view mantissa = {c->at, 0};
	int64_t exponent = 0;
	bool minus;

	(void)take(c, '-');
	if (!take(c, '0') && !take_digits(c))
		return false;
	if (take(c, '.') && !take_digits(c))
		return false;
	mantissa.len = (size_t)(c->at - mantissa.ptr);
	if (take(c, 'e') || take(c, 'E')) {
		minus = take(c, '-');
		if (!minus)
			(void)take(c, '+');
		for (const char *from = c->at; take_digits(c); from = c->at)
			for (; from < c->at; from++)
				if (exponent < INT32_MAX)
					exponent = exponent * 10 + (*from - '0');
		if (c->at[-1] < '0' || c->at[-1] > '9')
			return false;
		exponent = minus ? -exponent : exponent;
	}
	return !is_too_large(mantissa, exponent);
}

static bool take_word(checker *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
		return false;
	c->at += n;
	return true;
}

static bool take_scalar(checker *c)
{
	if (c->at < c->end && *c->at == '"')
		return take_string(c, !c->flat);
	return take_word(c, "true") || take_word(c, "false") || take_word(c, "null") ||
	       take_number(c);
}

static bool in_object(const checker *c)
{
	return c->depth && c->is_object[(c->depth - 1) / 8] >> (c->depth - 1) % 8 & 1;
}

static bool enter(checker *c, bool object)
{
	unsigned char bit = (unsigned char)(1u << c->depth % 8);

	if (c->depth == DEPTH_MOST)
		return false;
	c->is_object[c->depth / 8] &= (unsigned char)~bit;
	if (object)
		c->is_object[c->depth / 8] |= bit;
	c->depth++;
	return true;
}

/* Read a member's name and the colon, and look at its value. */
static bool take_key(checker *c)
{
	skip_space(c);
	c->key.ptr = c->at + 1;
	if (!take_string(c, false))
		return false;
	c->key.len = (size_t)(c->at - c->key.ptr) - 1;
	skip_space(c);
	if (!take(c, ':'))
		return false;
	skip_space(c);
	if (c->flat && c->depth == 1 && !c->odd.ptr && c->at < c->end && *c->at != '"' &&
	    *c->at != 'n')
		c->odd = c->key;
	return true;
}

/* Continue after a value: leave objects and arrays that end here, then read the next
 * name.  False: malformed. */
static bool go_on(checker *c)
{
	for (;;) {
		skip_space(c);
		if (!c->depth)
			return c->at == c->end;
		if (take(c, ','))
			return !in_object(c) || take_key(c);
		if (!take(c, in_object(c) ? '}' : ']'))
			return false;
		c->depth--;
	}
}

/* Read a scalar, or enter an object or array.  *out_begun: it is not empty, read its
 * first member next. */
static bool take_value(checker *c, bool *out_begun)
{
	bool object;

	skip_space(c);
	*out_begun = false;
	object = take(c, '{');
	if (!object && !take(c, '['))
		return take_scalar(c);
	if (!enter(c, object))
		return false;
	skip_space(c);
	if (c->at < c->end && *c->at == (object ? '}' : ']'))
		return true; /* go_on() leaves it. */
	*out_begun = true;
	return !object || take_key(c);
}

static bool check(checker *c)
{
	bool begun;

	do {
		if (!take_value(c, &begun))
			return false;
		if (!begun && !go_on(c))
			return false;
	} while (begun || c->depth);
	return true;
}

bool wh_json_valid(const char *text, size_t len)
{
	checker c = {.at = text, .end = text + len};

	return check(&c);
}

wherry_code wh_json_headers(const char *text, size_t len, wherry_error *err)
{
	checker c = {.at = text, .end = text + len, .flat = true};
	bool valid;

	skip_space(&c);
	valid = c.at < c.end && *c.at == '{' && check(&c);
	if (!valid)
		return wh_fail(err, WHERRY_INVALID, "headers are not a JSON object");
	if (c.odd.ptr)
		return wh_fail(err, WHERRY_INVALID,
			       "header '%.*s' is not a string: put its value in quotes",
			       (int)(c.odd.len < 60 ? c.odd.len : 60), c.odd.ptr);
	return WHERRY_OK;
}

bool wh_json_pointer_valid(const char *pointer)
{
	if (*pointer && *pointer != '/')
		return false;
	for (const char *p = pointer; *p; p++)
		if (*p == '~' && p[1] != '0' && p[1] != '1')
			return false;
	return true;
}
