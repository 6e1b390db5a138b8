/*
 * What every database promises of a cron, written once: each promise is a test, run on every back
 * end of the outbox's suite.
 */
#ifndef WHERRY_CRON_SUITE_H
#define WHERRY_CRON_SUITE_H

#include "outbox_suite.h"

/* Run all promises on all of these back ends, and then the tests in `more`. */
int cron_suite_run(const outbox_backend *const *backends, size_t n_backends,
		   const struct CMUnitTest *more, size_t n_more);

#endif
