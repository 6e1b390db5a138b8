/*
 * Settings by name: wherry_config_set() sets each of them, wherry_config_table() describes them.
 */
#ifndef WHERRY_CONFIG_H
#define WHERRY_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/error.h>

/* A set of settings.  Only one thread may use it while it changes; afterwards threads may share
 * it. */
typedef struct wherry_config wherry_config;

/* One row of the table of settings.  All strings are static. */
typedef struct wherry_setting {
	const char *key; /* Name, such as "relay.lease". */
	/* "duration", "size", "number", "choice", "text" or "switch". */
	const char *type;
	const char *standard; /* The default, written as wherry_config_set() takes it. */
	/* Bounds or choices, such as "1s to 1h" or "skip or park"; "": any
	 * value. */
	const char *range;
	const char *help; /* One or two sentences that explain it. */
} wherry_setting;

WHERRY_BEGIN

/**
 * Make a set of settings, all at their defaults.
 *
 * @param out  Receives the set; the caller frees it with wherry_config_free().
 * @param err  Details on failure; may be NULL.
 * @return WHERRY_OK or WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_config_new(wherry_config **out,
							 wherry_error *err);

/** Free a set of settings; NULL is allowed. */
WHERRY_API void wherry_config_free(wherry_config *config);

/**
 * Set one setting from text.
 *
 * Durations and sizes need a unit: "500ms", "30s", "7d"; "64KB", "8MB".
 *
 * @param config  The set to change.
 * @param key     Name of the setting, such as "relay.lease".
 * @param value   The value as text; copied.
 * @param err     Details on failure, naming the nearest known key; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (the key is unknown, or the value is malformed or out of
 *         bounds: nothing changed); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_config_set(wherry_config *config,
							 const char *key,
							 const char *value,
							 wherry_error *err);

/** Return a setting's value as text, NULL for an unknown key.  The text is borrowed until the
 *  setting is set again. */
WHERRY_API const char *wherry_config_get(const wherry_config *config, const char *key);

/**
 * Return a setting's value as a number: microseconds of a duration, bytes of a size, 0 or 1 of a
 * switch, the index of a choice among its words, from 0; 0 for text and for an unknown key.
 * `config` may be NULL: the default of the setting.
 */
WHERRY_API int64_t wherry_config_number(const wherry_config *config, const char *key);

/** Return the table of settings, which ends with a row whose key is NULL.  The table is static. */
WHERRY_API const wherry_setting *wherry_config_table(void);

WHERRY_END

#endif
