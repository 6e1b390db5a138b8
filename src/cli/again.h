/*
 * Shared by retry and replay: they choose messages to deliver again.
 */
#ifndef WH_CLI_AGAIN_H
#define WH_CLI_AGAIN_H

#include "cli/cli.h"

typedef struct wh_again {
	wherry_code (*change)(wherry_outbox *box, const wherry_filter *filter,
			      int64_t *out_n, wherry_error *err);
	const char *wanted; /* the states it is for, in words */
	const char *did;    /* the name of the number in JSON */
	const char *says;   /* what the messages are now, in words */
} wh_again;

/* Which messages: an ID, or --all, or conditions; false: it said what is wrong. */
bool wh_again_filter(const wh_args *args, wherry_filter *out);

/* Change them and say how many; a message named by its ID must be in a wanted state. */
wh_exit wh_again_run(const wh_args *args, const wh_again *again,
		     const wherry_filter *filter);

#endif
