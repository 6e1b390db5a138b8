/*
 * The environment of a command: the message in WHERRY_* variables, and those variables of
 * the relay that are harmless or listed in exec.environment.  So a command does not see
 * the relay's secrets.
 */
#ifndef WH_PUBLISH_ENVIRONMENT_H
#define WH_PUBLISH_ENVIRONMENT_H

#include "publish/driver.h"

typedef struct wh_environment {
	/* Further names to pass on, from exec.environment; borrowed, or NULL. */
	const char *also;
	wh_buf text; /* The WHERRY_* variables, each ending in NUL. */
	char **list; /* For posix_spawn(); ends in NULL. */
	size_t cap;
} wh_environment;

/* The buffer has no limit: the kernel has one, and reports E2BIG. */
#define WH_ENVIRONMENT_INIT                                                              \
	{                                                                                \
		NULL, WH_BUF_INIT(SIZE_MAX / 2), NULL, 0                                 \
	}

/* Refuse a list in which something is not a name, or the beginning of names and a '*', such as NAME=VALUE. */
wherry_code wh_environment_check(const char *list, wherry_error *err);

/* Describe a message.  Every variable is set, to "" if the message lacks the field, so
 * that a script can run under set -u.  list is valid until the next call. */
wherry_code wh_environment_fill(wh_environment *environment, const wherry_message *msg,
				wherry_error *err);
void wh_environment_clear(wh_environment *environment);

#endif
