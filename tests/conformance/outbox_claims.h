/*
 * What tests of claims do again and again; all of it fails the test when it fails.
 */
#ifndef WHERRY_OUTBOX_CLAIMS_H
#define WHERRY_OUTBOX_CLAIMS_H

#include "outbox_suite.h"

enum { MINUTE_US = 60000000 };

extern const wherry_claim_options claim_ten; /* for a minute */

wherry_lease claim_join(outbox_fixture *f, const char *owner);

/* Add a message for each key, a letter; -: none. */
void claim_send(outbox_fixture *f, const char *keys);

/* A claim gives these ids, in this order: "1 3 4". */
void claim_takes(outbox_fixture *f, const wherry_lease *lease,
		 const wherry_claim_options *options, const char *ids);
void claim_takes_expired(outbox_fixture *f, const wherry_lease *lease, const char *ids);

/* As a relay does: some of those that expired together, in their order; several have no
 * attempt on record. */
void claim_takes_share(outbox_fixture *f, const wherry_lease *lease, const char *ids);

/* As if an hour had passed for claims and retries. */
void claim_expiry(outbox_fixture *f);

void claim_done(outbox_fixture *f, const wherry_lease *lease, int64_t id);
void claim_requeue(outbox_fixture *f, const wherry_lease *lease, int64_t id);
void claim_fail(outbox_fixture *f, const wherry_lease *lease, int64_t id,
		int64_t delay_us, bool dead);

/* A claim that lives is this lease's. */
void claim_is_of(outbox_fixture *f, const wherry_lease *lease, int64_t id);

/* A visitor that fails after some visits. */
typedef struct claim_refusal {
	int after; /* so many visits */
	int visits;
} claim_refusal;
wherry_code claim_refuse(void *refusal, const wherry_message *msg);

/* Whatever the lease's holder writes of these changes nothing, and says so. */
void claim_all_refused(outbox_fixture *f, const wherry_lease *lease, const int64_t *ids,
		       size_t n_ids);

#endif
