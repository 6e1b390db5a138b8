/*
 * Names of columns, and the text of SQL that is made of them.
 */
#include "outbox/adopt.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool same_loosely(const char *a, const char *b)
{
	for (;;) {
		a += *a == '_';
		b += *b == '_';
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (!*a)
			return true;
		a++;
		b++;
	}
}

const wh_adopt_column *wh_adopt_find(const wh_adoption *a, const char *name, bool loose)
{
	const wh_adopt_column *found = NULL;

	for (size_t i = 0; i < a->n_columns; i++) {
		if (strcmp(a->columns[i].name, name) == 0)
			return &a->columns[i];
		if (!found && (loose ? same_loosely(a->columns[i].name, name)
				     : strcasecmp(a->columns[i].name, name) == 0))
			found = &a->columns[i];
	}
	return found;
}

void wh_adopt_quote(const wh_adoption *a, wh_buf *to, const char *name)
{
	/* SQLite takes a name in double quotes for a text if there is no such column. */
	const char quote = a->db->driver->connection.schema_of ? '"' : '`';

	wh_buf_putc(to, quote);
	for (const char *p = name; *p; p++) {
		if (*p == quote)
			wh_buf_putc(to, quote);
		wh_buf_putc(to, *p);
	}
	wh_buf_putc(to, quote);
}

void wh_adopt_put_name(const wh_adoption *a, wh_buf *to, const wh_name *name,
		       const char *behind)
{
	char whole[2 * WH_NAME_MOST];

	if (*name->schema) {
		wh_adopt_quote(a, to, name->schema);
		wh_buf_putc(to, '.');
	}
	(void)snprintf(whole, sizeof(whole), "%s%s", name->table, behind);
	wh_adopt_quote(a, to, whole);
}

void wh_adopt_put_guard(const wh_adoption *a, wh_buf *to, const char *guard,
			const char *text)
{
	wh_buf id = WH_BUF_INIT(1000), version = WH_BUF_INIT(1000),
	       exceptions = WH_BUF_INIT(1000), marked = WH_BUF_INIT(4000);
	const size_t start = to->len;

	wh_adopt_quote(a, &id, a->id);
	wh_adopt_put_name(a, &exceptions, &a->name, "_exception");
	wh_adopt_quote(a, &version, a->version);
	wh_adopt_fill(&marked, wh_adopt_text(a, "is-marked"),
		      (const char *const[]){"id", wh_buf_into(&id, to), "exceptions",
					    wh_buf_into(&exceptions, to), "version",
					    wh_buf_into(&version, to), NULL});
	wh_adopt_end_line(&marked, 0);
	wh_adopt_fill(to, wh_adopt_text(a, guard),
		      (const char *const[]){"id", wh_buf_into(&id, to), "exceptions",
					    wh_buf_into(&exceptions, to), "marked",
					    wh_buf_into(&marked, to), "c", text, NULL});
	wh_adopt_end_line(to, start);
	wh_buf_clear(&id);
	wh_buf_clear(&version);
	wh_buf_clear(&exceptions);
	wh_buf_clear(&marked);
}

void wh_adopt_put_guarded_where(const wh_adoption *a, wh_buf *to, const char *word)
{
	if (a->where) {
		wh_buf_puts(to, word);
		wh_adopt_put_guard(a, to, "guard-where", a->where);
	}
	if (a->open.len)
		wh_buf_printf(to, "%s%s", a->where ? " AND " : word, a->open.ptr);
}

void wh_adopt_put_where(const wh_adoption *a, wh_buf *to, const char *word)
{
	if (a->where)
		wh_buf_printf(to, "%s(%s)", word, a->where);
	if (a->open.len)
		wh_buf_printf(to, "%s%s", a->where ? " AND " : word, a->open.ptr);
}

void wh_adopt_fill(wh_buf *to, const char *text, const char *const *pairs)
{
	while (*text) {
		const char *value = NULL;
		size_t skip = 1;

		for (size_t i = 0; *text == '@' && !value && pairs[i]; i += 2) {
			size_t len = strlen(pairs[i]);

			if (strncmp(text + 1, pairs[i], len) == 0 &&
			    text[len + 1] == '@') {
				value = pairs[i + 1];
				skip = len + 2;
			}
		}
		if (value)
			wh_buf_puts(to, value);
		else
			wh_buf_putc(to, *text);
		text += skip;
	}
}

const char *wh_adopt_text(const wh_adoption *a, const char *name)
{
	const wh_stmt *stmt = wh_sql_find(&a->sql, name);

	return stmt ? stmt->text : NULL;
}

const char *wh_adopt_expression(const wh_adoption *a, const char *kind, const char *type,
				const char *behind)
{
	char name[100];
	const char *text;

	(void)snprintf(name, sizeof(name), "%s-%s%s", kind, type, behind);
	text = wh_adopt_text(a, name);
	if (text)
		return text;
	(void)snprintf(name, sizeof(name), "%s-any%s", kind, behind);
	return wh_adopt_text(a, name);
}

void wh_adopt_end_line(wh_buf *text, size_t start)
{
	while (text->len > start && text->ptr[text->len - 1] == '\n')
		text->ptr[--text->len] = 0;
}

void wh_adopt_put(wh_buf *to, const char *text, const char *column)
{
	const char *const pairs[] = {"c", column, NULL};
	size_t start = to->len;

	wh_adopt_fill(to, text, pairs);
	wh_adopt_end_line(to, start);
}
