/*
 * Failing in one statement: return wh_fail(err, WHERRY_TOOBIG, "body is %zu bytes", n);
 */
#ifndef WH_BASE_ERROR_H
#define WH_BASE_ERROR_H

#include <stdbool.h>

#include <wherry/error.h>

#define WH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Fill *err (may be NULL) and return code.  Control characters in the text become spaces,
 * since parts of it may come from outside. */
wherry_code wh_fail(wherry_error *err, wherry_code code, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* Like wh_fail(), with an error number of the driver. */
wherry_code wh_fail_native(wherry_error *err, wherry_code code, int native,
			   const char *fmt, ...) WH_PRINTF(4, 5);

/* Prefix the text of an error that is set already; return code. */
wherry_code wh_prefix(wherry_error *err, wherry_code code, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* Say what repairs the table of this name (NULL: it is not known), beside the message of an
 * error that is set already; return code. */
wherry_code wh_repair(wherry_error *err, wherry_code code, wherry_repair how,
		      unsigned kinds, const char *table);

/* Returns the meaning of an errno, in English. */
const char *wh_errno_text(int number);

/* Like wh_fail(), with the code for an errno, and append its text. */
wherry_code wh_fail_errno(wherry_error *err, int number, const char *fmt, ...)
	WH_PRINTF(3, 4);

/* Did the error come from a database, and not from Wherry? */
bool wh_error_of_database(const wherry_error *err);

/* Does the role lack a right on a table, view or schema that a GRANT gives? */
bool wh_error_lacks_right(const wherry_error *err);

/* Before the name of the role in a message about a missing right, which ends with ")". */
#define WH_ERROR_ROLE " (role "

enum { WH_ROLE_LEN = 128 };

/* Write the role that lacks a right.  False: the message does not name it. */
bool wh_error_role(const wherry_error *err, char out[WH_ROLE_LEN]);

/* Set *err (may be NULL) to success.  Called at the beginning of each public function. */
void wh_error_clear(wherry_error *err);

wherry_code wh_oom(wherry_error *err);

/* The analyser sees one file at a time.  These macros show it that the functions return
 * the given code. */
#if defined(__clang_analyzer__) && !defined(WH_BASE_ERROR_C)
#define wh_fail(err, code, ...) ((void)wh_fail(err, code, __VA_ARGS__), (code))
#define wh_fail_native(err, code, native, ...)                                           \
	((void)wh_fail_native(err, code, native, __VA_ARGS__), (code))
#define wh_prefix(err, code, ...) ((void)wh_prefix(err, code, __VA_ARGS__), (code))
#define wh_repair(err, code, ...) ((void)wh_repair(err, code, __VA_ARGS__), (code))
#define wh_oom(err) ((void)wh_oom(err), WHERRY_NOMEM)
#endif

#endif
