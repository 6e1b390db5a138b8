#include "base/date.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t wh_floor_div(int64_t n, int64_t by)
{
	return n / by - (n % by < 0);
}

int64_t wh_floor_mod(int64_t n, int64_t by)
{
	int64_t rest = n % by;

	return rest < 0 ? rest + by : rest;
}

/*
 * Years begin in March here, so that the leap day is the last day of a year.  They are
 * counted in eras of 400 years, after which the calendar repeats.  Howard Hinnant
 * describes the two functions in "chrono-Compatible Low-Level Date Algorithms".
 */
/* Days in an era; days from 0000-03-01 to 1970-01-01. */
enum { ERA_DAYS = 146097, TO_1970 = 719468 };

int64_t wh_date_days(wh_date date)
{
	int64_t year = (int64_t)date.year - (date.month <= 2);
	int64_t era = wh_floor_div(year, 400);
	int64_t of_era = year - era * 400;
	int64_t of_year = (153 * ((date.month + 9) % 12) + 2) / 5 + date.day - 1;

	return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
	       TO_1970;
}

wh_date wh_date_of(int64_t days)
{
	int64_t era = wh_floor_div(days + TO_1970, ERA_DAYS);
	int64_t day = days + TO_1970 - era * ERA_DAYS;
	int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	int64_t of_year = day - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153; /* 0 to 11, from March. */
	wh_date date = {.day = (int)(of_year - (153 * month + 2) / 5 + 1),
			.month = (int)(month < 10 ? month + 3 : month - 9)};

	date.year = (int)(year + era * 400 + (date.month <= 2));
	return date;
}

int wh_date_weekday(int64_t days)
{
	return (int)wh_floor_mod(days + 4, 7); /* 1970-01-01 was a Thursday. */
}

int wh_date_month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

/* ---- reading ---- */

/* Read exactly n digits and move *text behind them. */
static bool take_digits(const char **text, int n, int *out)
{
	int value = 0;

	for (int i = 0; i < n; i++) {
		char c = (*text)[i];

		if (c < '0' || c > '9')
			return false;
		value = value * 10 + (c - '0');
	}
	*out = value;
	*text += n;
	return true;
}

static bool take_char(const char **text, char c)
{
	if (**text != c)
		return false;
	(*text)++;
	return true;
}

static bool take_date(const char **text, int64_t *out_days)
{
	wh_date date;

	if (!take_digits(text, 4, &date.year) || !take_char(text, '-') ||
	    !take_digits(text, 2, &date.month) || !take_char(text, '-') ||
	    !take_digits(text, 2, &date.day))
		return false;
	if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
	    date.day > wh_date_month_days(date.year, date.month))
		return false;
	*out_days = wh_date_days(date);
	return true;
}

/* Read HH:MM, a time of day or an offset. */
static bool take_hours(const char **text, int *out_s)
{
	int hour, minute;

	if (!take_digits(text, 2, &hour) || !take_char(text, ':') ||
	    !take_digits(text, 2, &minute) || hour > 23 || minute > 59)
		return false;
	*out_s = hour * 3600 + minute * 60;
	return true;
}

static bool take_clock(const char **text, int64_t *out_us)
{
	int of_day, second = 0, digit;
	int64_t part = 0, unit = 1000000;

	if (!take_hours(text, &of_day))
		return false;
	if (take_char(text, ':')) {
		if (!take_digits(text, 2, &second) || second > 59)
			return false;
		if (take_char(text, '.')) {
			if (!take_digits(text, 1, &digit))
				return false;
			do
				part += digit * (unit /= 10);
			while (take_digits(text, 1, &digit));
		}
	}
	*out_us = (int64_t)(of_day + second) * 1000000 + part;
	return true;
}

static bool take_offset(const char **text, int *out_s)
{
	bool west = **text == '-';

	*out_s = 0;
	if (take_char(text, 'Z'))
		return true;
	if (!west && **text != '+')
		return false;
	(*text)++;
	if (!take_hours(text, out_s))
		return false;
	*out_s = west ? -*out_s : *out_s;
	return true;
}

wherry_code wh_time_parse(const char *text, int64_t *out_us, wherry_error *err)
{
	const char *s = text;
	int64_t days, of_day, us;
	size_t year_len = strspn(text, "0123456789");
	int offset;

	if (year_len > 4 && text[year_len] == '-')
		return wh_fail(err, WHERRY_INVALID,
			       "'%.40s' is not in the years 1 to 9999 of UTC", text);
	if (!take_date(&s, &days) || !(take_char(&s, 'T') || take_char(&s, ' ')) ||
	    !take_clock(&s, &of_day) || !take_offset(&s, &offset) || *s)
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.40s' is not a time: write it as 2026-03-29T02:30:00Z or "
			"2026-03-29T04:30:00+02:00",
			text);
	us = (days * WH_DAY - offset) * 1000000 + of_day;
	if (us < WH_TIME_FIRST * 1000000 || us > WH_TIME_LAST * 1000000 + 999999)
		return wh_fail(err, WHERRY_INVALID,
			       "'%.40s' is not in the years 1 to 9999 of UTC", text);
	*out_us = us;
	return WHERRY_OK;
}

/* ---- printing ---- */

void wh_local_time_print(int64_t us, int32_t offset_s, char out[WH_LOCAL_TIME_LEN])
{
	int64_t second = wh_floor_div(us, 1000000) + offset_s;
	int64_t days = wh_floor_div(second, WH_DAY);
	int of_day = (int)(second - days * WH_DAY);
	int ms = (int)(wh_floor_mod(us, 1000000) / 1000);
	int offset = abs((int)offset_s);
	wh_date date = wh_date_of(days);
	char part[8] = "", zone[16] = "Z";

	if (ms)
		(void)snprintf(part, sizeof(part), ".%03d", ms % 1000);
	if (offset % 60)
		(void)snprintf(zone, sizeof(zone), "%c%02d:%02d:%02d",
			       offset_s < 0 ? '-' : '+', offset / 3600 % 100,
			       offset / 60 % 60, offset % 60);
	else if (offset)
		(void)snprintf(zone, sizeof(zone), "%c%02d:%02d",
			       offset_s < 0 ? '-' : '+', offset / 3600 % 100,
			       offset / 60 % 60);
	(void)snprintf(out, WH_LOCAL_TIME_LEN, "%04d-%02d-%02dT%02d:%02d:%02d%s%s",
		       date.year, date.month, date.day, of_day / 3600, of_day / 60 % 60,
		       of_day % 60, part, zone);
}
