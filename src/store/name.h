/*
 * Names of tables, as users write them.
 */
#ifndef WH_STORE_NAME_H
#define WH_STORE_NAME_H

#include <stdbool.h>

#include "base/error.h"

enum { WH_NAME_MOST = 63 }; /* Bytes to which PostgreSQL cuts a name. */

typedef struct wh_name {
	char schema[WH_NAME_MOST + 1]; /* "": the name has no schema. */
	char table[WH_NAME_MOST + 1];
} wh_name;

/*
 * Parse a table's name: TABLE, or with `schemas` SCHEMA.TABLE.  Parts with a dot are in
 * double quotes.
 *
 * @param schemas  The database has schemas and quoted names.  Without it, a name is an
 *                 identifier.
 * @return WHERRY_OK; WHERRY_INVALID: not a name, or too long.
 */
wherry_code wh_name_parse(const char *text, bool schemas, wh_name *out,
			  wherry_error *err);

#endif
