/*
 * JSON: checked without memory; where it is malformed, jansson says.
 */
#ifndef WH_BASE_JSON_H
#define WH_BASE_JSON_H

#include <stdbool.h>

#include "base/buf.h"

/* The bytes are one JSON value.  Integers of any size are fine: nothing computes with
 * them. */
bool wh_json_valid(const char *text, size_t len);

/* The same; *out_column receives where they are not, in characters of the line from 1. */
wherry_code wh_json_check(const char *text, size_t len, int *out_column,
			  wherry_error *err);

/* The text is a JSON object whose values are strings or null: what headers must be. */
wherry_code wh_json_headers(const char *text, size_t len, wherry_error *err);

/* The text is a JSON pointer (RFC 6901): empty, or parts that each begin with /, ~ only in ~0 ~1. */
bool wh_json_pointer_valid(const char *pointer);

#endif
