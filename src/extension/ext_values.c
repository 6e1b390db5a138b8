/*
 * Arguments of the functions, and their errors.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/date.h"
#include "base/duration.h"
#include "base/error.h"
#include "extension/extension.h"

enum { LONGEST_DURATION = 80, MOST_DAYS = 36500, MOST_JSON = 256 << 20 };

static sqlite3_value *value_at(const ext_call *call, int i)
{
	if (i >= call->argc || !call->argv[i] ||
	    sqlite3_value_type(call->argv[i]) == SQLITE_NULL)
		return NULL;
	return call->argv[i];
}

/* Is it a whole number?  Node and others bind every number as a floating-point one. */
static bool is_whole(double number)
{
	return number == trunc(number) && fabs(number) < (double)(INT64_C(1) << 53);
}

/* Text and its length. */
static const char *text_of(const ext_call *call, int i, size_t *out_len)
{
	sqlite3_value *value = value_at(call, i);
	const char *text;

	*out_len = 0;
	if (!value)
		return NULL;
	if (sqlite3_value_type(value) == SQLITE_FLOAT &&
	    is_whole(sqlite3_value_double(value))) {
		ext_whole *whole = &call->whole[i];

		*out_len = (size_t)snprintf(whole->text, sizeof(whole->text), "%" PRId64,
					    (int64_t)sqlite3_value_double(value));
		return whole->text;
	}
	/* The length is asked for last: a conversion changes it. */
	text = (const char *)sqlite3_value_text(value);
	*out_len = (size_t)sqlite3_value_bytes(value);
	return text;
}

const char *wh_ext_text(const ext_call *call, int i)
{
	size_t len;

	return text_of(call, i, &len);
}

wherry_code wh_ext_need(const ext_call *call, int i, const char *what, const char **out,
			wherry_error *err)
{
	size_t len;

	*out = text_of(call, i, &len);
	if (!*out)
		return value_at(call, i)
			       ? wh_oom(err)
			       : wh_fail(err, WHERRY_INVALID, "%s is NULL", what);
	if (strlen(*out) != len)
		return wh_fail(err, WHERRY_INVALID, "%s contains a NUL character", what);
	return WHERRY_OK;
}

wherry_code wh_ext_integer(const ext_call *call, int i, const char *what, int64_t absent,
			   int64_t *out, wherry_error *err)
{
	sqlite3_value *value = value_at(call, i);
	int type = value ? sqlite3_value_numeric_type(value) : SQLITE_NULL;

	*out = absent;
	if (!value)
		return WHERRY_OK;
	if (type != SQLITE_INTEGER &&
	    (type != SQLITE_FLOAT || !is_whole(sqlite3_value_double(value))))
		return wh_fail(err, WHERRY_INVALID, "%s is not a whole number: '%s'",
			       what, sqlite3_value_text(value));
	*out = sqlite3_value_int64(value);
	return WHERRY_OK;
}

bool wh_ext_true(const ext_call *call, int i)
{
	sqlite3_value *value = value_at(call, i);

	return value && sqlite3_value_int64(value) != 0;
}

/* The unit that a word of PostgreSQL's intervals means; NULL: none. */
static const char *unit_of(const char *word, size_t len)
{
	static const struct {
		const char *word, *unit;
	} units[] = {
		{"us", "us"},    {"microsecond", "us"},
		{"ms", "ms"},    {"millisecond", "ms"},
		{"msec", "ms"},  {"s", "s"},
		{"sec", "s"},    {"second", "s"},
		{"m", "m"},      {"min", "m"},
		{"minute", "m"}, {"h", "h"},
		{"hour", "h"},   {"d", "d"},
		{"day", "d"},    {"w", "w"},
		{"week", "w"},
	};

	if (len > 2 && word[len - 1] == 's') /* The plural. */
		len--;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strlen(units[i].word) == len &&
		    strncmp(units[i].word, word, len) == 0)
			return units[i].unit;
	return NULL;
}

/* Write "5 minutes" as "5m". */
static bool shorten(const char *text, char *out, size_t cap)
{
	size_t n = 0;

	while (*text) {
		if (isspace((unsigned char)*text)) {
			text++;
		} else if (isalpha((unsigned char)*text)) {
			size_t len = 0;
			const char *unit;

			while (isalpha((unsigned char)text[len]))
				len++;
			unit = unit_of(text, len);
			if (!unit || n + 3 > cap)
				return false;
			n += (size_t)snprintf(out + n, cap - n, "%s", unit);
			text += len;
		} else {
			if (n + 2 > cap)
				return false;
			out[n++] = *text++;
		}
	}
	out[n] = '\0';
	return true;
}

static wherry_code of_seconds(double seconds, const char *what, int64_t *out_us,
			      wherry_error *err)
{
	if (!(seconds >= 0 && seconds <= MOST_DAYS * 86400.0))
		return wh_fail(err, WHERRY_INVALID,
			       "%s of %g seconds is not between 0 and 36500 days", what,
			       seconds);
	*out_us = (int64_t)llround(seconds * 1e6);
	return WHERRY_OK;
}

static wherry_code of_words(const char *text, const char *what, int64_t *out_us,
			    wherry_error *err)
{
	char brief[LONGEST_DURATION];

	if (!text || !shorten(text, brief, sizeof(brief)) ||
	    wh_duration_parse(brief, out_us, NULL) != WHERRY_OK)
		return wh_fail(
			err, WHERRY_INVALID,
			"%s '%s' is not a duration: write '30 s', '5 minutes', '1h30m' or "
			"a number of seconds",
			what, text ? text : "");
	return WHERRY_OK;
}

wherry_code wh_ext_duration(const ext_call *call, int i, const char *what, int64_t absent,
			    int64_t *out_us, wherry_error *err)
{
	sqlite3_value *value = value_at(call, i);

	*out_us = absent;
	if (!value)
		return WHERRY_OK;
	if (sqlite3_value_type(value) == SQLITE_INTEGER ||
	    sqlite3_value_type(value) == SQLITE_FLOAT)
		return of_seconds(sqlite3_value_double(value), what, out_us, err);
	return of_words((const char *)sqlite3_value_text(value), what, out_us, err);
}

static wherry_code of_unix(double seconds, const char *what, int64_t *out_us,
			   wherry_error *err)
{
	if (!(seconds > 0 && seconds <= (double)WH_TIME_LAST))
		return wh_fail(err, WHERRY_INVALID,
			       "%s is not a number of seconds since 1970: %g", what,
			       seconds);
	*out_us = (int64_t)llround(seconds * 1e6);
	return WHERRY_OK;
}

/* SQLite's datetime() writes UTC without an offset. */
static wherry_code of_date(const char *text, const char *what, int64_t *out_us,
			   wherry_error *err)
{
	char utc[WH_LOCAL_TIME_LEN];

	(void)snprintf(utc, sizeof(utc), "%sZ", text ? text : "");
	if (!text || (wh_time_parse(text, out_us, NULL) != WHERRY_OK &&
		      wh_time_parse(utc, out_us, NULL) != WHERRY_OK))
		return wh_fail(err, WHERRY_INVALID,
			       "%s '%s' is not a time such as 2026-11-25T10:00:00Z", what,
			       text ? text : "");
	return WHERRY_OK;
}

wherry_code wh_ext_time(const ext_call *call, int i, const char *what, int64_t *out_us,
			wherry_error *err)
{
	sqlite3_value *value = value_at(call, i);

	*out_us = 0;
	if (!value)
		return WHERRY_OK;
	if (sqlite3_value_type(value) == SQLITE_INTEGER ||
	    sqlite3_value_type(value) == SQLITE_FLOAT)
		return of_unix(sqlite3_value_double(value), what, out_us, err);
	return of_date((const char *)sqlite3_value_text(value), what, out_us, err);
}

wherry_code wh_ext_body(const ext_call *call, int i, const void **out, size_t *out_len,
			wherry_error *err)
{
	sqlite3_value *value = value_at(call, i);

	*out = NULL;
	*out_len = 0;
	if (!value)
		return wh_fail(err, WHERRY_INVALID, "the body is NULL");
	if (sqlite3_value_type(value) == SQLITE_BLOB) {
		*out = sqlite3_value_blob(value);
		*out_len = (size_t)sqlite3_value_bytes(value);
	} else {
		*out = text_of(call, i, out_len);
	}
	return *out || *out_len == 0 ? WHERRY_OK : wh_oom(err);
}

/* ---- lists ---- */

void wh_ext_list_clear(ext_list *list)
{
	wh_arena_clear(&list->arena);
	list->n = 0;
}

static wherry_code add(ext_list *list, bool numbers, const json_t *item, const char *what,
		       wherry_error *err)
{
	bool whole = json_is_integer(item) ||
		     (json_is_real(item) && is_whole(json_real_value(item)));

	if (numbers ? !whole : !json_is_string(item))
		return wh_fail(err, WHERRY_INVALID, "%s: element %zu is not a %s", what,
			       list->n + 1, numbers ? "whole number" : "text");
	if (numbers) {
		list->numbers[list->n++] = json_is_integer(item)
						   ? json_integer_value(item)
						   : (int64_t)json_real_value(item);
		return WHERRY_OK;
	}
	list->texts[list->n] = wh_arena_copy(&list->arena, json_string_value(item),
					     json_string_length(item));
	return list->texts[list->n++] ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_list(const ext_call *call, int i, const char *what, bool numbers,
			     ext_list *out, wherry_error *err)
{
	const char *text = wh_ext_text(call, i);
	json_t *array = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	size_t n = json_array_size(array);
	wherry_code code = WHERRY_OK;

	*out = (ext_list){.arena = WH_ARENA_INIT};
	if (!json_is_array(array)) {
		json_decref(array);
		return wh_fail(err, WHERRY_INVALID,
			       "%s: '%.40s' is not a JSON array such as %s", what,
			       text ? text : "NULL",
			       numbers ? "[1, 2]" : "[\"a\", \"b\"]");
	}
	if (numbers)
		out->numbers =
			wh_arena_alloc(&out->arena, (n + 1) * sizeof(*out->numbers));
	else
		out->texts = wh_arena_alloc(&out->arena, (n + 1) * sizeof(*out->texts));
	if (!out->numbers && !out->texts)
		code = wh_oom(err);
	for (size_t at = 0; code == WHERRY_OK && at < n; at++)
		code = add(out, numbers, json_array_get(array, at), what, err);
	json_decref(array);
	if (code != WHERRY_OK)
		wh_ext_list_clear(out);
	return code;
}

wherry_code wh_ext_numbers(const ext_call *call, int i, const char *what, ext_list *out,
			   wherry_error *err)
{
	return read_list(call, i, what, true, out, err);
}

wherry_code wh_ext_texts(const ext_call *call, int i, const char *what, ext_list *out,
			 wherry_error *err)
{
	return read_list(call, i, what, false, out, err);
}

/* ---- columns: several lists of the same length ---- */

wherry_code wh_ext_columns(const ext_call *call, int first, int n, ext_columns *out,
			   wherry_error *err)
{
	*out = (ext_columns){.n = 0};
	for (int i = 0; i < n; i++) {
		const char *text = wh_ext_text(call, first + i);
		json_t *array = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

		out->arrays[i] = array;
		if (text && !json_is_array(array))
			return wh_fail(err, WHERRY_INVALID,
				       "argument %d is not a JSON array: '%.40s'",
				       first + i + 1, text);
		if (i > 0 && array && json_array_size(array) != out->n)
			return wh_fail(
				err, WHERRY_INVALID,
				"argument %d has %zu elements, and argument %d has %zu",
				first + i + 1, json_array_size(array), first + 1, out->n);
		if (i == 0 && !array)
			return wh_fail(err, WHERRY_INVALID, "argument %d is NULL",
				       first + 1);
		if (i == 0)
			out->n = json_array_size(array);
	}
	return WHERRY_OK;
}

void wh_ext_columns_clear(ext_columns *columns)
{
	for (int i = 0; i < EXT_MOST_COLUMNS; i++)
		json_decref(columns->arrays[i]);
}

/* An element that is there and not null; else NULL. */
static const json_t *element(const ext_columns *c, int column, size_t i)
{
	const json_t *item = json_array_get(c->arrays[column], i);

	return json_is_null(item) ? NULL : item;
}

wherry_code wh_ext_element_text(const ext_columns *c, int column, size_t i,
				const char *what, const char **out, size_t *out_len,
				wherry_error *err)
{
	const json_t *item = element(c, column, i);

	*out = NULL;
	if (out_len)
		*out_len = 0;
	if (!item)
		return WHERRY_OK;
	if (!json_is_string(item))
		return wh_fail(err, WHERRY_INVALID, "message %zu: %s is not a text",
			       i + 1, what);
	*out = json_string_value(item);
	if (out_len)
		*out_len = json_string_length(item);
	else if (strlen(*out) != json_string_length(item))
		return wh_fail(err, WHERRY_INVALID,
			       "message %zu: %s contains a NUL character", i + 1, what);
	return WHERRY_OK;
}

wherry_code wh_ext_element_duration(const ext_columns *c, int column, size_t i,
				    const char *what, int64_t *out_us, wherry_error *err)
{
	const json_t *item = element(c, column, i);

	*out_us = 0;
	if (!item)
		return WHERRY_OK;
	return json_is_number(item)
		       ? of_seconds(json_number_value(item), what, out_us, err)
		       : of_words(json_string_value(item), what, out_us, err);
}

wherry_code wh_ext_element_time(const ext_columns *c, int column, size_t i,
				const char *what, int64_t *out_us, wherry_error *err)
{
	const json_t *item = element(c, column, i);

	*out_us = 0;
	if (!item)
		return WHERRY_OK;
	return json_is_number(item) ? of_unix(json_number_value(item), what, out_us, err)
				    : of_date(json_string_value(item), what, out_us, err);
}

/* ---- results ---- */

wherry_code wh_ext_give_array(const ext_call *call, size_t n, ext_put put,
			      const void *items, wherry_error *err)
{
	wh_buf json = WH_BUF_INIT(MOST_JSON);
	wherry_code code;

	wh_buf_putc(&json, '[');
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			wh_buf_putc(&json, ',');
		put(&json, items, i);
	}
	wh_buf_putc(&json, ']');
	code = wh_buf_check(&json, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, wh_buf_str(&json), -1,
				    SQLITE_TRANSIENT);
	wh_buf_clear(&json);
	return code;
}

/* ---- errors ---- */

int wh_ext_code(const wherry_error *err)
{
	if (err->code == WHERRY_NOMEM)
		return SQLITE_NOMEM;
	return err->native ? err->native : SQLITE_ERROR;
}

void wh_ext_fail(sqlite3_context *context, const wherry_error *err)
{
	sqlite3_result_error(context, err->message, -1);
	sqlite3_result_error_code(context, wh_ext_code(err));
}
