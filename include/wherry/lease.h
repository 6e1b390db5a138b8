/*
 * Leases of relays on a table of messages, options of a claim, and failures to record.
 */
#ifndef WHERRY_LEASE_H
#define WHERRY_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/export.h>

/* The right to relay a table: its holder, and the epoch that fences it.  Plain data. */
typedef struct wherry_lease {
	/* Grows each time the lease is taken over; 0: there is no lease. */
	int64_t epoch;
	/* Duration of the lease, microseconds, by the database's clock. */
	int64_t lasts_us;
	/* Most messages that the last holder had in flight when it ended uncleanly; 0: it
	 * ended cleanly. */
	int64_t suspects;
	/* Number of this lease among those that share the table; 0: it is the only
	 * one. */
	int32_t number;
	bool paused; /* The outbox is paused. */
	/* Changes when an operator has changed rows, so that relays read again. */
	int64_t control_version;
	/* Lowest pending id; 0: none, or the layout is log. */
	int64_t first_open;
	int64_t last_open; /* Highest pending id; 0: none. */
	char owner[96];    /* The holder's name. */
	/* Of a competing relay: marks the messages that it has claimed; else "". */
	char token[40];
	/* Of a relay that works alone: a random text that identifies it; else "". */
	char holder[40];
	char reserved[24]; /* Zero. */
} wherry_lease;            /* 256 bytes, which is part of the ABI. */

/* Selects the messages to claim; start from WHERRY_CLAIM_OPTIONS(...), which sets `size`. */
typedef struct wherry_claim_options {
	size_t size;   /* Set it to sizeof(wherry_claim_options). */
	int64_t limit; /* Most messages to claim; at least 1. */
	/* Time until the claim expires unless it is extended, microseconds, at most 36500
	 * days. */
	int64_t lasts_us;
	bool unordered;      /* Ignore keys. */
	int64_t failed_most; /* Most failed messages to claim; 0: any number; -1: none. */
} wherry_claim_options;

/* In C: WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = 60000000). */
#define WHERRY_CLAIM_OPTIONS(...) WHERRY_SIZED(wherry_claim_options, __VA_ARGS__)

/* One message that could not be delivered; start from WHERRY_FAILURE(...). */
typedef struct wherry_failure {
	size_t size; /* sizeof(wherry_failure); the same in all elements of an array. */
	int64_t id;  /* Id of the message. */
	/* Time until it may be tried again, microseconds, at most 36500 days; ignored if
	 * dead. */
	int64_t delay_us;
	bool dead;    /* Make it dead. */
	bool counted; /* The attempt was recorded already; do not count it again. */
	/* The message did not cause the failure: count no attempt, and take back a
	 * recorded one. */
	bool not_counted;
	/* Number of the attempt, from 1; a failure that is written twice, because an
	 * answer was lost, counts once.  0: not known. */
	int32_t nth;
	const char *error; /* Why it failed; cut at 500 bytes. */
	/* Message_id of the message, so that another row that has its id by now is not
	 * changed; NULL: change the row with this id. */
	const char *message_id;
} wherry_failure;

/* In C: WHERRY_FAILURE(.id = 7, .error = "no answer"). */
#define WHERRY_FAILURE(...) WHERRY_SIZED(wherry_failure, __VA_ARGS__)

#endif
