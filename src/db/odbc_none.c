/*
 * Stands in for the ODBC driver in a build without it.
 */
#include <wherry/odbc.h>

#include "base/error.h"

wherry_code wherry_odbc_borrow(void *dbc, wherry_db **out, wherry_error *err)
{
	wh_error_clear(err);
	(void)dbc;
	(void)out;
	return wh_fail(err, WHERRY_UNSUPPORTED,
		       "this libwherry was built without ODBC: build it with "
		       "-DWHERRY_ODBC=ON");
}
