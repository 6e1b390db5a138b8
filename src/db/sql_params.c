/*
 * Parameters of statements: read when a .sql file is, once, and written as the database has
 * them.  SQLite takes names, PostgreSQL numbers; of numbers, ODBC's ? are made.
 */
#include <stdlib.h>
#include <string.h>

#include "db/sql.h"

enum { TEXT_MAX = 1024 * 1024 };

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

/* Behind a string, comment or cast, where a colon begins no parameter; else p itself. */
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
static int number_of(wh_stmt *stmt, const char *name, size_t len)
{
	for (int i = 0; i < stmt->n_params; i++)
		if (strlen(stmt->params[i]) == len &&
		    memcmp(stmt->params[i], name, len) == 0)
			return i;
	if (stmt->n_params == WH_STMT_PARAMS || len >= WH_PARAM_NAME)
		return -1;
	memcpy(stmt->params[stmt->n_params], name, len);
	stmt->params[stmt->n_params][len] = 0;
	return stmt->n_params++;
}

/* The text with its parameters numbered, if they are to be; their names in stmt. */
static wherry_code number(wh_stmt *stmt, bool numbered, const char *from, wh_buf *text,
			  wherry_error *err)
{
	const char *p = from;

	while (*p) {
		const char *end = skip_opaque(p, from);
		size_t len = 0;
		int n;

		if (end != p) {
			wh_buf_put(text, p, (size_t)(end - p));
			p = end;
			continue;
		}
		if (*p != ':' || !in_name(p[1]) || (p[1] >= '0' && p[1] <= '9')) {
			len = 1 + strcspn(p + 1, "'\"-/$:");
			wh_buf_put(text, p, len);
			p += len;
			continue;
		}
		while (in_name(p[1 + len]))
			len++;
		n = number_of(stmt, p + 1, len);
		if (n < 0)
			return wh_fail(
				err, WHERRY_INVALID,
				"statement '%s' has more than %d parameters, or one with "
				"a long name",
				stmt->name, WH_STMT_PARAMS);
		if (numbered)
			wh_buf_printf(text, "$%d", n + 1);
		else
			wh_buf_put(text, p, len + 1);
		p += 1 + len;
	}
	return wh_buf_check(text, err);
}

wherry_code wh_stmt_number(const char *dialect, wh_stmt *stmt, const char *from,
			   wh_buf *scratch, wherry_error *err)
{
	bool numbered = dialect && (strcmp(dialect, "postgres") == 0 ||
				    strcmp(dialect, "mssql") == 0);
	wherry_code code;

	wh_buf_reset(scratch);
	stmt->params = calloc(WH_STMT_PARAMS, sizeof(*stmt->params));
	code = stmt->params ? number(stmt, numbered, from, scratch, err) : wh_oom(err);
	if (code != WHERRY_OK)
		return code;
	stmt->text = strdup(wh_buf_str(scratch));
	return stmt->text ? WHERRY_OK : wh_oom(err);
}

/* The parameter $1, $2, … that begins at p: its number in the statement, from 0, and its
 * length; -1: none does. */
static int param_at(const wh_stmt *stmt, const char *p, size_t *out_len)
{
	size_t len = 1;
	int n = 0;

	if (*p != '$')
		return -1;
	for (; p[len] >= '0' && p[len] <= '9' && n < 1000; len++)
		n = n * 10 + (p[len] - '0');
	*out_len = len;
	return n >= 1 && n <= stmt->n_params ? n - 1 : -1;
}

wherry_code wh_stmt_marks(const wh_stmt *stmt, wh_buf *text, int *order, size_t most,
			  size_t *out_n, wherry_error *err)
{
	const char *p = stmt->text;

	*out_n = 0;
	while (*p) {
		size_t len = 1;
		const char *end;
		int n = p > stmt->text && in_name(p[-1]) ? -1 : param_at(stmt, p, &len);

		if (n >= 0 && *out_n == most)
			return wh_fail(
				err, WHERRY_INVALID,
				"statement '%s' has more than %zu places for values",
				stmt->name, most);
		if (n >= 0) {
			order[(*out_n)++] = n;
			wh_buf_putc(text, '?');
			p += len;
			continue;
		}
		end = skip_opaque(p, stmt->text);
		if (end == p)
			end = p + 1;
		wh_buf_put(text, p, (size_t)(end - p));
		p = end;
	}
	return wh_buf_check(text, err);
}

wherry_code wh_stmt_make(const char *dialect, const char *name, const char *text,
			 wh_stmt *out, wherry_error *err)
{
	wh_stmt stmt = {.name = strdup(name)};
	wh_buf scratch = WH_BUF_INIT(TEXT_MAX);
	wherry_code code = stmt.name ? WHERRY_OK : wh_oom(err);

	if (code == WHERRY_OK)
		code = wh_stmt_number(dialect, &stmt, text, &scratch, err);
	wh_buf_clear(&scratch);
	if (code == WHERRY_OK)
		*out = stmt;
	else
		wh_stmt_clear(&stmt);
	return code;
}

void wh_stmt_clear(wh_stmt *stmt)
{
	free(stmt->name);
	free(stmt->text);
	free(stmt->unused);
	free(stmt->params);
	*stmt = (wh_stmt){0};
}

/* A word of a list with spaces between them; an optional name has a '?' at its end. */
typedef struct word {
	const char *ptr;
	size_t len;
	bool optional;
} word;

/* Take the next word of a list, or return false at its end. */
static bool next_word(const char **list, word *w)
{
	size_t n = *list ? strcspn(*list, " ") : 0;

	if (!*list || n == 0)
		return false;
	*w = (word){*list, n, (*list)[n - 1] == '?'};
	w->len -= w->optional;
	*list += n + strspn(*list + n, " ");
	return true;
}

/* The word of a list that is equal to that one; false if there is none. */
static bool listed(const char *list, word wanted, word *out)
{
	while (next_word(&list, out))
		if (out->len == wanted.len && memcmp(out->ptr, wanted.ptr, out->len) == 0)
			return true;
	return false;
}

static bool has_param(const wh_stmt *stmt, word w)
{
	for (int i = 0; i < stmt->n_params; i++)
		if (strlen(stmt->params[i]) == w.len &&
		    memcmp(stmt->params[i], w.ptr, w.len) == 0)
			return true;
	return false;
}

/* A value must be used, be optional, or be listed as unused by the statement or by its file: exactly
 * one of them, except that a statement may use an optional one. */
static wherry_code check_given(const wh_stmt *stmt, word w, const char *unused,
			       wherry_error *err)
{
	bool uses = has_param(stmt, w);
	word found;
	bool own = listed(stmt->unused, w, &found), whole = listed(unused, w, &found);

	if (w.optional && own)
		return wh_fail(err, WHERRY_INVALID,
			       "statement '%s' lists :%.*s as unused, which is optional",
			       stmt->name, (int)w.len, w.ptr);
	if (uses && whole)
		return wh_fail(
			err, WHERRY_INVALID,
			"statement '%s' uses :%.*s, which its file lists as unused",
			stmt->name, (int)w.len, w.ptr);
	if (!w.optional && uses + own + whole != 1)
		return wh_fail(err, WHERRY_INVALID,
			       "statement '%s' is given :%.*s, which it must either "
			       "use or list under '-- unused:'",
			       stmt->name, (int)w.len, w.ptr);
	return WHERRY_OK;
}

wherry_code wh_stmt_check(const wh_stmt *stmt, const char *given, const char *unused,
			  wherry_error *err)
{
	const char *rest = given;
	wherry_code code = WHERRY_OK;
	word w, found;

	for (int i = 0; i < stmt->n_params; i++)
		if (!listed(given,
			    (word){stmt->params[i], strlen(stmt->params[i]), false},
			    &found))
			return wh_fail(
				err, WHERRY_INVALID,
				"statement '%s' uses :%s, which it is not given; it "
				"is given: %s",
				stmt->name, stmt->params[i], *given ? given : "nothing");
	while (code == WHERRY_OK && next_word(&rest, &w))
		code = check_given(stmt, w, unused, err);
	rest = stmt->unused;
	while (code == WHERRY_OK && next_word(&rest, &w))
		if (!listed(given, w, &found))
			code = wh_fail(
				err, WHERRY_INVALID,
				"statement '%s' lists :%.*s as unused, which it is "
				"not given",
				stmt->name, (int)w.len, w.ptr);
	return code;
}
