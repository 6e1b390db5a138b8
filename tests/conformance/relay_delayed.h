/*
 * A delayed queue as a target of the relay's suite: the suite's SQL about an outbox works on a view.
 */
#ifndef RELAY_DELAYED_H
#define RELAY_DELAYED_H

#include "relay_suite.h"

/* The table "gone" keeps delivered messages, which leave the queue; "native" is the view. */
extern const char relay_delayed_sqlite_tables[], relay_delayed_sqlite_views[];
extern const char relay_delayed_postgres_tables[], relay_delayed_postgres_views[];
extern const char relay_delayed_mssql_tables[], relay_delayed_mssql_views[];

/* Tests that a delayed queue does not pass, each for a reason; ends with NULL. */
extern const char *const relay_delayed_except[];

/* Tests of delayed queues alone. */
extern const relay_test relay_delayed_tests[];

/* What targets have in common. */
#define RELAY_DELAYED                                                                    \
	.delayed = true, .is = RELAY_OTHERS | RELAY_IN_ORDER,                            \
	.also = relay_claiming_also, .except = relay_delayed_except,                     \
	.own = relay_delayed_tests, .keeps_ids = true

#endif
