/*
 * SQLite's functions as the program has them that loads the extension.
 *
 * The extension's files, and copies of those of the SQLite driver, are compiled with `-include` of
 * this file.  sqlite3ext.h turns each sqlite3_call() into a call through the table.
 */
#ifndef WH_EXTENSION_API_H
#define WH_EXTENSION_API_H

#include <sqlite3ext.h>

extern const sqlite3_api_routines *sqlite3_api; /* Defined in extension.c. */

#endif
