/*
 * A connection that logs every call, and lets a test make calls fail.
 */
#ifndef WH_DB_TRACE_H
#define WH_DB_TRACE_H

#include "db/driver.h"

typedef struct wh_trace {
	/* Before a call: op is "begin", "run", …, what the statement's name or "".  Another
	 * code than WHERRY_OK (with err filled) is returned instead of making the call. */
	wherry_code (*before)(void *ctx, const char *op, const char *what,
			      wherry_error *err);

	/* After a call that was made; returns the code to go on with, usually `code`. */
	wherry_code (*after)(void *ctx, const char *op, const char *what,
			     wherry_code code, int64_t took_us, wherry_error *err);
	void *ctx;

	/* Before each row that a call brings. */
	void (*row)(void *ctx);
} wh_trace;

/*
 * Wrap a connection.
 *
 * @param inner  Taken: closed with the wrapper; on failure still the caller's.
 * @param trace  Copied; its functions may be NULL.
 */
wherry_code wh_db_trace(wherry_db *inner, const wh_trace *trace, wherry_db **out,
			wherry_error *err);

/* The connection in a wrapper, which is freed; any other connection is returned as it is. */
wherry_db *wh_db_untrace(wherry_db *db);

#endif
