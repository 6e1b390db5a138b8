#include "postgres/odbc.h"

#include <stdio.h>

/* psqlODBC frees not all of what it allocates for each connection.  The leak sanitizer asks for
 * this function by its name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(
	void); /* NOLINT(*-reserved-identifier) */

const char *__lsan_default_suppressions(void) /* NOLINT(*-reserved-identifier) */
{
	return "leak:psqlodbca.so";
}

void postgres_odbc_url(const postgres_place *place, char *url, size_t cap)
{
	(void)snprintf(
		url, cap,
		"odbc:Driver=PostgreSQL ANSI;Server=%s;Uid=wherry;Database=postgres;"
		"UseServerSidePrepare=1;ByteaAsLongVarBinary=1;BoolsAsChar=0;"
		"ConnSettings=SET search_path = %s,public",
		postgres_folder(), place->name);
}
