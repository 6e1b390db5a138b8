/*
 * Counts waiting messages up to a limit, for callers that poll.
 */
#include "outbox/outbox.h"

static wherry_code take_backlog(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_backlog *b = ctx;

	(void)err;
	b->pending = wh_row_int(row, 0);
	b->processing = wh_row_int(row, 1);
	b->failed = wh_row_int(row, 2);
	b->dead = wh_row_int(row, 3);
	return WHERRY_OK;
}

static wherry_code count_all(wherry_outbox *outbox, wh_backlog *out, wherry_error *err)
{
	wh_counts counts = {0};
	wherry_code code = wh_outbox_count_some(outbox, WH_BACKLOG_MOST, 0, &counts, err);

	*out = (wh_backlog){
		.pending = counts.n[WHERRY_PENDING],
		.processing = counts.n[WHERRY_PROCESSING],
		.failed = counts.n[WHERRY_FAILED],
		.dead = counts.n[WHERRY_DEAD],
	};
	return code;
}

wherry_code wh_outbox_backlog(wherry_outbox *outbox, wh_backlog *out, wherry_error *err)
{
	const wh_param most = WH_INT_PARAM("most", WH_BACKLOG_MOST);
	wh_backlog b = {.pending = 0};
	wherry_code code;

	if (outbox->own.backlog)
		code = wh_db_run(outbox->store.db, outbox->own.backlog, &most, 1,
				 take_backlog, &b, NULL, err);
	else
		code = count_all(outbox, &b, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_oldest_ready(outbox, &b.oldest_ready_us, err);
	if (code == WHERRY_OK)
		*out = b;
	return code;
}
