/*
 * Wraps a connection: hooks run before and after each call, to log it or to make it fail
 * in tests.
 */
#ifndef WH_DB_TRACE_H
#define WH_DB_TRACE_H

#include "db/driver.h"

typedef struct wh_trace {
	/* Called before a call.  `op` is "begin", "run", …; `what` is the statement's
	 * name or "".  If it returns another code than WHERRY_OK, with err filled, the
	 * call is not made and returns that code. */
	wherry_code (*before)(void *ctx, const char *op, const char *what,
			      wherry_error *err);

	/* Called after a call.  Returns the code that the call returns, usually
	 * `code`. */
	wherry_code (*after)(void *ctx, const char *op, const char *what,
			     wherry_code code, int64_t took_us, wherry_error *err);
	void *ctx;

	/* Called before each row is visited. */
	void (*row)(void *ctx);
} wh_trace;

/*
 * Wrap a connection.
 *
 * @param inner  Owned by the wrapper, which closes it; on failure still owned by the
 *               caller.
 * @param trace  Copied; its functions may be NULL.
 */
wherry_code wh_db_trace(wherry_db *inner, const wh_trace *trace, wherry_db **out,
			wherry_error *err);

/* Free the wrapper and return its inner connection.  Any other connection is returned
 * unchanged. */
wherry_db *wh_db_untrace(wherry_db *db);

#endif
