/*
 * Shared by retry and discard.
 */
#ifndef WH_CLI_AGAIN_H
#define WH_CLI_AGAIN_H

#include "cli/cli.h"

/* Read which messages are chosen: by an ID, --all or conditions.  False: it printed what
 * is wrong. */
bool wh_again_filter(const wh_args *args, wherry_outbox_filter *out);

/* Print how many messages of a table were retried, and their state now. */
void wh_print_retried(const wh_args *args, int64_t n, const char *state);

/* Print how many messages of a table were discarded. */
void wh_print_discarded(const wh_args *args, int64_t n);

/* Print what became of messages that were received: how many were settled as asked, replaced by a
 * newer offer, or lost to another receiver.  Returns WH_EXIT_FAILED unless all were settled. */
wh_exit wh_print_settled(const wh_args *args, const char *did, int64_t n,
			 int64_t superseded, int64_t lost);

#endif
