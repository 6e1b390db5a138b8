#include "db/sql.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MARK "-- name: "
#define PART_MARK "-- part: "
#define HEAD_MARK "-- layout: "
#define UNUSED_MARK "-- unused: "
#define ALIAS '\1' /* in the text of a part: where the alias goes that it is given */
#define ALIAS_CHARS "abcdefghijklmnopqrstuvwxyz_0123456789"
#define SUFFIX_CHARS ALIAS_CHARS ".ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Procedures on SQL Server are in the statement that makes them, as texts: names with quotes in
 * them are many times as long there (every_layout_takes_the_longest_names). */
enum { STMT_MAX = 512 * 1024 };

typedef struct parser {
	wh_sql_names names;
	wh_sql sql;
	wh_buf text;     /* of the statement being read */
	wh_buf numbered; /* scratch: the same with its parameters numbered */
	int line;
} parser;

static bool starts(wh_view line, const char *mark)
{
	size_t n = strlen(mark);

	return line.len >= n && memcmp(line.ptr, mark, n) == 0;
}

static bool is_called(const wh_stmt *stmt, wh_view name)
{
	return wh_view_eq(name, (wh_view){stmt->name, stmt->name_len});
}

/* The part of that name, which stands above; NULL: there is none. */
static const wh_stmt *find_part(const parser *p, wh_view name)
{
	for (size_t i = 0; i < p->sql.n; i++) {
		const wh_stmt *stmt = &p->sql.stmts[i];

		if (stmt->part && stmt->text && is_called(stmt, name))
			return stmt;
	}
	return NULL;
}

static void put_doubling(wh_buf *to, char quote, const char *text)
{
	for (; *text; text++) {
		if (*text == quote)
			wh_buf_putc(to, quote);
		wh_buf_putc(to, *text);
	}
}

static void put_schema(parser *p)
{
	if (!p->names.schema)
		return;
	wh_buf_putc(&p->text, '"');
	put_doubling(&p->text, '"', p->names.schema);
	wh_buf_puts(&p->text, "\".");
}

/* Put prefix, the table's name and the rest of `name` after the mark.  False: `name` does not
 * begin with the mark, or the rest is not a suffix. */
static bool put_name(parser *p, wh_view name, const char *mark, const char *prefix,
		     bool qualified)
{
	size_t n = strlen(mark);

	if (!starts(name, mark) || strspn(name.ptr + n, SUFFIX_CHARS) < name.len - n)
		return false;
	if (qualified)
		put_schema(p);
	wh_buf_printf(&p->text, "\"%s", prefix);
	put_doubling(&p->text, '"', p->names.table);
	wh_buf_put(&p->text, name.ptr + n, name.len - n);
	wh_buf_putc(&p->text, '"');
	return true;
}

/* Is what is read now a part? */
static bool in_part(const parser *p)
{
	return p->sql.n && p->sql.stmts[p->sql.n - 1].part;
}

/* The text of a part with an alias, "c" or "" or "."; false: there is no alias to hand on. */
static bool put_part(parser *p, const wh_stmt *part, wh_view alias)
{
	bool hand_on = alias.len == 1 && *alias.ptr == '.';

	if ((hand_on && !in_part(p)) ||
	    (!hand_on && strspn(alias.ptr, ALIAS_CHARS) < alias.len))
		return false;
	for (const char *s = part->text; *s; s++) {
		size_t plain = strcspn(s, (const char[]){ALIAS, 0});

		wh_buf_put(&p->text, s, plain);
		s += plain;
		if (*s != ALIAS)
			break;
		if (hand_on) {
			wh_buf_putc(&p->text, ALIAS);
		} else if (alias.len) {
			wh_buf_put(&p->text, alias.ptr, alias.len);
			wh_buf_putc(&p->text, '.');
		}
	}
	return true;
}

/* A part by its name, with or without an alias; false: there is none. */
static bool put_named_part(parser *p, wh_view name)
{
	const char *colon = name.len ? memchr(name.ptr, ':', name.len) : NULL;
	size_t len = colon ? (size_t)(colon - name.ptr) : name.len;
	const wh_stmt *part = find_part(p, (wh_view){name.ptr, len});
	wh_view alias = {"", 0};

	if (colon)
		alias = (wh_view){colon + 1, name.len - len - 1};
	return part && (!colon || alias.len) && put_part(p, part, alias);
}

/* The type of a column that keeps bodies. */
static const char *payload_column(const wh_sql_names *names)
{
	if (!names->dialect || strcmp(names->dialect, "mssql") != 0)
		return names->payload;
	return strcmp(names->payload, "bytea") == 0 ? "VARBINARY(MAX)" : "NVARCHAR(MAX)";
}

static bool put_braces(parser *p, wh_view name);

/* NULL: an empty one. */
static void put_literal(parser *p, const char *text)
{
	wh_buf_putc(&p->text, '\'');
	put_doubling(&p->text, '\'', text ? text : "");
	wh_buf_putc(&p->text, '\'');
}

/* As a string, what the name stands for. */
static bool put_string(parser *p, wh_view name)
{
	wh_buf outer = p->text, inner;
	bool known;

	p->text = (wh_buf)WH_BUF_INIT(STMT_MAX);
	known = put_braces(p, name);
	inner = p->text;
	p->text = outer;
	put_literal(p, wh_buf_into(&inner, &p->text));
	wh_buf_clear(&inner);
	return known;
}

/* Put what "{NAME}" stands for; false if it stands for nothing. */
static bool put_braces(parser *p, wh_view name)
{
	if (put_named_part(p, name)) {
		return true;
	} else if (wh_view_eq(name, wh_view_of("."))) {
		wh_buf_putc(&p->text, ALIAS);
		return in_part(p);
	} else if (!name.len) { /* an empty JSON object, not ours */
		wh_buf_puts(&p->text, "{}");
	} else if (*name.ptr == '\'' && name.len > 1) {
		return put_string(p, (wh_view){name.ptr + 1, name.len - 1});
	} else if (wh_view_eq(name, wh_view_of("name"))) {
		put_literal(p, p->names.table);
	} else if (wh_view_eq(name, wh_view_of("topic"))) {
		put_literal(p, p->names.topic);
	} else if (wh_view_eq(name, wh_view_of("kind"))) {
		put_literal(p, p->names.kind);
	} else if (wh_view_eq(name, wh_view_of("schema."))) {
		put_schema(p);
	} else if (wh_view_eq(name, wh_view_of("payload_type"))) {
		wh_buf_puts(&p->text, payload_column(&p->names));
	} else if (p->names.role && wh_view_eq(name, wh_view_of("role"))) {
		wh_buf_putc(&p->text, '"');
		put_doubling(&p->text, '"', p->names.role);
		wh_buf_putc(&p->text, '"');
	} else if (starts(name, "wherry_")) {
		put_schema(p);
		wh_buf_put(&p->text, name.ptr, name.len);
	} else {
		return put_name(p, name, "table", "", true) ||
		       put_name(p, name, "bare", "", false) ||
		       put_name(p, name, "idx_table", "idx_", false) ||
		       put_name(p, name, "uq_table", "uq_", false) ||
		       put_name(p, name, "PK_table", "PK_", false) ||
		       put_name(p, name, "UQ_table", "UQ_", false) ||
		       put_name(p, name, "CK_table", "CK_", false) ||
		       put_name(p, name, "IX_table", "IX_", false);
	}
	return true;
}

/* Append a line with its braces filled in. */
static wherry_code put_line(parser *p, wh_view line, wherry_error *err)
{
	for (size_t i = 0; i < line.len; i++) {
		wh_view braces = {line.ptr + i, 0};
		const char *close;

		if (line.ptr[i] != '{') {
			close = memchr(line.ptr + i, '{', line.len - i);
			close = close ? close : line.ptr + line.len;
			wh_buf_put(&p->text, line.ptr + i,
				   (size_t)(close - line.ptr) - i);
			i = (size_t)(close - line.ptr) - 1;
			continue;
		}
		close = memchr(braces.ptr, '}', line.len - i);
		braces.len = close ? (size_t)(close - braces.ptr) + 1 : 0;
		if (!close || !put_braces(p, (wh_view){braces.ptr + 1, braces.len - 2}))
			return wh_fail(
				err, WHERRY_INVALID,
				"line %d: a { that is neither {table} nor {name} nor {} nor "
				"a part above",
				p->line);
		i += braces.len - 1;
	}
	/* A part at the end of the line has ended it. */
	if (!p->text.len || p->text.ptr[p->text.len - 1] != '\n')
		wh_buf_putc(&p->text, '\n');
	return wh_buf_check(&p->text, err);
}

/* The statement being read is complete. */
static wherry_code end_stmt(parser *p, wherry_error *err)
{
	wh_stmt *stmt = p->sql.n ? &p->sql.stmts[p->sql.n - 1] : NULL;
	wherry_code code = WHERRY_OK;

	if (!stmt)
		return WHERRY_OK;
	if (stmt->part)
		stmt->text = strdup(wh_buf_str(&p->text));
	else
		code = wh_stmt_number(p->names.dialect, stmt, wh_buf_str(&p->text),
				      &p->numbered, err);
	wh_buf_reset(&p->text);
	return code == WHERRY_OK && !stmt->text ? wh_oom(err) : code;
}

static bool is_taken(const parser *p, wh_view name)
{
	for (size_t i = 0; i < p->sql.n; i++)
		if (is_called(&p->sql.stmts[i], name))
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
	grown = p->sql.stmts;
	if ((p->sql.n & (p->sql.n - 1)) == 0) /* 0, 1, 2, 4, ...: it is full */
		grown = realloc(p->sql.stmts,
				(p->sql.n ? 2 * p->sql.n : 1) * sizeof(*grown));
	if (grown)
		p->sql.stmts = grown;
	if (!name || !grown) {
		free(name);
		return wh_oom(err);
	}
	if (!*name || is_taken(p, wh_view_of(name))) {
		code = wh_fail(err, WHERRY_INVALID, "line %d: '%.40s' is not a new name",
			       p->line, name);
		free(name);
		return code;
	}
	p->sql.stmts[p->sql.n++] =
		(wh_stmt){.name = name, .name_len = strlen(name), .part = part};
	return WHERRY_OK;
}

static wherry_code take_unused(parser *p, wh_view line, wherry_error *err)
{
	wh_stmt *stmt = p->sql.n ? &p->sql.stmts[p->sql.n - 1] : NULL;
	char **list = stmt ? &stmt->unused : &p->sql.unused;
	size_t skip = strlen(UNUSED_MARK);

	if (*list || (stmt && stmt->part))
		return wh_fail(
			err, WHERRY_INVALID,
			"line %d: '%s' in a part, or twice in a statement or before the first one",
			p->line, UNUSED_MARK);
	*list = strndup(line.ptr + skip, line.len - skip);
	return *list ? WHERRY_OK : wh_oom(err);
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
	if (starts(line, UNUSED_MARK))
		return take_unused(p, line, err);
	if (comment || line.len == 0)
		return WHERRY_OK;
	if (!p->sql.n)
		return wh_fail(err, WHERRY_INVALID, "line %d: SQL before the first '%s'",
			       p->line, NAME_MARK);
	return put_line(p, line, err);
}

wherry_code wh_sql_parse_as(const char *text, const wh_sql_names *names, wh_sql *out,
			    wherry_error *err)
{
	parser p = {.names = *names,
		    .text = WH_BUF_INIT(STMT_MAX),
		    .numbered = WH_BUF_INIT(STMT_MAX)};
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
	wh_buf_clear(&p.numbered);
	if (code != WHERRY_OK) {
		wh_sql_clear(&p.sql);
		return code;
	}
	*out = p.sql;
	return WHERRY_OK;
}

wherry_code wh_sql_parse(const char *text, const char *table, wh_sql *out,
			 wherry_error *err)
{
	return wh_sql_parse_as(text, &(wh_sql_names){.table = table, .payload = "bytea"},
			       out, err);
}

void wh_sql_clear(wh_sql *sql)
{
	for (size_t i = 0; i < sql->n; i++)
		if (sql->pattern)
			free(sql->stmts[i].text);
		else
			wh_stmt_clear(&sql->stmts[i]);
	free(sql->stmts);
	if (!sql->pattern) {
		free(sql->layout);
		free(sql->unused);
	}
	*sql = (wh_sql){0};
}

/* ---- patterns ---- */

#define SCHEMA "\2" /* in the text of a pattern: where the names go */
#define TABLE "\3"

wherry_code wh_sql_parse_pattern(const char *text, const wh_sql_names *names, wh_sql *out,
				 wherry_error *err)
{
	wh_sql_names marks = *names;
	wherry_code code;

	marks.schema = SCHEMA;
	marks.table = TABLE;
	code = wh_sql_parse_as(text, &marks, out, err);
	for (size_t i = 0; code == WHERRY_OK && i < out->n; i++)
		if (out->stmts[i].part) { /* The statements contain it. */
			free(out->stmts[i].text);
			out->stmts[i].text = NULL;
		}
	return code;
}

bool wh_sql_fits_pattern(const char *schema, const char *table)
{
	static const char doubled[] = "\"'" SCHEMA TABLE;

	return *schema && !strpbrk(schema, doubled) && !strpbrk(table, doubled);
}

static bool changes_tables(const wh_stmt *stmt)
{
	return strncmp(stmt->name, "migrate-", 8) == 0 ||
	       strncmp(stmt->name, "add-", 4) == 0 || strcmp(stmt->name, "drop") == 0;
}

static char *fill(const char *text, const char *schema, const char *table)
{
	size_t n_schema = strlen(schema), n_table = strlen(table), len = 1;
	char *out, *to;

	for (const char *p = text; *p; p++)
		len += *p == *SCHEMA ? n_schema : *p == *TABLE ? n_table : 1;
	out = to = malloc(len);
	if (!out)
		return NULL;
	while (*text) {
		size_t plain = strcspn(text, SCHEMA TABLE);

		to = (char *)memcpy(to, text, plain) + plain;
		text += plain;
		if (*text == *SCHEMA)
			to = (char *)memcpy(to, schema, n_schema) + n_schema;
		else if (*text)
			to = (char *)memcpy(to, table, n_table) + n_table;
		text += *text != 0;
	}
	*to = 0;
	return out;
}

wherry_code wh_sql_fill(const wh_sql *pattern, const char *schema, const char *table,
			wh_sql *out, wherry_error *err)
{
	wh_sql sql = *pattern;

	sql.pattern = pattern;
	sql.stmts = calloc(pattern->n, sizeof(*sql.stmts));
	if (!sql.stmts)
		return wh_oom(err);
	for (size_t i = 0; i < pattern->n; i++) {
		const wh_stmt *from = &pattern->stmts[i];

		sql.stmts[i] = *from;
		sql.stmts[i].text = NULL;
	}
	for (size_t i = 0; i < pattern->n; i++) {
		const wh_stmt *from = &pattern->stmts[i];

		if (from->part || changes_tables(from))
			continue;
		sql.stmts[i].text = fill(from->text, schema, table);
		if (!sql.stmts[i].text) {
			wh_sql_clear(&sql);
			return wh_oom(err);
		}
	}
	*out = sql;
	return WHERRY_OK;
}

const wh_stmt *wh_sql_find(const wh_sql *sql, const char *name)
{
	wh_view wanted = wh_view_of(name);

	for (size_t i = 0; i < sql->n; i++)
		if (!sql->stmts[i].part && is_called(&sql->stmts[i], wanted))
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

bool wh_sql_says(const char *text, const char *word)
{
	const char *end = text + strcspn(text, "\n"), *at = text;
	size_t len = strlen(word);

	while ((at = strstr(at, word)) && at < end) {
		if (at > text && at[-1] == ' ' && strchr(" \n", at[len]))
			return true; /* strchr: also at the end of the text */
		at += len;
	}
	return false;
}

const char *wh_sql_embedded(const char *model, const char *layout, const char *dialect)
{
	for (const wh_sql_file *f = wh_sql_files; f->model; f++)
		if (strcmp(f->model, model) == 0 && strcmp(f->layout, layout) == 0 &&
		    strcmp(f->dialect, dialect) == 0)
			return f->text;
	return NULL;
}
