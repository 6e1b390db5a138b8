/*
 * Checking JSON.  wh_json_valid() and wh_json_headers() allocate no memory; neither does
 * wh_json_check() for valid JSON.  For other text it asks jansson where the error is.
 */
#ifndef WH_BASE_JSON_H
#define WH_BASE_JSON_H

#include <stdbool.h>

#include "base/buf.h"

/* Are the bytes one JSON value?  Integers may have any size, since nothing computes with
 * them. */
bool wh_json_valid(const char *text, size_t len);

/* Like wh_json_valid().  *out_column receives the place of the error: the character in
 * its line, from 1. */
wherry_code wh_json_check(const char *text, size_t len, int *out_column,
			  wherry_error *err);

/* Return INVALID unless the text is a JSON object whose values are strings or null, as
 * headers must be. */
wherry_code wh_json_headers(const char *text, size_t len, wherry_error *err);

/* Is the text a JSON pointer (RFC 6901)?  It is empty or has parts that each begin with
 * /.  In it ~ occurs only as ~0 and ~1. */
bool wh_json_pointer_valid(const char *pointer);

#endif
