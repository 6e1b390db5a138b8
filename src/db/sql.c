#include "db/sql.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MARK "-- name: "
#define PART_MARK "-- part: "
#define HEAD_MARK "-- layout: "
#define INDEX_MARK "{idx_table"
#define SUFFIX_CHARS "abcdefghijklmnopqrstuvwxyz_0123456789"

enum { STMT_MAX = 64 * 1024 };

typedef struct parser {
	const char *table;
	wh_sql sql;
	wh_buf text; /* of the statement being read */
	int line;
} parser;

static bool starts(wh_view line, const char *mark)
{
	size_t n = strlen(mark);

	return line.len >= n && memcmp(line.ptr, mark, n) == 0;
}

/* The part that "{…}" names, which stands above; NULL: there is none. */
static const wh_stmt *find_part(const parser *p, wh_view braces)
{
	wh_view name = {braces.ptr + 1, braces.len - 2};

	for (size_t i = 0; i < p->sql.n; i++) {
		const wh_stmt *stmt = &p->sql.stmts[i];

		if (stmt->part && stmt->text && wh_view_eq(name, wh_view_of(stmt->name)))
			return stmt;
	}
	return NULL;
}

/* Put what "{…}" stands for; false if it stands for nothing. */
static bool put_braces(parser *p, wh_view braces)
{
	wh_view name = {"{name}", strlen("{name}")};
	const char *prefix = starts(braces, INDEX_MARK) ? "idx_" : "";
	const char *mark = *prefix ? INDEX_MARK : "{table";
	int n = (int)strlen(mark), rest = (int)braces.len - n - 1;
	const wh_stmt *part;

	if (braces.len == 2) { /* an empty JSON object, not ours */
		wh_buf_puts(&p->text, "{}");
		return true;
	}
	if (wh_view_eq(braces, name)) {
		wh_buf_printf(&p->text, "'%s'", p->table);
		return true;
	}
	part = find_part(p, braces);
	if (part) {
		wh_buf_puts(&p->text, part->text);
		return true;
	}
	if (!starts(braces, mark) || rest < 0 ||
	    strspn(braces.ptr + n, SUFFIX_CHARS) != (size_t)rest)
		return false;
	wh_buf_printf(&p->text, "\"%s%s%.*s\"", prefix, p->table, rest, braces.ptr + n);
	return true;
}

/* Append a line with its braces filled in. */
static wherry_code put_line(parser *p, wh_view line, wherry_error *err)
{
	for (size_t i = 0; i < line.len; i++) {
		wh_view braces = {line.ptr + i, 0};
		const char *close;

		if (line.ptr[i] != '{') {
			wh_buf_putc(&p->text, line.ptr[i]);
			continue;
		}
		close = memchr(braces.ptr, '}', line.len - i);
		braces.len = close ? (size_t)(close - braces.ptr) + 1 : 0;
		if (!close || !put_braces(p, braces))
			return wh_fail(
				err, WHERRY_INVALID,
				"line %d: a { that is neither {table} nor {name} nor {} nor "
				"a part above",
				p->line);
		i += braces.len - 1;
	}
	wh_buf_putc(&p->text, '\n');
	return wh_buf_check(&p->text, err);
}

/* The statement being read is complete. */
static wherry_code end_stmt(parser *p, wherry_error *err)
{
	if (!p->sql.n)
		return WHERRY_OK;
	p->sql.stmts[p->sql.n - 1].text = wh_buf_take(&p->text);
	return p->sql.stmts[p->sql.n - 1].text ? WHERRY_OK : wh_oom(err);
}

static bool is_taken(const parser *p, const char *name)
{
	for (size_t i = 0; i < p->sql.n; i++)
		if (strcmp(p->sql.stmts[i].name, name) == 0)
			return true;
	return false;
}

static wherry_code begin_stmt(parser *p, wh_view line, bool part, wherry_error *err)
{
	size_t skip = strlen(part ? PART_MARK : NAME_MARK);
	wherry_code code = end_stmt(p, err);
	wh_stmt *grown;
	char *name;

	if (code != WHERRY_OK)
		return code;
	name = strndup(line.ptr + skip, line.len - skip);
	grown = realloc(p->sql.stmts, (p->sql.n + 1) * sizeof(*grown));
	if (grown)
		p->sql.stmts = grown;
	if (!name || !grown) {
		free(name);
		return wh_oom(err);
	}
	if (!*name || is_taken(p, name)) {
		code = wh_fail(err, WHERRY_INVALID, "line %d: '%.40s' is no new name",
			       p->line, name);
		free(name);
		return code;
	}
	p->sql.stmts[p->sql.n++] = (wh_stmt){name, NULL, part};
	return WHERRY_OK;
}

static wherry_code take_line(parser *p, wh_view line, wherry_error *err)
{
	bool comment = starts(line, "--");

	if (starts(line, HEAD_MARK)) {
		size_t skip = strlen(HEAD_MARK);

		if (p->sql.layout)
			return wh_fail(err, WHERRY_INVALID, "line %d: a second head line",
				       p->line);
		p->sql.layout = strndup(line.ptr + skip, line.len - skip);
		return p->sql.layout ? WHERRY_OK : wh_oom(err);
	}
	if (starts(line, NAME_MARK))
		return begin_stmt(p, line, false, err);
	if (starts(line, PART_MARK))
		return begin_stmt(p, line, true, err);
	if (comment || line.len == 0)
		return WHERRY_OK;
	if (!p->sql.n)
		return wh_fail(err, WHERRY_INVALID, "line %d: SQL before the first '%s'",
			       p->line, NAME_MARK);
	return put_line(p, line, err);
}

wherry_code wh_sql_parse(const char *text, const char *table, wh_sql *out,
			 wherry_error *err)
{
	parser p = {.table = table, .text = WH_BUF_INIT(STMT_MAX)};
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && *text) {
		wh_view line = {text, strcspn(text, "\n")};

		p.line++;
		code = take_line(&p, line, err);
		text += line.len + (text[line.len] == '\n');
	}
	if (code == WHERRY_OK)
		code = end_stmt(&p, err);
	if (code == WHERRY_OK && !p.sql.layout)
		code = wh_fail(err, WHERRY_INVALID, "no head line '%s'", HEAD_MARK);
	wh_buf_clear(&p.text);
	if (code != WHERRY_OK) {
		wh_sql_clear(&p.sql);
		return code;
	}
	*out = p.sql;
	return WHERRY_OK;
}

void wh_sql_clear(wh_sql *sql)
{
	for (size_t i = 0; i < sql->n; i++) {
		free(sql->stmts[i].name);
		free(sql->stmts[i].text);
	}
	free(sql->stmts);
	free(sql->layout);
	*sql = (wh_sql){0};
}

const wh_stmt *wh_sql_find(const wh_sql *sql, const char *name)
{
	for (size_t i = 0; i < sql->n; i++)
		if (strcmp(sql->stmts[i].name, name) == 0 && !sql->stmts[i].part)
			return &sql->stmts[i];
	return NULL;
}

bool wh_sql_word(const wh_sql *sql, const char *key, char *out, size_t cap)
{
	size_t len = strlen(key);

	for (const char *s = sql->layout; *s;) {
		size_t n = strcspn(s, " ");

		if (n > len && memcmp(s, key, len) == 0 && s[len] == '=' &&
		    n - len - 1 < cap) {
			memcpy(out, s + len + 1, n - len - 1);
			out[n - len - 1] = 0;
			return true;
		}
		s += n + strspn(s + n, " ");
	}
	return false;
}

const char *wh_sql_embedded(const char *model, const char *scheme)
{
	for (const wh_sql_file *f = wh_sql_files; f->model; f++)
		if (strcmp(f->model, model) == 0 && strcmp(f->scheme, scheme) == 0)
			return f->text;
	return NULL;
}
