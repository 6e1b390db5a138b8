/*
 * The definition of a setting, and parsing of its value.  Only the files of settings
 * include it.
 */
#ifndef WH_CONFIG_SETTINGS_VALUE_H
#define WH_CONFIG_SETTINGS_VALUE_H

#include "config/settings.h"

typedef enum wh_kind { DURATION, SIZE, NUMBER, CHOICE, TEXT, SWITCH, WH_KINDS } wh_kind;

extern const char *const wh_kind_names[WH_KINDS];

typedef struct wh_setting_entry {
	const char *key;
	wh_kind kind;
	const char *standard;
	const char *least; /* Lower bound as text; NULL: none.  CHOICE: all words. */
	const char *most;  /* Upper bound as text; NULL: none. */
	const char *help;
} wh_setting_entry;

/* Parse the value of a setting and check its bounds.  The result is in microseconds or
 * bytes, a number, the index of the word, or 1 for "on".  INVALID: the error says what is
 * wrong. */
wherry_code wh_setting_parse(const wh_setting_entry *e, const char *text, int64_t *out,
			     wherry_error *err);

/* Like wh_setting_parse(), for a setting of the application.  INVALID also if the row is
 * malformed. */
wherry_code wh_setting_parse_row(const wherry_setting *row, const char *text,
				 int64_t *out, wherry_error *err);

#endif
