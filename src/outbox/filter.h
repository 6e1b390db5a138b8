/*
 * Filters of messages as parameters of statements.
 */
#ifndef WH_OUTBOX_FILTER_H
#define WH_OUTBOX_FILTER_H

#include "outbox/outbox.h"

enum { WH_FILTER_PARAMS = 8 };

/* The numeric id that `ident` may stand for, in addition to a message id; INT64_MIN if it
 * is not a number. */
int64_t wh_filter_number(const char *ident);

/* Copy a filter of a user, who may have an older form of it. */
wherry_code wh_filter_read(const wherry_outbox_filter *given, wherry_outbox_filter *out,
			   wherry_error *err);

/* Refuse a filter that the layout cannot answer. */
wherry_code wh_filter_check(const wherry_outbox *outbox, const wherry_outbox_filter *f,
			    wherry_error *err);

/* limit: that of a filter without one; -1: none. */
void wh_filter_params(const wherry_outbox_filter *f, unsigned states, int64_t limit,
		      wh_param out[WH_FILTER_PARAMS]);

#endif
