/*
 * Claims of relays on a table of PostgreSQL while another session holds an old snapshot.
 */
#ifndef WHERRY_CLAIM_COSTS_H
#define WHERRY_CLAIM_COSTS_H

#include "store/claims.h"

typedef struct claim_costs {
	wh_store *store;
	const char *url;    /* of the database, for other sessions */
	const char *table;  /* its name */
	const char *fill;   /* SQL that makes 20,000 messages that are ready */
	const char *remove; /* SQL that deletes those that are claimed */
	const char *
		one_before; /* SQL that leaves one message, before those that were claimed */

	/* Of the relay. */
	wherry_lease lease;
	wh_claim_place place;
} claim_costs;

/* Claims that begin behind the last one cost the same under the snapshot, and a look at everything
 * finds the message before it. */
void claim_costs_check(claim_costs *c);

#endif
