/*
 * Texts of a stream in the encoding of their database.  If the server converted them, a
 * text that it cannot convert would end the stream at that row each time.  So the server
 * sends them unchanged and they are converted here.  A text that cannot be converted
 * stays unchanged.
 */
#include <iconv.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

wherry_code wh_postgres_text_open(postgres_stream *s, postgres_db *link,
				  wherry_error *err)
{
	const char *name = PQparameterStatus(link->conn, "server_encoding");
	bool ascii = name && strcmp(name, "SQL_ASCII") == 0;
	wherry_code code = WHERRY_OK;
	char known[32] = "";
	iconv_t convert = NULL;

	if (!name || strcmp(name, "UTF8") == 0)
		return WHERRY_OK;
	if (!ascii && !s->convert) {
		libc_name(name, known, sizeof(known));
		convert = iconv_open("UTF-8", known);
		if ((intptr_t)convert == -1)
			return WHERRY_OK; /* The server converts. */
		s->convert = convert;
	}
	if (PQsetClientEncoding(link->conn, name) != 0)
		code = wh_postgres_fail(link, NULL, err);
	return code;
}

void wh_postgres_text_close(postgres_stream *s)
{
	if (s->convert)
		(void)iconv_close(s->convert);
	s->convert = NULL;
}

wh_view wh_postgres_text_utf8(postgres_stream *s, wh_view text)
{
	size_t left = text.len, cap = 4 * text.len, room = cap;
	char *from = NULL, *out = NULL, *to;

	if (!s->convert || !text.len)
		return text;
	from = wh_arena_copy(&s->copies, text.ptr, text.len);
	out = wh_arena_alloc(&s->copies, cap + 1);
	s->failed |= !from || !out;
	if (!from || !out)
		return (wh_view){NULL, 0};
	to = out;
	(void)iconv(s->convert, NULL, NULL, NULL, NULL);
	if (iconv(s->convert, &from, &left, &to, &room) == (size_t)-1)
		return text;
	return (wh_view){out, cap - room};
}
