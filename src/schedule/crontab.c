#include "schedule/crontab.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"

enum { N_FIELDS = 5, TEXT_MAX = 256 /* bytes */ };

typedef struct field {
	const char *name;
	int least, most;
	/* Names of the values from `least` on; NULL: the field has no names. */
	const char *const *words;
} field;

static const char *const month_words[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL",
					  "AUG", "SEP", "OCT", "NOV", "DEC", NULL};
static const char *const day_words[] = {"SUN", "MON", "TUE", "WED",
					"THU", "FRI", "SAT", NULL};

/* As a day of week, 7 is Sunday, too. */
static const field fields[N_FIELDS] = {
	{"minute", 0, 59, NULL},          {"hour", 0, 23, NULL},
	{"day of month", 1, 31, NULL},    {"month", 1, 12, month_words},
	{"day of week", 0, 7, day_words},
};

static const struct macro {
	const char *word, *expression;
} macros[] = {
	{"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
	{"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
	{"@annually", "0 0 1 1 *"},
};

enum { N_MACROS = sizeof(macros) / sizeof(*macros) };

/* A field that is being read. */
typedef struct reading {
	const field *field;
	const char *at, *end;
	wherry_error *err;
} reading;

/* Compare ASCII words without regard to case, whatever the locale of the program. */
static bool same_word(const char *text, size_t len, const char *word)
{
	for (size_t i = 0; i < len; i++)
		if (!word[i] || (text[i] | 0x20) != (word[i] | 0x20))
			return false;
	return !word[len];
}

static bool take_char(reading *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

/* ---- values ---- */

static wherry_code no_value(const reading *r)
{
	const field *f = r->field;
	int len = (int)(r->end - r->at);

	if (r->at < r->end && strchr("?LW#H", *r->at))
		return wh_fail(
			r->err, WHERRY_INVALID,
			"the %s '%.*s' uses '%c', which crontab expressions do not "
			"have: write *, numbers from %d to %d, ranges, lists and steps",
			f->name, len, r->at, *r->at, f->least, f->most);
	return wh_fail(r->err, WHERRY_INVALID,
		       "the %s needs a number from %d to %d%s instead of '%.*s'", f->name,
		       f->least, f->most,
		       f->words == month_words ? " or JAN to DEC"
		       : f->words              ? " or SUN to SAT"
					       : "",
		       len, r->at);
}

static wherry_code take_word(reading *r, int *out)
{
	const char *begin = r->at;
	size_t len;

	while (r->at < r->end && wh_is_letter(*r->at))
		r->at++;
	len = (size_t)(r->at - begin);
	for (int i = 0; r->field->words && r->field->words[i]; i++)
		if (same_word(begin, len, r->field->words[i])) {
			*out = r->field->least + i;
			return WHERRY_OK;
		}
	r->at = begin;
	return no_value(r);
}

static wherry_code take_value(reading *r, int *out)
{
	const char *begin = r->at;
	int n = 0;

	if (r->at < r->end && wh_is_letter(*r->at))
		return take_word(r, out);
	while (r->at < r->end && wh_is_digit(*r->at) && n <= r->field->most)
		n = n * 10 + (*r->at++ - '0');
	if (r->at == begin || n < r->field->least || n > r->field->most) {
		r->at = begin;
		return no_value(r);
	}
	*out = n;
	return WHERRY_OK;
}

static wherry_code take_step(reading *r, int *out)
{
	const char *begin = r->at;
	int n = 0;

	while (r->at < r->end && wh_is_digit(*r->at) && n <= r->field->most)
		n = n * 10 + (*r->at++ - '0');
	if (n < 1 || n > r->field->most)
		return wh_fail(
			r->err, WHERRY_INVALID,
			"the step of the %s must be a number from 1 to %d instead of "
			"'%.*s'",
			r->field->name, r->field->most, (int)(r->end - begin), begin);
	*out = n;
	return WHERRY_OK;
}

/* ---- one element of a list: * or a value or a range, and a step ---- */

static bool is_weekday(const reading *r)
{
	return r->field->words == day_words;
}

static wherry_code take_range(reading *r, int *out_first, int *out_last)
{
	const field *f = r->field;
	const char *begin = r->at;
	wherry_code code;

	if (take_char(r, '*')) {
		*out_first = f->least;
		*out_last = is_weekday(r) ? 6 : f->most;
		return WHERRY_OK;
	}
	code = take_value(r, out_first);
	*out_last = *out_first;
	if (code != WHERRY_OK)
		return code;
	if (r->at < r->end && *r->at == '/')
		/* 5/15 is 5-59/15; 7/2 is Sunday and no other day. */
		*out_last = is_weekday(r) && *out_first < 7 ? 6 : f->most;
	if (!take_char(r, '-'))
		return WHERRY_OK;
	code = take_value(r, out_last);
	if (code != WHERRY_OK)
		return code;
	if (is_weekday(r) && *out_last == 0 && *out_first > 0)
		*out_last = 7; /* FRI-SUN: as its end, Sunday is 7. */
	if (*out_first > *out_last)
		return wh_fail(
			r->err, WHERRY_INVALID,
			"the range '%.*s' of the %s ends before it begins: write two "
			"ranges with a comma between them",
			(int)(r->at - begin), begin, f->name);
	return WHERRY_OK;
}

static wherry_code take_element(reading *r, uint64_t *bits)
{
	int first = 0, last = 0, step = 1;
	wherry_code code = take_range(r, &first, &last);

	if (code == WHERRY_OK && take_char(r, '/'))
		code = take_step(r, &step);
	if (code != WHERRY_OK)
		return code;
	if (r->at < r->end && *r->at != ',')
		return no_value(r);
	for (int i = first; i <= last; i += step)
		*bits |= UINT64_C(1) << (is_weekday(r) ? i % 7 : i);
	return WHERRY_OK;
}

static wherry_code take_field(reading *r, uint64_t *bits)
{
	wherry_code code;

	do
		code = take_element(r, bits);
	while (code == WHERRY_OK && take_char(r, ','));
	return code;
}

/* ---- the whole expression ---- */

static const char *macro_at(const void *ctx, size_t i)
{
	(void)ctx;
	return i < N_MACROS ? macros[i].word : NULL;
}

/* Replace a word such as @daily by its expression. */
static wherry_code expand(const char **text, wherry_error *err)
{
	const char *near;

	for (size_t i = 0; i < N_MACROS; i++)
		if (same_word(*text, strlen(*text), macros[i].word)) {
			*text = macros[i].expression;
			return WHERRY_OK;
		}
	if (same_word(*text, strlen(*text), "@reboot"))
		return wh_fail(
			err, WHERRY_INVALID,
			"@reboot names no time: write an expression such as @daily");
	near = wh_nearest(*text, macro_at, NULL);
	return wh_fail(err, WHERRY_INVALID, "there is no '%.40s'%s%s%s", *text,
		       near ? "; did you mean "
			    : ": write @hourly, @daily, @weekly, "
			      "@monthly, @yearly or @every 15m",
		       near ? near : "", near ? "?" : "");
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Split text at blanks.  Returns the number of words; only the first N_FIELDS are in
 * out. */
static int split(const char *text, reading out[N_FIELDS])
{
	int n = 0;

	for (const char *s = text;; n++) {
		while (is_blank(*s))
			s++;
		if (!*s)
			return n;
		if (n < N_FIELDS)
			out[n].at = s;
		while (*s && !is_blank(*s))
			s++;
		if (n < N_FIELDS)
			out[n].end = s;
	}
}

static bool is_possible(const wh_crontab *tab)
{
	for (int month = 1; month <= 12; month++) {
		int most = month == 2                                              ? 29
			   : month == 4 || month == 6 || month == 9 || month == 11 ? 30
										   : 31;

		for (int day = 1; day <= most; day++)
			for (int weekday = 0; weekday < 7; weekday++)
				if (wh_crontab_has_day(tab, month, day, weekday))
					return true;
	}
	return false;
}

wherry_code wh_crontab_parse(const char *text, wh_crontab *out, wherry_error *err)
{
	reading r[N_FIELDS] = {{0}};
	uint64_t bits[N_FIELDS] = {0};
	wh_crontab tab = {0};
	wherry_code code;
	int n;

	if (strlen(text) > TEXT_MAX)
		return wh_fail(err, WHERRY_INVALID,
			       "a crontab expression has at most %d bytes", TEXT_MAX);
	if (*text == '@') {
		code = expand(&text, err);
		if (code != WHERRY_OK)
			return code;
	}
	n = split(text, r);
	if (n != N_FIELDS)
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.80s' has %d field%s instead of five: write minute, hour, "
			"day of month, month and day of week, such as '30 4 * * MON-FRI'%s",
			text, n, n == 1 ? "" : "s",
			n == 6 ? "; there are no seconds" : "");
	tab.both_days = *r[2].at == '*' || *r[4].at == '*';
	for (int i = 0; i < N_FIELDS; i++) {
		r[i].field = &fields[i];
		r[i].err = err;
		code = take_field(&r[i], &bits[i]);
		if (code != WHERRY_OK)
			return code;
	}
	tab = (wh_crontab){bits[0], bits[1], bits[2], bits[3], bits[4], tab.both_days};
	if (!is_possible(&tab))
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.80s' names no day of any year: its months are too short",
			text);
	*out = tab;
	return WHERRY_OK;
}

bool wh_crontab_has_day(const wh_crontab *tab, int month, int day, int weekday)
{
	bool of_month = tab->days >> day & 1, of_week = tab->weekdays >> weekday & 1;

	return (tab->months >> month & 1) &&
	       (tab->both_days ? of_month && of_week : of_month || of_week);
}
