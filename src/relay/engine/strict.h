/*
 * key-strict: a row is delivered only when no lower id of its key can be committed any
 * more.
 */
#ifndef WH_RELAY_ENGINE_STRICT_H
#define WH_RELAY_ENGINE_STRICT_H

#include "outbox/outbox.h"

struct wherry_relay;

typedef struct wh_strict {
	int64_t solid; /* Up to this id, no missing id can be committed any more. */
	int64_t upto;  /* The id that `solid` will be next; 0: none is dated. */
	/* `upto` is solid when all transactions below this number have ended. */
	int64_t number;
	/* Id of the row before which reading stopped; 0: reading goes on. */
	int64_t gap_before;
	int64_t look_us;  /* When to look whether reading may go on. */
	int64_t step_us;  /* Time between two looks. */
	int64_t since_us; /* When reading stopped. */
	bool logged;      /* The log says that reading has stopped for long. */
} wh_strict;

/* Return an error if the outbox was not made for key-strict. */
wherry_code wh_strict_check(const struct wherry_relay *r, wherry_error *err);
void wh_strict_reset(wh_strict *s);

/* Must reading stop before this row? */
bool wh_strict_stops(wh_strict *s, int64_t now, int64_t id);

/*
 * Look whether more ids became solid.
 *
 * @param cursor    Highest id read; only rows above it can fill the gap.
 * @param partial   Other relays deliver some of the rows: a filled gap proves nothing.
 * @param out_more  Set to true if more rows may be read; else unchanged.
 */
wherry_code wh_strict_look(struct wherry_relay *r, wh_strict *s, int64_t now,
			   int64_t cursor, bool partial, bool *out_more,
			   wherry_error *err);

#endif
