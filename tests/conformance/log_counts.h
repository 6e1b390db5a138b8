/*
 * The numbers of messages in each state and the lists of open ones, compared with the list of all messages.
 */
#ifndef WHERRY_TEST_LOG_COUNTS_H
#define WHERRY_TEST_LOG_COUNTS_H

#include <stdint.h>

#include "outbox/outbox.h"

enum { LOG_COUNTS_ROWS = 40 }; /* Ids are 1 to this. */

/* A random number below n; advances *seed. */
int log_counts_random(uint64_t *seed, int n);

/* Fails the test, with the name of the state that was made, if a count or a list is wrong. */
void log_counts_check(wherry_outbox *outbox, uint64_t *seed, const char *name);

#endif
