/*
 * Names of tables, as users write them.
 */
#ifndef WH_STORE_NAME_H
#define WH_STORE_NAME_H

#include <stdbool.h>

#include "base/error.h"

enum { WH_NAME_MOST = 63 }; /* bytes that PostgreSQL keeps of a name */

typedef struct wh_name {
	char schema[WH_NAME_MOST + 1]; /* "": none was written */
	char table[WH_NAME_MOST + 1];
} wh_name;

/*
 * Read "TABLE", or with schemas "SCHEMA.TABLE", whose parts may be in double quotes, as a part
 * with a dot in it must be.
 *
 * @param schemas  The database has them, and quoted names; else a name is an identifier.
 * @return WHERRY_OK; WHERRY_INVALID (no such name, or one that would be cut).
 */
wherry_code wh_name_parse(const char *text, bool schemas, wh_name *out,
			  wherry_error *err);

#endif
