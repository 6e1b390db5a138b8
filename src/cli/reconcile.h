/*
 * `wherry reconcile`: compare what an outbox acknowledged with what its destination holds.
 *
 * The ids of the period are read from the outbox first, and the destination is read afterwards.  So each message that
 * counts as delivered was there before the destination was read.
 */
#ifndef WH_CLI_RECONCILE_H
#define WH_CLI_RECONCILE_H

#include "base/id_set.h"
#include "cli/cli.h"
#include "cli/reconcile_topics.h"
#include "outbox/period.h"
#include "publish/readback.h"

enum {
	WH_RECONCILE_MOST = 100000000, /* Messages of a period. */
	WH_RECONCILE_RECENT_US =
		5000000 /* Acknowledgements may be in progress for so long. */
};

typedef struct wh_reconciled {
	int64_t compared; /* Delivered messages of the period. */
	int64_t there, missing;
	int64_t twice;     /* Of `there`: more than once. */
	int64_t expired;   /* Not there, older than what the destination still has. */
	int64_t compacted; /* Not there, and a later message of its key is. */
	int64_t unknown;   /* Messages of that time that this outbox does not know. */
	int64_t waiting;   /* Messages of the period that are not delivered. */
	int64_t nameless;  /* Delivered messages without a message id. */
	int64_t settling;  /* Delivered messages that were made after the period. */
	int64_t recent; /* Of `missing`: the destination would take them for duplicates now. */
	int64_t again; /* Made pending. */
} wh_reconciled;

/* A missing message. */
typedef void (*wh_missing_fn)(void *ctx, const wherry_message *message);

typedef struct wh_reconcile {
	wherry_outbox *outbox;
	const wherry_config *config;
	const char *to;       /* URL of the destination; NULL: the inbox. */
	const char *inbox;    /* URL of an inbox; NULL: the destination. */
	const char *consumer; /* Of the inbox; NULL: all. */
	wh_period period;
	bool settling; /* The period ends because acknowledgements may be in progress. */
	bool with_expired; /* Count what expired as missing. */
	wh_missing_fn visit;
	void *ctx;

	/* The result. */
	wh_reconciled n;
	int64_t kept_us; /* There are no older delivered messages, and some may be purged; 0: none are. */
	int64_t *missing; /* Numbers, in order; owned. */
	size_t n_missing; /* Of them, those that can be sent again now. */
	wh_buf notes;     /* Lines. */

	/* Messages of the period, and of a margin; those to compare are marked. */
	wh_id_set ids;
	wh_id_set
		slots; /* Of compacted topics: topic and slot of each message that is there. */
	wh_topics topics;
	wh_readback *back;
	int64_t tied; /* The lowest number of those that the destination holds since back->tied_us; 0: none. */
} wh_reconcile;

/* Read the outbox, and then the destination.  The caller calls wh_reconcile_clear() in any case. */
wherry_code wh_reconcile_compare(wh_reconcile *r, wherry_error *err);

/* Visit the missing messages, in order. */
wherry_code wh_reconcile_judge(wh_reconcile *r, wherry_error *err);

/* Make the missing messages pending. */
wherry_code wh_reconcile_deliver(wh_reconcile *r, wherry_error *err);
void wh_reconcile_clear(wh_reconcile *r);

/* An inbox in place of a destination: reconcile_inbox.c. */
wherry_code wh_reconcile_open_inbox(const wh_reconcile *r, const wh_readback_ask *ask,
				    wh_readback **out, wherry_error *err);

#endif
