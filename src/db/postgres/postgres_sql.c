/*
 * Named parameters, which PostgreSQL does not have, into numbered ones.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "db/postgres/postgres.h"

static bool in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (c >= '0' && c <= '9');
}

/* Behind the closing quote; two of them are one inside.  With escapes a backslash takes
 * the next character along. */
static const char *skip_quoted(const char *p, bool escapes)
{
	char quote = *p++;

	for (; *p; p++) {
		if ((escapes && *p == '\\' && p[1]) || (*p == quote && p[1] == quote))
			p++;
		else if (*p == quote)
			return p + 1;
	}
	return p;
}

static const char *skip_comment(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (p[0] == '/' && p[1] == '*') {
			depth++;
			p++;
		} else if (p[0] == '*' && p[1] == '/') {
			p++;
			if (--depth == 0)
				return p + 1;
		}
	}
	return p;
}

/* $tag$ … $tag$; at a $ that opens none, behind it. */
static const char *skip_dollar(const char *p)
{
	size_t len = 1;
	const char *end;

	while (in_name(p[len]))
		len++;
	if (p[len] != '$' || (p[1] >= '0' && p[1] <= '9'))
		return p + 1;
	len++;
	for (end = p + len; (end = strchr(end, '$')); end++)
		if (strncmp(end, p, len) == 0)
			return end + len;
	return p + strlen(p);
}

/* What may hold a colon that begins no parameter; p itself: none of them is here. */
static const char *skip_opaque(const char *p, const char *begin)
{
	bool word = p > begin && in_name(p[-1]);

	if (*p == '\'' || *p == '"')
		return skip_quoted(p, *p == '\'' && word &&
					      (p[-1] == 'E' || p[-1] == 'e') &&
					      (p - begin < 2 || !in_name(p[-2])));
	if (p[0] == '-' && p[1] == '-')
		return p + strcspn(p, "\n");
	if (p[0] == '/' && p[1] == '*')
		return skip_comment(p);
	if (*p == '$' && !word)
		return skip_dollar(p);
	if (p[0] == ':' && p[1] == ':')
		return p + 2;
	return p;
}

/* Which parameter that name is, from 0; a new one where it is met first; -1: too many. */
static int number_of(postgres_stmt *out, const char *name, size_t len)
{
	for (int i = 0; i < out->n; i++)
		if (strlen(out->params[i]) == len &&
		    memcmp(out->params[i], name, len) == 0)
			return i;
	if (out->n == WH_STMT_PARAMS || len >= sizeof(out->params[0]))
		return -1;
	memcpy(out->params[out->n], name, len);
	out->params[out->n][len] = 0;
	return out->n++;
}

wherry_code wh_postgres_number(const char *sql, postgres_stmt *out, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(128 * 1024);
	const char *p = sql;
	wherry_code code;

	while (*p) {
		const char *end = skip_opaque(p, sql);
		size_t len = 0;
		int number;

		if (end != p) {
			wh_buf_put(&text, p, (size_t)(end - p));
			p = end;
			continue;
		}
		if (*p != ':' || !in_name(p[1]) || (p[1] >= '0' && p[1] <= '9')) {
			wh_buf_putc(&text, *p++);
			continue;
		}
		while (in_name(p[1 + len]))
			len++;
		number = number_of(out, p + 1, len);
		if (number < 0) {
			wh_buf_clear(&text);
			return wh_fail(
				err, WHERRY_INVALID,
				"a statement has more than %d parameters, or one with "
				"a long name",
				WH_STMT_PARAMS);
		}
		wh_buf_printf(&text, "$%d", number + 1);
		p += 1 + len;
	}
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK) {
		out->text = wh_buf_take(&text);
		code = out->text ? WHERRY_OK : wh_oom(err);
	}
	wh_buf_clear(&text);
	return code;
}
