/*
 * What a setting is, and its value as text: for the files of settings alone.
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
	const char *least; /* as written; NULL: no bound.  CHOICE: the words */
	const char *most;  /* as written; NULL: no bound */
	const char *help;
} wh_setting_entry;

/* The value of a text, within the bounds of its setting: microseconds, bytes, a number, the place
 * of the word, or 1 for "on".  INVALID says what is wrong with it. */
wherry_code wh_setting_parse(const wh_setting_entry *e, const char *text, int64_t *out,
			     wherry_error *err);

/* The same for a setting of the application's; INVALID also for a row that is wrong itself. */
wherry_code wh_setting_parse_row(const wherry_setting *row, const char *text,
				 int64_t *out, wherry_error *err);

#endif
