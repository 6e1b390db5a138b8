/*
 * Limits of the fields of a message that is about to be written.
 */
#ifndef WH_STORE_FIELDS_H
#define WH_STORE_FIELDS_H

#include "store/store.h"

/* Limits in bytes: a field, a key, headers, and a body unless a setting overrides it. */
enum {
	WH_FIELD_MOST = 255,
	WH_KEY_MOST = 1024,
	WH_HEADERS_MOST = 256 * 1024,
	WH_BODY_MAX = 16 * 1024 * 1024
};

/* The longest delay, expiry or lease, microseconds: 36500 days.  SQL functions have the same limit. */
#define WH_SPAN_MOST_US (INT64_C(36500) * 86400 * 1000000)

/* One text field of a message. */
typedef struct wh_field {
	const char *name, *text; /* text is NULL if the field is absent. */
	size_t most;             /* Limit in bytes. */
} wh_field;

/* Return TOOBIG if a text is too long, INVALID if it is not UTF-8. */
wherry_code wh_fields_check(const wh_field *fields, size_t n, wherry_error *err);

/* Return INVALID if a span is longer than WH_SPAN_MOST_US: statements would cut it.
 * @param what  Its name with an article, such as "the delay". */
wherry_code wh_span_check(const char *what, int64_t us, wherry_error *err);

/*
 * Return INVALID if the table cannot store this body.
 *
 * @param type  Type of the table's bodies: json, jsonb, text or bytea; "": any body fits.
 */
wherry_code wh_store_check_body(const wh_store *store, const char *type, wh_view body,
				wherry_error *err);

/* A body as a parameter: as text if it is text, so that SQL functions can read it,
 * otherwise as a blob. */
wh_param wh_body_param(const char *name, wh_view body);

#endif
