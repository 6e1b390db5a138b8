#ifndef RELAY_LOG_H
#define RELAY_LOG_H

#include "relay_suite.h"

/* Tests of a log alone. */
extern const relay_test relay_log_tests[];

/* For relay_target.except; ends with NULL. */
extern const char *const relay_log_except[];

#endif
