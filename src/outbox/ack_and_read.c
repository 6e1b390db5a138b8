/*
 * Acknowledges the previous batch and reads the next one, so that a leader needs one
 * round trip for a batch.
 */
#include "outbox/outbox.h"

static wherry_code read_call(wherry_outbox *outbox, const wh_read_from *from,
			     wh_param *params, wh_call *out, wherry_error *err)
{
	bool late = from->all_open || from->n_gaps;

	params[0] = WH_INT_PARAM("after", from->after);
	params[1] = WH_INT_PARAM("limit", from->limit);
	out->n_params = 5;
	wh_store_limits(&outbox->store, &params[3]);
	out->stmt = late ? outbox->own.sweep : outbox->own.read;
	return wh_store_ranges(&outbox->store, from->gaps, from->n_gaps, &params[2], err);
}

wherry_code wh_partitions_read_params(wherry_outbox *outbox, const wh_read_from *from,
				      wh_param out[WH_PARTITION_READ_PARAMS],
				      wherry_error *err)
{
	wh_partitions_read *partitions = from->partitions;
	wherry_code code;

	out[0] = WH_INT_PARAM("after", from->after);
	out[1] = WH_INT_PARAM("limit", from->limit);
	out[2] = WH_INT_PARAM("each", partitions->each);
	out[3] = WH_INT_PARAM("late", partitions->late);
	out[4] = WH_INT_PARAM("open", from->all_open);
	out[5] = wh_partitions_param(partitions->mask, partitions->list);
	code = wh_store_list(&outbox->store.ranges, partitions->known,
			     partitions->n_known, &out[6], err);
	out[6].name = "known";
	wh_store_limits(&outbox->store, &out[7]);
	return code;
}

static wherry_code share_call(wherry_outbox *outbox, const wh_read_from *from,
			      wh_param *params, wh_call *out, wherry_error *err)
{
	out->n_params = WH_PARTITION_READ_PARAMS;
	out->stmt = outbox->store.stmt.partitions_read;
	return wh_partitions_read_params(outbox, from, params, err);
}

wherry_code wh_outbox_ack_and_read(wherry_outbox *outbox, const wherry_lease *lease,
				   wh_ack *ack, const wh_read_from *from,
				   wh_open_fn visit, void *ctx, bool statements,
				   wh_horizon *horizon, wherry_error *err)
{
	wh_param params[WH_PARTITION_READ_PARAMS];
	wh_param asked[WH_HORIZON_PARAMS];
	wh_open_reader reader = {visit, ctx, 0, 0};
	wherry_error why = WHERRY_ERROR_INIT;
	wh_call calls[3],
		read = {.params = params, .visit = wh_take_open, .ctx = &reader};
	size_t n = 0;
	wherry_code code = from->partitions ? share_call(outbox, from, params, &read, err)
					    : read_call(outbox, from, params, &read, err);

	if (code != WHERRY_OK)
		return code;
	wh_horizon_params(outbox, lease, statements, asked);
	if (ack) {
		ack->call.params = ack->params;
		calls[n++] = ack->call;
	}
	calls[n++] = read;
	calls[n++] = (wh_call){.stmt = outbox->own.horizon,
			       .params = asked,
			       .n_params = WH_HORIZON_PARAMS,
			       .visit = wh_take_horizon,
			       .ctx = horizon};
	code = wh_db_run_all(outbox->store.db, calls, n, &why);
	if (ack)
		ack->call.changed = calls[0].changed;
	if (wh_db_about_row(outbox->store.db, code, &why)) {
		code = wh_read_past_unreadable(&outbox->store, read.stmt,
					       outbox->store.stmt.read_ids, params,
					       read.n_params, &reader, &why);
		if (code == WHERRY_OK)
			code = wh_outbox_horizon(outbox, lease, statements, horizon,
						 &why);
	}
	if (code != WHERRY_OK && err)
		*err = why;
	outbox->store.rows_read += reader.n;
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}
