/*
 * Shared by retry, replay and discard.
 */
#ifndef WH_CLI_AGAIN_H
#define WH_CLI_AGAIN_H

#include "cli/cli.h"

typedef struct wh_again {
	wherry_code (*change)(wherry_outbox *outbox, const wherry_filter *filter,
			      int64_t *out_n, wherry_error *err);
	const char *wanted; /* The states whose messages it changes, in words. */
	const char *did;    /* Name of the number of changed messages in JSON. */
	const char *says;   /* State of the messages afterwards, in words. */
} wh_again;

/* Read which messages are chosen: by an ID, --all or conditions.  False: it printed what
 * is wrong. */
bool wh_again_filter(const wh_args *args, wherry_filter *out);

/* Change the messages and print how many were changed.  If a message that is named by its
 * ID was not changed, print its state and fail. */
wh_exit wh_again_run(const wh_args *args, wh_session *s, const wh_again *again,
		     const wherry_filter *filter);

/* Print how many messages of a table were discarded. */
void wh_print_discarded(const wh_args *args, int64_t n);

/* Print what became of messages that were received: how many were settled as asked, replaced by a
 * newer offer, or lost to another receiver.  Returns WH_EXIT_FAILED unless all were settled. */
wh_exit wh_print_settled(const wh_args *args, const char *did, int64_t n,
			 int64_t superseded, int64_t lost);

#endif
