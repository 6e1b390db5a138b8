/*
 * Texts in the encoding of their database.  If the server converted them, a text that it
 * cannot convert would make each statement fail, and end each stream, that has its row.  So
 * the server sends them unchanged and they are converted here.  A text that cannot be
 * converted stays unchanged, and is not UTF-8 then.
 *
 * On a connection that runs SQL of the application, too, the server converts the application's texts:
 * it is set for the time of a call, and then set back.
 */
#include <iconv.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "db/postgres/postgres_stream.h"

/* The C library's name of one of PostgreSQL's encodings: "CP1252" for "WIN1252". */
static void libc_name(const char *name, char *out, size_t cap)
{
	if (strncmp(name, "WIN", 3) == 0)
		(void)snprintf(out, cap, "CP%.20s", name + 3);
	else if (strcmp(name, "LATIN9") == 0)
		(void)snprintf(out, cap, "ISO-8859-15");
	else
		(void)snprintf(out, cap, "%.30s", name);
	for (char *p = out; *p; p++)
		if (*p == '_')
			*p = '-';
	if (strcmp(out, "KOI8R") == 0 || strcmp(out, "KOI8U") == 0)
		(void)snprintf(out, cap, "KOI8-%c", name[4]);
}

/* NULL: the C library does not know it. */
static iconv_t open_iconv(const char *to, const char *from)
{
	iconv_t made = iconv_open(to, from);

	return (intptr_t)made == -1 ? NULL : made;
}

const char *wh_postgres_text_open(wh_postgres_text *t, const PGconn *conn)
{
	const char *name = PQparameterStatus(conn, "server_encoding");
	char known[32] = "";

	if (!name || strcmp(name, "UTF8") == 0)
		return NULL;
	t->raw = strcmp(name, "SQL_ASCII") == 0;
	if (t->raw)
		return name;
	libc_name(name, known, sizeof(known));
	if (!t->from)
		t->from = open_iconv("UTF-8", known);
	if (!t->to)
		t->to = open_iconv(known, "UTF-8");
	t->raw = t->from && t->to;
	return t->raw ? name : NULL; /* NULL: the server converts. */
}

void wh_postgres_text_close(wh_postgres_text *t)
{
	if (t->from)
		(void)iconv_close(t->from);
	if (t->to)
		(void)iconv_close(t->to);
	*t = (wh_postgres_text){.raw = false};
}

static bool is_ascii(wh_view text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.ptr[i] >= 0x80)
			return false;
	return true;
}

/* False: it cannot be converted, or there is no memory, which sets *failed. */
static bool convert(iconv_t how, wh_view text, wh_arena *copies, wh_view *out,
		    bool *failed)
{
	size_t left = text.len, cap = 4 * text.len, room = cap;
	char *from = wh_arena_copy(copies, text.ptr, text.len);
	char *made = wh_arena_alloc(copies, cap + 1), *to = made;

	*failed |= !from || !made;
	if (!from || !made)
		return false;
	(void)iconv(how, NULL, NULL, NULL, NULL);
	if (iconv(how, &from, &left, &to, &room) == (size_t)-1)
		return false;
	*to = 0;
	*out = (wh_view){made, cap - room};
	return true;
}

wh_view wh_postgres_text_utf8(const wh_postgres_text *t, wh_view text, wh_arena *copies,
			      bool *failed)
{
	wh_view out = text;

	if (!t->from || is_ascii(text))
		return text;
	if (!convert(t->from, text, copies, &out, failed) && *failed)
		return (wh_view){NULL, 0};
	return out;
}

static const char highest[] = "\xf4\x8f\xbf\xbf"; /* U+10FFFF */

/* The upper end of a range of texts is followed by highest characters.  They become the highest
 * bytes, which no other encoding has a character above. */
static wh_view end_of_range(wh_view text, wh_arena *copies)
{
	enum { LEN = sizeof(highest) - 1 };
	size_t len = text.len;
	char *out;

	while (len >= LEN && memcmp(text.ptr + len - LEN, highest, LEN) == 0)
		len -= LEN;
	if (text.len - len < 2 * (size_t)LEN)
		return text;
	out = wh_arena_copy(copies, text.ptr, text.len);
	if (!out)
		return text;
	memset(out + len, 0xff, text.len - len);
	return (wh_view){out, text.len};
}

bool wh_postgres_text_server(const wh_postgres_text *t, wh_view text, wh_arena *copies,
			     wh_view *out, bool *failed)
{
	wh_view end;
	char *made;

	*out = text;
	/* A text that came from the server and could not be converted goes back unchanged. */
	if (!t->raw || is_ascii(text) || !wh_utf8_valid(text.ptr, text.len))
		return true;
	end = end_of_range(text, copies);
	if (!t->to || end.ptr == text.ptr) {
		*out = end;
		return !t->to || convert(t->to, text, copies, out, failed);
	}
	while (text.len && (unsigned char)end.ptr[text.len - 1] == 0xff)
		text.len--;
	if (!convert(t->to, text, copies, out, failed))
		return false;
	/* Two of the highest bytes are the end of the range. */
	text = *out;
	made = wh_arena_alloc(copies, text.len + 3);
	*failed |= !made;
	if (!made)
		return false;
	memcpy(made, text.ptr, text.len);
	memcpy(made + text.len, "\xff\xff", 3);
	*out = (wh_view){made, text.len + 2};
	return true;
}

const char *wh_postgres_text_sql(const postgres_db *s, const char *sql, wh_arena *copies)
{
	bool failed = false;
	wh_view out;

	if (!s->text.to ||
	    !wh_postgres_text_server(&s->text, wh_view_of(sql), copies, &out, &failed))
		return sql;
	return out.ptr;
}
