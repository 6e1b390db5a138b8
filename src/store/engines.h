/*
 * The ways in which relays work on a table, and which relays may work on it at the same time or
 * one after the other.  docs/internals/engines.md shows the table.
 */
#ifndef WH_STORE_ENGINES_H
#define WH_STORE_ENGINES_H

#include <stdbool.h>

typedef enum wh_engine {
	WH_EXCLUSIVE,   /* has the whole table under one lease */
	WH_PARTITIONED, /* exclusive, on a table made with init --partitions */
	WH_COMPETING,
	WH_STREAM,      /* marks, deletes or archives the rows that it delivered */
	WH_STREAM_KEEP, /* writes nothing to rows: relay.on_done=keep */
	WH_ENGINES      /* their number; also an engine that this version does not know */
} wh_engine;

/* Its name for documents and messages: "competing". */
const char *wh_engine_name(wh_engine which);

/* The word for an engine in wherry_lease, and back. */
const char *wh_engine_word(wh_engine which);
wh_engine wh_engine_of(const char *word);

/* The options that start a relay of this engine: "--engine stream --on-done keep". */
const char *wh_engine_options(wh_engine which);

/* How a relay continues that starts while another one works. */
typedef enum wh_meeting {
	WH_REFUSED,
	WH_STANDS_BY,
	WH_WORKS_BESIDE,
} wh_meeting;

wh_meeting wh_meet_now(wh_engine newcomer, wh_engine holder);

/* May it go on where that one ended?  false: it would deliver everything again. */
bool wh_meet_after(wh_engine newcomer, wh_engine last);

#endif
