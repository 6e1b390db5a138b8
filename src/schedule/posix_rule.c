#include "schedule/posix_rule.h"

#include "base/date.h"
#include "base/text.h"
#include "schedule/zone.h"

enum { HOUR = 3600, MOST_HOURS = 167, NAME_LEAST = 3 };

typedef struct text {
	const char *at, *end;
} text;

static bool take_char(text *t, char c)
{
	if (t->at == t->end || *t->at != c)
		return false;
	t->at++;
	return true;
}

static bool take_number(text *t, int least, int most, int *out)
{
	const char *begin = t->at;
	int n = 0;

	while (t->at < t->end && *t->at >= '0' && *t->at <= '9' && n <= most)
		n = n * 10 + (*t->at++ - '0');
	if (t->at == begin || n < least || n > most)
		return false;
	*out = n;
	return true;
}

/* Skip the name of an offset, such as CEST or <+0330>. */
static bool skip_name(text *t)
{
	bool quoted = take_char(t, '<');
	const char *begin = t->at;
	size_t len;

	while (t->at < t->end &&
	       (wh_is_letter(*t->at) || (quoted && (*t->at == '+' || *t->at == '-' ||
						    (*t->at >= '0' && *t->at <= '9')))))
		t->at++;
	len = (size_t)(t->at - begin);
	return len >= NAME_LEAST && (!quoted || take_char(t, '>'));
}

/* Parse [+-]hh[:mm[:ss]]. */
static bool take_time(text *t, int32_t *out_s)
{
	bool negative = take_char(t, '-');
	int hour, minute = 0, second = 0;

	if (!negative)
		(void)take_char(t, '+');
	if (!take_number(t, 0, MOST_HOURS, &hour))
		return false;
	if (take_char(t, ':')) {
		if (!take_number(t, 0, 59, &minute))
			return false;
		if (take_char(t, ':') && !take_number(t, 0, 59, &second))
			return false;
	}
	*out_s = hour * HOUR + minute * 60 + second;
	*out_s = negative ? -*out_s : *out_s;
	return true;
}

/* Parse an offset.  In TZ offsets west of Greenwich are positive: change the sign. */
static bool take_offset(text *t, int32_t *out_s)
{
	int32_t west;

	if (!take_time(t, &west) || -west < WH_OFFSET_LEAST || -west > WH_OFFSET_MOST)
		return false;
	*out_s = -west;
	return true;
}

static bool take_day(text *t, wh_rule_day *day)
{
	*day = (wh_rule_day){.kind = WH_RULE_YEAR_DAY, .at_s = 2 * HOUR};
	if (take_char(t, 'M')) {
		day->kind = WH_RULE_WEEKDAY;
		if (!take_number(t, 1, 12, &day->month) || !take_char(t, '.') ||
		    !take_number(t, 1, 5, &day->week) || !take_char(t, '.') ||
		    !take_number(t, 0, 6, &day->day))
			return false;
	} else if (take_char(t, 'J')) {
		day->kind = WH_RULE_NO_LEAP;
		if (!take_number(t, 1, 365, &day->day))
			return false;
	} else if (!take_number(t, 0, 365, &day->day)) {
		return false;
	}
	return !take_char(t, '/') || take_time(t, &day->at_s);
}

bool wh_posix_rule_parse(const char *from, size_t len, wh_posix_rule *out)
{
	text t = {from, from + len};
	wh_posix_rule rule = {.saves = false};

	if (!skip_name(&t) || !take_offset(&t, &rule.standard_s))
		return false;
	if (t.at < t.end) {
		rule.saves = true;
		if (!skip_name(&t))
			return false;
		rule.saving_s = rule.standard_s + HOUR;
		if (t.at < t.end && *t.at != ',' && !take_offset(&t, &rule.saving_s))
			return false;
		if (rule.saving_s > WH_OFFSET_MOST || !take_char(&t, ',') ||
		    !take_day(&t, &rule.begins) || !take_char(&t, ',') ||
		    !take_day(&t, &rule.ends))
			return false;
	}
	if (t.at != t.end)
		return false;
	*out = rule;
	return true;
}

/* The day of a year that a rule names, in days since 1970-01-01. */
static int64_t day_of(const wh_rule_day *rule, int year)
{
	int64_t first = wh_date_days((wh_date){year, 1, 1});
	int64_t day;

	if (rule->kind == WH_RULE_YEAR_DAY)
		return first + rule->day;
	if (rule->kind == WH_RULE_NO_LEAP)
		return first + rule->day - 1 +
		       (rule->day >= 60 && wh_date_month_days(year, 2) == 29);
	day = wh_date_days((wh_date){year, rule->month, 1});
	first = day + (rule->day - wh_date_weekday(day) + 7) % 7;
	first += 7 * (rule->week - 1);
	if (first >= day + wh_date_month_days(year, rule->month))
		first -= 7; /* The month has only four of these weekdays. */
	return first;
}

int64_t wh_posix_rule_begin(const wh_posix_rule *rule, int year)
{
	return day_of(&rule->begins, year) * WH_DAY + rule->begins.at_s -
	       rule->standard_s;
}

int64_t wh_posix_rule_end(const wh_posix_rule *rule, int year)
{
	return day_of(&rule->ends, year) * WH_DAY + rule->ends.at_s - rule->saving_s;
}
