/*
 * Settings by name: one function sets them all, one table describes them.
 */
#ifndef WHERRY_CONFIG_H
#define WHERRY_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/error.h>

/* A set of settings.  Not for several threads at once; may be shared once it no longer
 * changes. */
typedef struct wherry_config wherry_config;

/* One row of the table of settings.  All strings are static. */
typedef struct wherry_setting {
	const char *key;  /* "relay.lease" */
	const char *type; /* "duration", "size", "number", "choice", "text", "switch" */
	const char *standard; /* the default, as one would write it */
	const char *range;    /* "1s to 1h", "mark, delete or archive"; "" if any */
	const char *help;     /* one or two sentences */
} wherry_setting;

WHERRY_BEGIN

/**
 * Make a set of settings, all at their defaults.
 *
 * @param out  Receives it; given, free with wherry_config_free().
 * @param err  Details on failure; may be NULL.
 * @return WHERRY_OK or WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_config_new(wherry_config **out,
							 wherry_error *err);

/** Free a set of settings; NULL is fine. */
WHERRY_API void wherry_config_free(wherry_config *config);

/**
 * Set one setting from text.
 *
 * Durations and sizes need a unit: "500ms", "30s", "7d"; "64KB", "8MB".
 *
 * @param config  The set to change.
 * @param key     Which one, such as "relay.lease".
 * @param value   The value as text; copied.
 * @param err     Details on failure, naming the nearest known key; may be NULL.
 * @return WHERRY_OK; WHERRY_INVALID (unknown key, malformed or out of bounds: nothing
 *         changed); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_config_set(wherry_config *config,
							 const char *key,
							 const char *value,
							 wherry_error *err);

/** Return a setting's value as text, NULL for an unknown key.  Borrowed until it is set. */
WHERRY_API const char *wherry_config_get(const wherry_config *config, const char *key);

/**
 * Return a setting's value as a number: microseconds of a duration, bytes of a size, 0 or 1 of a
 * switch, of a choice its place among the words, counted from 0; 0 for text and for an unknown
 * key.  config may be NULL: the default.
 */
WHERRY_API int64_t wherry_config_number(const wherry_config *config, const char *key);

/** Return the table of settings, ended by a row whose key is NULL.  Static. */
WHERRY_API const wherry_setting *wherry_config_table(void);

WHERRY_END

#endif
