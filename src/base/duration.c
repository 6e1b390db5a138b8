#include "base/duration.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

typedef struct unit {
	const char *name;
	int64_t factor;
} unit;

static const unit times[] = {
	{"us", 1},         {"ms", 1000},       {"s", 1000000},      {"m", 60000000},
	{"h", 3600000000}, {"d", 86400000000}, {"w", 604800000000}, {NULL, 0},
};

static const unit sizes[] = {
	{"B", 1},      {"KB", 1024},     {"MB", 1048576},     {"GB", 1073741824},
	{"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {NULL, 0},
};

/* Read digits at *text and append them to *value; false: too large. */
static bool take_digits(const char **text, int64_t *value)
{
	for (; wh_is_digit(**text); (*text)++) {
		int digit = **text - '0';

		if (*value > (INT64_MAX - digit) / 10)
			return false;
		*value = *value * 10 + digit;
	}
	return true;
}

/* Read one number with its unit and move *text behind it.  False: malformed; or too
 * large, then *out_large is true. */
static bool parse_part(const char **text, const unit *units, int64_t *out,
		       bool *out_large)
{
	const char *s = *text, *point;
	int64_t whole = 0, part = 0, scale = 1;
	size_t len = 0;

	*out_large = wh_is_digit(*s) && !take_digits(&s, &whole);
	if (!wh_is_digit(**text) || *out_large)
		return false;
	if (*s == '.') {
		point = s++;
		if (!wh_is_digit(*s) || !take_digits(&s, &part) || s - point > 7)
			return false;
		for (; s - point > 1; point++)
			scale *= 10;
	}
	while (wh_is_letter(s[len]))
		len++;
	for (; units->name; units++) {
		if (strlen(units->name) != len || memcmp(units->name, s, len) != 0)
			continue;
		part = part * units->factor / scale; /* Less than one unit. */
		*out_large = whole > (INT64_MAX - part) / units->factor;
		if (*out_large)
			return false;
		*out = whole * units->factor + part;
		*text = s + len;
		return true;
	}
	return false;
}

wherry_code wh_duration_parse(const char *text, int64_t *out_us, wherry_error *err)
{
	const char *s = text;
	int64_t sum = 0, part = 0;
	bool large;

	if (strcmp(text, "0") == 0) {
		*out_us = 0;
		return WHERRY_OK;
	}
	do {
		bool fine = parse_part(&s, times, &part, &large);

		if (large || (fine && part > INT64_MAX - sum))
			return wh_fail(
				err, WHERRY_INVALID,
				"'%.40s' is out of range: write 100000000d or less",
				text);
		if (!fine)
			return wh_fail(
				err, WHERRY_INVALID,
				"'%.40s' is not a duration: write a number and a unit, such as "
				"250ms, 30s, 15m, 12h or 7d",
				text);
		sum += part;
	} while (*s);
	*out_us = sum;
	return WHERRY_OK;
}

wherry_code wh_size_parse(const char *text, int64_t *out_bytes, wherry_error *err)
{
	const char *s = text;
	int64_t value = 0;
	bool large;

	if (strcmp(text, "0") != 0 && (!parse_part(&s, sizes, &value, &large) || *s))
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.40s' is not a size: write a number and a unit, such as 512B, 64KB "
			"or 8MB",
			text);
	*out_bytes = value;
	return WHERRY_OK;
}

/* Print three digits with a decimal point, whatever the program's locale is. */
static void print_decimal(int64_t us, int64_t one, const char *name, char *out,
			  size_t cap)
{
	int64_t step = us < 10 * one ? one / 100 : us < 100 * one ? one / 10 : one;
	int hundredths;

	us = (us + step / 2) / step * step;
	hundredths = (int)(us % one * 100 / one);
	if (!hundredths)
		(void)snprintf(out, cap, "%d%s", (int)(us / one), name);
	else if (hundredths % 10)
		(void)snprintf(out, cap, "%d.%02d%s", (int)(us / one), hundredths, name);
	else
		(void)snprintf(out, cap, "%d.%d%s", (int)(us / one), hundredths / 10,
			       name);
}

void wh_duration_print(int64_t us, char *out, int cap)
{
	size_t n = (size_t)cap;
	int64_t s = us / 1000000;

	/* At these bounds, three digits of the smaller unit would be rounded up to the
	 * larger unit. */
	if (us == 0)
		(void)snprintf(out, n, "0s");
	else if (us < 1000)
		(void)snprintf(out, n, "%dus", (int)us);
	else if (us < 999500)
		print_decimal(us, 1000, "ms", out, n);
	else if (us < 59950000)
		print_decimal(us, 1000000, "s", out, n);
	else if (s < 60)
		(void)snprintf(out, n, "1m 0s");
	else if (s < 3600)
		(void)snprintf(out, n, "%dm %ds", (int)(s / 60), (int)(s % 60));
	else if (s < 86400)
		(void)snprintf(out, n, "%dh %dm", (int)(s / 3600), (int)(s / 60 % 60));
	else
		(void)snprintf(out, n, "%lldd %dh", (long long)(s / 86400),
			       (int)(s / 3600 % 24));
}
