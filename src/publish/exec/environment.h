/*
 * The environment of a command: the message in WHERRY_* variables, and of our own environment
 * what is harmless or was asked for.  Secrets of the relay stay with the relay.
 */
#ifndef WH_PUBLISH_ENVIRONMENT_H
#define WH_PUBLISH_ENVIRONMENT_H

#include "publish/driver.h"

typedef struct wh_environment {
	const char *
		also; /* Borrowed: further names to pass on, as exec.environment; or NULL. */
	wh_buf text; /* our variables, each ending in NUL */
	char **list; /* for posix_spawn: ends in NULL */
	size_t cap;
} wh_environment;

/* No ceiling: the kernel has one, and says E2BIG. */
#define WH_ENVIRONMENT_INIT                                                              \
	{                                                                                \
		NULL, WH_BUF_INIT(SIZE_MAX / 2), NULL, 0                                 \
	}

/* Describe msg.  All variables are set, to "" where the message has nothing, so that a
 * script may run under set -u.  list is valid until the next call. */
wherry_code wh_environment_fill(wh_environment *environment, const wherry_message *msg,
				wherry_error *err);
void wh_environment_clear(wh_environment *environment);

#endif
