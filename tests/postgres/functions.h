/*
 * The SQL functions as a back end of the conformance suites: what a worker in another language calls.
 * Each call has the rights of one kind of role alone, as --grant gives them.  Call postgres_start() first.
 */
#ifndef WHERRY_TEST_FUNCTIONS_H
#define WHERRY_TEST_FUNCTIONS_H

#include <libpq-fe.h>

#include "conformance/outbox_suite.h"

extern const outbox_backend outbox_postgres_functions;

/* The calls of each model. */
extern const struct queue_calls queue_functions;
extern const struct delayed_calls delayed_functions;
extern const struct inbox_calls inbox_functions;
extern const struct outbox_calls outbox_functions;

/* ---- for these ---- */

/* A savepoint, or outside a transaction a transaction: what several calls have done together is taken back
 * if one fails.  Returns code. */
bool functions_begin(wherry_db *db); /* Was a transaction open? */
wherry_code functions_end(wherry_db *db, bool was_open, wherry_code code);

/* Call with these values, as a member of app_ROLE.  In a transaction that is open a failure takes back the call
 * alone, as applications do it with a savepoint.  NULL: it failed; else given. */
PGresult *functions_call(wherry_db *db, const char *role, const char *sql,
			 const char *const *values, int n, wherry_code *out_code,
			 wherry_error *err);

/* A number, and a span of microseconds, as text. */
enum { FUNCTIONS_TEXT = 48 };
const char *functions_number(int64_t n, char out[FUNCTIONS_TEXT]);
const char *functions_span(int64_t us, char out[FUNCTIONS_TEXT]);

/* Bytes in hexadecimal digits; given, free it. */
char *functions_hex(const void *bytes, size_t len);

/* The text of an array of n elements.  `of` returns one, which it may write to `text`, or NULL.  Given, free it. */
enum { FUNCTIONS_ELEMENT = 4096 };
typedef const char *functions_element(const void *msgs, size_t i, int column,
				      char text[FUNCTIONS_ELEMENT]);
char *functions_array(functions_element *of, const void *msgs, size_t n, int column);

/* Bytes as an element of an array of bytea; len may be WHERRY_TEXT. */
const char *functions_bytes(const void *bytes, size_t len, char text[FUNCTIONS_ELEMENT]);

/* The n elements of an array of numbers, 0 for NULL. */
void functions_numbers(const char *array, int64_t *out, size_t n);

/* A function counts messages from 1, the library from 0: as the library says it. */
wherry_code functions_of_many(wherry_code code, wherry_error *err);

/* A column of a row: NULL where it is NULL. */
const char *functions_text(const PGresult *res, int row, int column);
int64_t functions_int(const PGresult *res, int row, int column);

#endif
