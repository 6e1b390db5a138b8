/*
 * key-strict: rows are delivered only when no lower id of their key can be committed any more.
 */
#ifndef WH_RELAY_ENGINE_STRICT_H
#define WH_RELAY_ENGINE_STRICT_H

#include "outbox/outbox.h"

struct wherry_relay;

typedef struct wh_strict {
	int64_t solid;  /* No id up to this one will be committed any more. */
	int64_t upto;   /* Ids that will be solid next; 0: none are dated. */
	int64_t number; /* They are when all transactions below this one have ended. */
	int64_t gap_before; /* Row at which reading stopped; 0: it goes on. */
	int64_t look_us;    /* When to see whether it may go on. */
	int64_t step_us;    /* Time between two looks. */
	int64_t since_us;   /* When reading stopped. */
	bool logged;        /* It is logged that this takes long. */
} wh_strict;

/* Refuse an outbox that is not made for key-strict. */
wherry_code wh_strict_check(const struct wherry_relay *r, wherry_error *err);
void wh_strict_reset(wh_strict *s);

/* Must reading stop before this row? */
bool wh_strict_stops(wh_strict *s, int64_t now, int64_t id);

/*
 * See whether ids became solid.
 *
 * @param cursor    Rows behind it can fill the gap.
 * @param partial   Other relays have some of them: a filled gap says nothing.
 * @param out_more  Set to true if more rows may be read; else unchanged.
 */
wherry_code wh_strict_look(struct wherry_relay *r, wh_strict *s, int64_t now,
			   int64_t cursor, bool partial, bool *out_more,
			   wherry_error *err);

#endif
