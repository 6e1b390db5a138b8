/*
 * A queue as a target of the relay's suite: the suite's SQL about an outbox works on a view.
 */
#ifndef RELAY_QUEUE_H
#define RELAY_QUEUE_H

#include "relay_suite.h"

/* The table "gone" keeps delivered messages, which leave a queue; "native" is the view. */
extern const char relay_queue_sqlite_tables[], relay_queue_sqlite_views[];
extern const char relay_queue_postgres_tables[], relay_queue_postgres_views[];
extern const char relay_queue_mssql_tables[], relay_queue_mssql_views[];

/* Tests that a queue does not pass, each for a reason; ends with NULL. */
extern const char *const relay_queue_except[];

/* Tests of queues alone. */
extern const relay_test relay_queue_tests[];

/* What targets have in common. */
#define RELAY_QUEUE                                                                      \
	.queue = true, .is = RELAY_OTHERS | RELAY_IN_ORDER, .also = relay_claiming_also, \
	.except = relay_queue_except, .own = relay_queue_tests, .keeps_ids = true

#endif
