#include "base/url.h"

#include <string.h>

static bool scheme_char(char c, bool first)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return true;
	return !first && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.');
}

wherry_code wh_url_parse(const char *text, wh_url *out, wherry_error *err)
{
	size_t n = 0;

	while (scheme_char(text[n], n == 0))
		n++;
	if (n == 0 || text[n] != ':')
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.80s' is no URL: write a scheme and a colon first, as in "
			"sqlite:shop.db or stdout:",
			text);
	out->scheme = (wh_view){text, n};
	out->rest = wh_view_of(text + n + 1);
	return WHERRY_OK;
}

/* ---- masking ---- */

typedef struct masked {
	char *out;
	size_t cap, n;
} masked;

static void put(masked *m, const char *text, size_t len)
{
	size_t room = m->cap - m->n - 1;

	len = len < room ? len : room;
	memcpy(m->out + m->n, text, len);
	m->n += len;
	m->out[m->n] = 0;
}

static bool is_port(const char *text, const char *end)
{
	return strspn(text, "0123456789") == (size_t)(end - text);
}

/* The colon before and the @ behind the password of what follows "://"; false: it has
 * none.  A password should be percent-encoded, but one that is not is masked too, unless
 * its beginning can be a port. */
static bool find_password(const char *host, const char **colon, const char **at)
{
	const char *end = host + strcspn(host, "/?# \t\r\n");

	*colon = memchr(host, ':', (size_t)(end - host));
	*at = memrchr(host, '@', (size_t)(end - host));
	if (*at)
		return *colon && *colon < *at;
	if (!*colon || *host == '[' || is_port(*colon + 1, end))
		return false;
	*at = strrchr(end, '@');
	return *at != NULL;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at text, percent-encoded or not; *text moves behind it. */
static char take_byte(const char **text)
{
	const char *s = *text;
	int high = *s == '%' ? hex_digit(s[1]) : -1;
	int low = high >= 0 ? hex_digit(s[2]) : -1;

	*text += low >= 0 ? 3 : 1;
	return low >= 0 ? (char)(high * 16 + low) : *s;
}

/* Does the name of a parameter end in a word for what nobody else may see? */
static bool names_secret(const char *name, const char *end)
{
	static const char *const words[] = {"password",   "passwd", "pwd",
					    "passphrase", "secret", "token",
					    "api_key",    "apikey", "pem"};
	char tail[16];
	size_t n = 0;

	while (name < end) {
		char c = take_byte(&name);

		if (n == sizeof(tail))
			memmove(tail, tail + 1, --n);
		tail[n++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t len = strlen(words[i]);

		if (n >= len && memcmp(tail + n - len, words[i], len) == 0)
			return true;
	}
	return false;
}

/* A parameter's "NAME=" with its value masked; returns what is behind it.  Rather too much
 * is masked than too little: only & ends a value. */
static const char *put_parameter(masked *m, const char *name)
{
	const char *equals = name + strcspn(name, "=?&;#: \t\r\n");

	if (*equals != '=' || !names_secret(name, equals))
		return name;
	put(m, name, (size_t)(equals + 1 - name));
	put(m, "***", 3);
	return equals + 1 + strcspn(equals + 1, "&");
}

void wh_url_mask(const char *text, char *out, size_t cap)
{
	masked m = {out, cap, 0};

	*out = 0;
	while (*text) {
		const char *colon, *at;

		if (strncmp(text, "://", 3) == 0) {
			if (find_password(text + 3, &colon, &at)) {
				put(&m, text, (size_t)(colon + 1 - text));
				put(&m, "***", 3);
				text = at;
				continue;
			}
			put(&m, text, 3);
			text += 3;
			continue;
		}
		put(&m, text, 1);
		text = strchr("?&;#: \t\r\n", *text) ? put_parameter(&m, text + 1)
						     : text + 1;
	}
}
