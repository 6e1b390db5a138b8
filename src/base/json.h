/*
 * JSON, through jansson.
 */
#ifndef WH_BASE_JSON_H
#define WH_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

/* Parse one value; out is given, json_decref() it.  The error names line and column. */
wherry_code wh_json_parse(const char *text, size_t len, json_t **out, wherry_error *err);

/* The bytes are one JSON value. */
bool wh_json_valid(const char *text, size_t len);

/* The text is a JSON object whose values are strings or null: what headers must be. */
wherry_code wh_json_headers(const char *text, size_t len, wherry_error *err);

/* The value a JSON pointer (RFC 6901) names; NULL if there is none.  Borrowed. */
json_t *wh_json_pointer(json_t *root, const char *pointer);

/* The text is a JSON pointer: empty, or parts that each begin with /, ~ only in ~0 ~1. */
bool wh_json_pointer_valid(const char *pointer);

#endif
