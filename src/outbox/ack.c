/*
 * Acknowledgements that are one statement, with the fence in it, and so can travel with the
 * next read: a relay that leads needs one round trip for a batch.
 */
#include "outbox/outbox.h"

static const wh_stmt *find(const wherry_outbox *box, wherry_on_done on_done, bool range)
{
	const wh_store_stmts *stmt = &box->stmt;

	if (on_done == WHERRY_DELETE)
		return range ? stmt->ack_delete_range : stmt->ack_delete;
	return range ? stmt->ack_mark_range : stmt->ack_mark;
}

bool wh_outbox_acks(const wherry_outbox *box, const wherry_lease *lease,
		    wherry_on_done on_done)
{
	return find(box, on_done, false) && !*lease->token && on_done != WHERRY_ARCHIVE &&
	       !wherry_db_in_transaction(box->db);
}

bool wh_outbox_ack(wherry_outbox *box, const wherry_lease *lease, const wh_settlement *s,
		   wh_ack *out)
{
	bool range = wh_ids_in_a_row(s->done, s->n_done);

	if (!s->n_done || s->n_failed || s->n_back || s->try_id ||
	    !wh_outbox_acks(box, lease, s->on_done))
		return false;
	*out = (wh_ack){.n = s->n_done};
	out->params[0] = WH_TEXT_PARAM("name", box->name);
	out->params[1] = WH_INT_PARAM("slot", lease->slot);
	out->params[2] = WH_INT_PARAM("epoch", lease->epoch);
	out->params[3] = WH_INT_PARAM("first", s->done[0]);
	out->params[4] = WH_INT_PARAM("last", s->done[s->n_done - 1]);
	out->call = (wh_call){.stmt = find(box, s->on_done, range), .n_params = 5};
	if (wh_outbox_names(box, s->names, s->n_done, &out->params[5], NULL) != WHERRY_OK)
		return false;
	out->call.n_params = 5 + WH_NAME_PARAMS;
	if (range)
		return true;
	return wh_outbox_ids(box, s->done, s->n_done, &out->params[4], NULL) == WHERRY_OK;
}

bool wh_outbox_acked(const wh_ack *ack)
{
	return ack->call.changed == (int64_t)ack->n;
}

static wherry_code read_call(wherry_outbox *box, const wh_read_from *from,
			     wh_param *params, wh_call *out, wherry_error *err)
{
	bool late = from->all_open || from->n_holes;

	params[0] = WH_INT_PARAM("after", from->after);
	params[1] = WH_INT_PARAM("limit", from->limit);
	out->n_params = 5;
	wh_outbox_limits_of(box, &params[3]);
	out->stmt = late ? box->own.sweep : box->own.read;
	if (from->touched && box->own.sweep_touched)
		out->stmt = box->own.sweep_touched;
	return wh_outbox_ranges(box, from->holes, from->n_holes, &params[2], err);
}

static wherry_code share_call(wherry_outbox *box, const wh_read_from *from,
			      wh_param *params, wh_call *out, wherry_error *err)
{
	out->n_params = WH_SLOTS_READ_PARAMS;
	out->stmt = box->stmt.slots_read;
	return wh_slots_read_params(box, from, params, err);
}

wherry_code wh_outbox_turn(wherry_outbox *box, const wherry_lease *lease, wh_ack *ack,
			   const wh_read_from *from, wh_open_fn visit, void *ctx,
			   bool statements, wh_horizon *horizon, wherry_error *err)
{
	wh_param params[WH_SLOTS_READ_PARAMS];
	wh_param asked[WH_HORIZON_PARAMS];
	wh_open_reader reader = {visit, ctx, 0, 0};
	wherry_error why = WHERRY_ERROR_INIT;
	wh_call calls[3],
		read = {.params = params, .visit = wh_take_open, .ctx = &reader};
	size_t n = 0;
	wherry_code code = from->slots ? share_call(box, from, params, &read, err)
				       : read_call(box, from, params, &read, err);

	if (code != WHERRY_OK)
		return code;
	wh_horizon_params(box, lease, statements, asked);
	if (ack) {
		ack->call.params = ack->params;
		calls[n++] = ack->call;
	}
	calls[n++] = read;
	calls[n++] = (wh_call){.stmt = box->own.horizon,
			       .params = asked,
			       .n_params = WH_HORIZON_PARAMS,
			       .visit = wh_take_horizon,
			       .ctx = horizon};
	code = wh_db_run_all(box->db, calls, n, &why);
	if (ack)
		ack->call.changed = calls[0].changed;
	if (wh_db_about_row(box->db, code, &why)) {
		code = wh_read_carefully(box, read.stmt, box->own.read_ids, params,
					 read.n_params, &reader, &why);
		if (code == WHERRY_OK)
			code = wh_outbox_horizon(box, lease, statements, horizon, &why);
	}
	if (code != WHERRY_OK && err)
		*err = why;
	box->db->found += reader.n;
	return wh_outbox_missing(box->name.ptr, code, err);
}
