/*
 * The right to work on a table of messages, what to claim there, and what became of it.
 */
#ifndef WHERRY_LEASE_H
#define WHERRY_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/export.h>

/* What a relay does with a delivered message. */
typedef enum wherry_on_done {
	WHERRY_MARK,    /* state done, purged after the retention */
	WHERRY_DELETE,  /* gone at once */
	WHERRY_ARCHIVE, /* moved to the table NAME_archive */
	WHERRY_KEEP     /* left as they are: a relay of the stream engine alone */
} wherry_on_done;

/* The right to relay a table: the holder, and a number that fences it.  Plain data. */
typedef struct wherry_lease {
	int64_t epoch;    /* grows with each take-over; 0: there is no lease */
	int64_t lasts_us; /* how long it was given for, by the database's clock */
	int64_t suspects; /* >0: the last holder ended uncleanly, with up to this many
	                       messages in flight */
	int32_t number;   /* 0 on SQLite */
	bool paused;      /* the outbox is paused */
	int64_t control_version; /* changes when an operator changed rows behind the relay */
	int64_t first_open;      /* lowest pending id, 0 if none */
	int64_t last_open;       /* highest pending id, 0 if none */
	char owner[96];          /* the holder's name */
	char token
		[40]; /* of competing relays: marks what this one has claimed; else "" */
	char holder
		[40]; /* of a relay that works alone: random, so that no other has it; else "" */
	char reserved[24]; /* zero */
} wherry_lease;            /* 256 bytes: part of the ABI */

/* What to claim; start from WHERRY_CLAIM_OPTIONS(...), which sets `size`. */
typedef struct wherry_claim_options {
	size_t size;      /* sizeof(wherry_claim_options), so that it can grow */
	int64_t limit;    /* at most this many messages, at least 1 */
	int64_t lasts_us; /* until the claim expires unless extended; at most 36500 days */
	bool unordered;   /* keys do not matter */
	bool park;        /* nothing behind a dead message of its key */
	bool failed_only;    /* only what failed before, and is due */
	int64_t below_id;    /* of pending ones only ids below; 0: any */
	int64_t failed_most; /* of failed ones at most this many; 0: any number, -1: none */
} wherry_claim_options;

/* WHERRY_CLAIM_OPTIONS(.limit = 10, .lasts_us = 60000000), in C */
#define WHERRY_CLAIM_OPTIONS(...) WHERRY_SIZED(wherry_claim_options, __VA_ARGS__)

/* One message that could not be delivered; start from WHERRY_FAILURE(...). */
typedef struct wherry_failure {
	size_t size; /* sizeof(wherry_failure); of an array, the same in all */
	int64_t id;
	int64_t delay_us; /* until it may be tried again, at most 36500 days; ignored when dead */
	bool dead;        /* give it up */
	bool counted;     /* its attempt was recorded already: do not count again */
	bool not_counted; /* not its fault: count nothing, take a recorded attempt back */
	int32_t nth; /* which attempt it was, from 1 on: written twice, after an answer
	                     was lost, it counts once; 0: not known */
	const char *error;      /* why; cut at 500 bytes */
	const char *message_id; /* of the message, so that no other row that has taken its
				 * id meanwhile is changed; NULL: whatever has the id */
} wherry_failure;

/* WHERRY_FAILURE(.id = 7, .error = "no answer"), in C */
#define WHERRY_FAILURE(...) WHERRY_SIZED(wherry_failure, __VA_ARGS__)

#endif
