#include "base/url.h"

#include <stdio.h>
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

void wh_url_mask(const char *text, char *out, size_t cap)
{
	const char *host = strstr(text, "://");
	const char *end, *at = NULL, *colon;

	host = host ? host + 3 : text;
	end = host + strcspn(host, "/?#");
	for (const char *p = host; p < end; p++)
		if (*p == '@')
			at = p;
	colon = at ? memchr(host, ':', (size_t)(at - host)) : NULL;
	if (colon && host != text)
		(void)snprintf(out, cap, "%.*s:***%s", (int)(colon - text), text, at);
	else
		(void)snprintf(out, cap, "%s", text);
}
