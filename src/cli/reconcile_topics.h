/*
 * The topics of the messages that are compared, each once.
 */
#ifndef WH_CLI_RECONCILE_TOPICS_H
#define WH_CLI_RECONCILE_TOPICS_H

#include <stddef.h>

#include "base/error.h"

typedef struct wh_topics {
	char **names; /* Owned, and the texts too. */
	size_t n;
	size_t *slots; /* A hash table of 1 + the place in names; 0: free. */
	size_t n_slots;
	size_t last; /* The topic that was added last; most messages have the same as the one before. */
} wh_topics;

wherry_code wh_topics_add(wh_topics *topics, const char *name, wherry_error *err);
void wh_topics_clear(wh_topics *topics);

#endif
