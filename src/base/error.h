/*
 * Failing in one statement: return wh_fail(err, WHERRY_TOOBIG, "body is %zu bytes", n);
 */
#ifndef WH_BASE_ERROR_H
#define WH_BASE_ERROR_H

#include <stdbool.h>

#include <wherry/error.h>

#define WH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Fill *err (may be NULL) and return code.  Control characters in the text, which may
 * come from outside, become spaces. */
wherry_code wh_fail(wherry_error *err, wherry_code code, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* The same, with the driver's own number. */
wherry_code wh_fail_native(wherry_error *err, wherry_code code, int native,
			   const char *fmt, ...) WH_PRINTF(4, 5);

/* Put context before the text of an error that was set already; returns code. */
wherry_code wh_prefix(wherry_error *err, wherry_code code, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* The code for an errno, with its text after ours. */
wherry_code wh_fail_errno(wherry_error *err, int number, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* Did a database say so, and not Wherry? */
bool wh_error_of_database(const wherry_error *err);

/* Does the role lack a right on a table, a view or a schema, which a GRANT gives it? */
bool wh_error_lacks_right(const wherry_error *err);

/* Begin a call: *err (may be NULL) is what it is on success. */
void wh_error_clear(wherry_error *err);

wherry_code wh_oom(wherry_error *err);

/* The analyser sees one file at a time: tell it that these return a failure. */
#if defined(__clang_analyzer__) && !defined(WH_BASE_ERROR_C)
#define wh_fail(err, code, ...) ((void)wh_fail(err, code, __VA_ARGS__), (code))
#define wh_fail_native(err, code, native, ...)                                           \
	((void)wh_fail_native(err, code, native, __VA_ARGS__), (code))
#define wh_prefix(err, code, ...) ((void)wh_prefix(err, code, __VA_ARGS__), (code))
#define wh_oom(err) ((void)wh_oom(err), WHERRY_NOMEM)
#endif

#endif
