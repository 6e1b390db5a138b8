/*
 * What every database promises of a cron, written once: each promise is a test, run on every back
 * end of the outbox's suite.
 */
#ifndef WHERRY_CRON_SUITE_H
#define WHERRY_CRON_SUITE_H

#include "outbox_suite.h"

/*
 * Run all promises on all of these back ends.
 *
 * @param layout  Of the delayed queue; NULL: the native one.  Crons that write into no delayed queue are
 *                tested with that alone.
 */
int cron_suite_run(const char *layout, const outbox_backend *const *backends,
		   size_t n_backends);

#endif
