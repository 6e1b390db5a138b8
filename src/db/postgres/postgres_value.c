/*
 * Values of a stream.  The server sends them in binary, or as text if it is older than
 * version 14.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "db/postgres/postgres_value.h"

/* PostgreSQL's epoch, 2000-01-01, in Unix time. */
enum { EPOCH_S = 946684800 };

static int64_t big_endian(wh_view data)
{
	uint64_t n = 0;

	for (size_t i = 0; i < data.len; i++)
		n = n << 8 | (unsigned char)data.ptr[i];
	if (data.len == 2)
		return (int16_t)n;
	return data.len == 4 ? (int32_t)n : (int64_t)n;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1, era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Read digits and skip the character `end` after them.  False: there is no digit, or
 * another character follows. */
static bool take_digits(wh_view *text, char end, int64_t *out)
{
	size_t n = 0;

	*out = 0;
	for (; n < text->len && n < 9 && text->ptr[n] >= '0' && text->ptr[n] <= '9'; n++)
		*out = *out * 10 + (text->ptr[n] - '0');
	if (!n || (end && (n == text->len || text->ptr[n] != end)))
		return false;
	n += end != 0;
	text->ptr += n;
	text->len -= n;
	return true;
}

/* Convert "2026-11-21 15:22:07.123456+00", in UTC, to milliseconds; 0 if the text is not
 * such a time. */
static int64_t text_ms(wh_view text)
{
	static const char ends[] = {'-', '-', ' ', ':', ':', 0};
	int64_t part[6], ms = 0;

	for (int i = 0; i < 6; i++)
		if (!take_digits(&text, ends[i], &part[i]))
			return 0;
	if (text.len && *text.ptr == '.') {
		wh_view part_s = {text.ptr + 1, text.len - 1 < 3 ? text.len - 1 : 3};
		size_t before = part_s.len;

		if (take_digits(&part_s, 0, &ms))
			for (size_t n = before - part_s.len; n < 3; n++)
				ms *= 10;
	}
	return ((days_of(part[0], (int)part[1], (int)part[2]) * 24 + part[3]) * 60 +
		part[4]) *
		       60000 +
	       part[5] * 1000 + ms;
}

int64_t wh_postgres_value_int(const wh_postgres_value *v)
{
	int64_t number = 0, us;
	char text[24];

	if (!v->data.ptr)
		return 0;
	if (v->type == WH_PG_TIMESTAMPTZ && !v->binary)
		return text_ms(v->data);
	if (v->type == WH_PG_TIMESTAMPTZ) {
		us = big_endian(v->data);
		if (us == INT64_MAX || us == INT64_MIN)
			return us;
		return (us - (us % 1000 + 1000) % 1000) / 1000 + EPOCH_S * 1000LL;
	}
	if (v->binary)
		return v->type == WH_PG_BOOL ? *v->data.ptr != 0 : big_endian(v->data);
	if (v->data.len < sizeof(text)) {
		memcpy(text, v->data.ptr, v->data.len);
		text[v->data.len] = 0;
		(void)wh_parse_int(text, &number);
	}
	return number;
}

static wh_view out_of_memory(bool *failed)
{
	*failed = true;
	return (wh_view){NULL, 0};
}

static wh_view uuid_text(wh_view data, wh_arena *copies, bool *failed)
{
	char *out = wh_arena_alloc(copies, 37), *at = out;

	if (!out)
		return out_of_memory(failed);
	for (size_t i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		(void)snprintf(at, 3, "%02x", (unsigned char)data.ptr[i]);
		at += 2;
	}
	return (wh_view){out, 36};
}

static int digit(char c)
{
	return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

/* Decode bytes in the form "\x00ff". */
static wh_view from_hex(wh_view data, wh_arena *copies, bool *failed)
{
	size_t n = (data.len - 2) / 2;
	char *out = wh_arena_alloc(copies, n + 1);

	if (!out)
		return out_of_memory(failed);
	for (size_t i = 0; i < n; i++)
		out[i] = (char)(digit(data.ptr[2 + 2 * i]) << 4 |
				digit(data.ptr[3 + 2 * i]));
	return (wh_view){out, n};
}

static wh_view number_text(const wh_postgres_value *v, wh_arena *copies, bool *failed)
{
	char *out = wh_arena_alloc(copies, 24);

	if (!out)
		return out_of_memory(failed);
	(void)snprintf(out, 24, "%lld", (long long)wh_postgres_value_int(v));
	return wh_view_of(out);
}

wh_view wh_postgres_value_bytes(const wh_postgres_value *v, wh_arena *copies,
				bool *failed)
{
	wh_view data = v->data;

	if (!data.ptr)
		return data;
	if (!v->binary && v->type == WH_PG_BYTEA && data.len >= 2)
		return from_hex(data, copies, failed);
	if (!v->binary)
		return data;
	switch (v->type) {
	/* The text follows a version byte. */
	case WH_PG_JSONB:
		return data.len ? (wh_view){data.ptr + 1, data.len - 1} : data;
	case WH_PG_UUID:
		return data.len == 16 ? uuid_text(data, copies, failed) : data;
	case WH_PG_INT2:
	case WH_PG_INT4:
	case WH_PG_INT8:
		return number_text(v, copies, failed);
	default:
		return data;
	}
}
