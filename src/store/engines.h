/*
 * The engines of relays, and which of them may work on one table at the same time.
 */
#ifndef WH_STORE_ENGINES_H
#define WH_STORE_ENGINES_H

#include <stdbool.h>

typedef enum wh_engine {
	WH_COMPETING, /* Each relay claims rows, beside others. */
	WH_STREAM,    /* Streams from the WAL, and writes nothing to rows. */
	/* Reads behind a position, and writes nothing to rows. */
	WH_POSITIONS,
	WH_POSITIONS_SHARED, /* The same where several relays share the partitions. */
	/* Number of engines; also stands for an engine that this version does not
	 * know. */
	WH_ENGINES
} wh_engine;

/* The name in documents and messages: "competing". */
const char *wh_engine_name(wh_engine which);

/* Can a lease with the word of this engine be one of a share? */
bool wh_engine_may_share(wh_engine which);

/* Convert an engine to its word in wherry_lease, and back.  WH_ENGINES: unknown word. */
const char *wh_engine_word(wh_engine which);
wh_engine wh_engine_of(const char *word);

/* Does the engine take new rows from the database's log of commits? */
bool wh_engine_reads_log(wh_engine which);

/* Do rows that a relay of the engine claimed stay claimed after its lease? */
bool wh_engine_claims(wh_engine which);

/* Does the row of a delivered message say that it was delivered? */
bool wh_engine_marks(wh_engine which);

/* Says what a relay does that starts while another one works. */
typedef enum wh_meeting {
	WH_REFUSED,
	WH_STANDS_BY,
	WH_WORKS_BESIDE,
} wh_meeting;

wh_meeting wh_meet_now(wh_engine newcomer, wh_engine holder);

#endif
