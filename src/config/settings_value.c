#include "config/settings_value.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/text.h"

const char *const wh_kind_names[WH_KINDS] = {
	[DURATION] = "duration", [SIZE] = "size", [NUMBER] = "number",
	[CHOICE] = "choice",     [TEXT] = "text", [SWITCH] = "switch",
};

/* The index of a word in "a, b, c"; -1: not found. */
static int choice_place(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (int place = 0;; place++) {
		size_t n = strcspn(words, ",");

		if (n == len && memcmp(words, word, n) == 0)
			return place;
		if (!words[n])
			return -1;
		words += n + 2;
	}
}

static wherry_code parse_number(const wh_setting_entry *e, const char *text, int64_t *out,
				wherry_error *err)
{
	if (wh_parse_int(text, out))
		return WHERRY_OK;
	if (e->least && e->most)
		return wh_fail(err, WHERRY_INVALID,
			       "'%.40s' is not a whole number: write one from %s to %s, "
			       "such as %s",
			       text, e->least, e->most, e->standard);
	return wh_fail(err, WHERRY_INVALID,
		       "'%.40s' is not a whole number: write one such as %s", text,
		       e->standard);
}

static wherry_code parse_bounded(const wh_setting_entry *e, const char *text,
				 int64_t *out, wherry_error *err)
{
	if (e->kind == DURATION)
		return wh_duration_parse(text, out, err);
	if (e->kind == SIZE)
		return wh_size_parse(text, out, err);
	return parse_number(e, text, out, err);
}

wherry_code wh_setting_parse(const wh_setting_entry *e, const char *text, int64_t *out,
			     wherry_error *err)
{
	int64_t number = 0, bound;
	wherry_code code;

	switch (e->kind) {
	case TEXT:
		break;
	case SWITCH:
		if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
			return wh_fail(err, WHERRY_INVALID,
				       "'%.40s' is neither on nor off", text);
		number = text[1] == 'n';
		break;
	case CHOICE:
		number = choice_place(e->least, text);
		if (number < 0)
			return wh_fail(err, WHERRY_INVALID, "'%.40s' is none of: %s",
				       text, e->least);
		break;
	case DURATION:
	case SIZE:
	case NUMBER:
		code = parse_bounded(e, text, &number, err);
		if (code != WHERRY_OK)
			return code;
		if (e->least && parse_bounded(e, e->least, &bound, err) == WHERRY_OK &&
		    number < bound)
			return wh_fail(err, WHERRY_INVALID,
				       "%.40s is below the least, %s", text, e->least);
		if (e->most && parse_bounded(e, e->most, &bound, err) == WHERRY_OK &&
		    number > bound)
			return wh_fail(err, WHERRY_INVALID, "%.40s is above the most, %s",
				       text, e->most);
		break;
	case WH_KINDS:
		break;
	}
	*out = number;
	return WHERRY_OK;
}

/* Convert a row of the application to an entry.  A range "1s to 1h" is split into
 * `bounds`, which the entry borrows. */
static wherry_code entry_of(const wherry_setting *row, wh_setting_entry *out,
			    char bounds[2][24], wherry_error *err)
{
	const char *range = row->range ? row->range : "", *to = strstr(range, " to ");
	size_t i = 0;

	while (i < WH_KINDS && strcmp(wh_kind_names[i], row->type ? row->type : "") != 0)
		i++;
	if (i == WH_KINDS || !row->standard)
		return wh_fail(
			err, WHERRY_INVALID,
			"%.60s: it needs a default, and one of the types duration, "
			"size, number, choice, text and switch",
			row->key);
	*out = (wh_setting_entry){row->key, (wh_kind)i, row->standard,
				  NULL,     NULL,       row->help};
	if (out->kind == CHOICE) {
		out->least = range;
	} else if (to) {
		(void)snprintf(bounds[0], 24, "%.*s", (int)(to - range), range);
		(void)snprintf(bounds[1], 24, "%s", to + strlen(" to "));
		out->least = bounds[0];
		out->most = bounds[1];
	}
	return WHERRY_OK;
}

wherry_code wh_setting_parse_row(const wherry_setting *row, const char *text,
				 int64_t *out, wherry_error *err)
{
	char bounds[2][24];
	wh_setting_entry e;
	wherry_code code = entry_of(row, &e, bounds, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_setting_parse(&e, text, out, err);
	return code == WHERRY_OK ? code : wh_prefix(err, code, "%s", row->key);
}
