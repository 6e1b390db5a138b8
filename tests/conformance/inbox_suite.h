/*
 * What every database promises of an inbox, written once: each promise is a test, run on every
 * back end of the outbox's suite.
 */
#ifndef WHERRY_INBOX_SUITE_H
#define WHERRY_INBOX_SUITE_H

#include "outbox_suite.h"

/* What consumers call: the library, or on the back end of functions SQL that does the same. */
typedef struct inbox_calls {
	__typeof__(wherry_inbox_accept) *accept;
	__typeof__(wherry_inbox_accept_many) *accept_many;
	const suite_skip *skips; /* Ends with a row of NULL. */
} inbox_calls;

/* Run all promises on all of these back ends, and then the tests in `more`. */
int inbox_suite_run(const outbox_backend *const *backends, size_t n_backends,
		    const struct CMUnitTest *more, size_t n_more);

#endif
