/*
 * Fields of messages that are about to be written: which values are possible.
 */
#ifndef WH_STORE_FIELDS_H
#define WH_STORE_FIELDS_H

#include "store/store.h"

/* Bytes of a field, of a key and of headers; and of a body unless a setting says otherwise. */
enum {
	WH_FIELD_MOST = 255,
	WH_KEY_MOST = 1024,
	WH_HEADERS_MOST = 256 * 1024,
	WH_BODY_MAX = 16 * 1024 * 1024
};

/* One text field of a message. */
typedef struct wh_field {
	const char *name, *text; /* text NULL: absent */
	size_t most;             /* bytes */
} wh_field;

/* Refuse a text that is too long (TOOBIG) or not UTF-8 (INVALID). */
wherry_code wh_fields_check(const wh_field *fields, size_t n, wherry_error *err);

/* Is it UTF-8 without a NUL? */
bool wh_is_text(wh_view body);

/*
 * Can the table keep this body?
 *
 * @param type  What its bodies are kept as: json, jsonb, text, bytea; "": there is no choice.
 */
wherry_code wh_store_check_body(const wh_store *store, const char *type, wh_view body,
				wherry_error *err);

/* A body as a parameter: text stays text, so that SQL reads it; anything else is a blob. */
wh_param wh_body_param(const char *name, wh_view body);

#endif
