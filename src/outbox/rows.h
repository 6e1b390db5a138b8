/*
 * Rows of the statements that list, show and consume messages, for visits of users.
 */
#ifndef WH_OUTBOX_ROWS_H
#define WH_OUTBOX_ROWS_H

#include <wherry/outbox.h>

#include "db/driver.h"

typedef struct wh_row_visitor {
	wherry_row_fn visit;
	void *ctx;
	int64_t n;
	int64_t last; /* Id of the last visited row. */
	bool newest;
	bool whole;    /* Of long texts, too. */
	bool textless; /* Read rows without texts, because the database cannot send them. */
} wh_row_visitor;

/* For wh_db_run(); ctx is a wh_row_visitor.  The code of a visit that is not WHERRY_OK ends the reading. */
wherry_code wh_row_visit(void *ctx, const wh_row *row, wherry_error *err);

#endif
