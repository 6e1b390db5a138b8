/*
 * Loading the extension.
 */
#include "extension/extension.h"

#include <stdlib.h>

const sqlite3_api_routines *sqlite3_api;

/* SQLite finds this function by the name of the file, wherry.so. */
__attribute__((visibility("default"))) int sqlite3_wherry_init(
	sqlite3 *handle, char **out_error, const sqlite3_api_routines *api);

int sqlite3_wherry_init(sqlite3 *handle, char **out_error,
			const sqlite3_api_routines *api)
{
	ext_state *ext;
	int rc;

	sqlite3_api = api;
	if (sqlite3_libversion_number() < 3037000) {
		*out_error = sqlite3_mprintf(
			"this is SQLite %s, and Wherry needs 3.37 or newer",
			sqlite3_libversion());
		return SQLITE_ERROR;
	}
	ext = calloc(1, sizeof(*ext));
	if (!ext)
		return SQLITE_NOMEM;
	ext->handle = handle;
	ext->n_users = 1; /* Until all is registered. */
	rc = wh_ext_add_functions(ext);
	if (rc == SQLITE_OK)
		rc = wh_ext_add_tables(ext);
	wh_ext_unuse(ext);
	return rc;
}
