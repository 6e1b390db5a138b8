/*
 * Reads rows for a relay.
 */
#include <inttypes.h>
#include <stdio.h>

#include "outbox/outbox.h"

typedef wh_open_reader visitor;

wherry_code wh_outbox_read(wherry_outbox *outbox, uint64_t partitions, int64_t after,
			   int64_t limit, wh_open_fn visit, void *ctx, wherry_error *err)
{
	wh_param params[5] = {WH_INT_PARAM("after", after), WH_INT_PARAM("limit", limit)};
	visitor v = {visit, ctx, 0, 0};
	wherry_code code;

	if (!outbox->own.read)
		return wh_store_cannot(&outbox->store,
				       "whose rows are only claimed or streamed", err);
	wh_store_limits(&outbox->store, &params[2]);
	params[4] = WH_INT_PARAM("mask", (int64_t)partitions);
	code = wh_read_rows(&outbox->store, outbox->own.read, outbox->store.stmt.read_ids,
			    params, 5, &v, err);
	outbox->store.rows_read += v.n;
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

static wherry_code take_dead_key(void *ctx, const wh_row *row, wherry_error *err)
{
	visitor *v = ctx;
	const wh_open_row open = {
		.id = wh_row_int(row, 0),
		.state = WHERRY_DEAD,
		.aggregate_type = wh_row_bytes(row, 1),
		.aggregate_id = wh_row_bytes(row, 2),
		.key = wh_row_bytes(row, 3),
		.row = row,
	};
	wherry_code code = wh_row_check(row, err);

	v->n++;
	v->last = open.id;
	return code == WHERRY_OK ? v->visit(v->ctx, &open, err) : code;
}

static wherry_code take_dead(void *ctx, const wh_row *row, wherry_error *err)
{
	visitor *v = ctx;
	const wh_open_row open = {.id = wh_row_int(row, 0), .state = WHERRY_DEAD};

	v->n++;
	v->last = open.id;
	return v->visit(v->ctx, &open, err);
}

typedef struct dead_keys {
	wherry_outbox *outbox;
	const wh_stmt *stmt;
	wh_param params[5];
	visitor v;
} dead_keys;

static wherry_code dead_page(void *ctx, int64_t limit, bool textless, wherry_error *err)
{
	dead_keys *d = ctx;

	d->params[0] = WH_INT_PARAM("after", d->v.last);
	d->params[1] = WH_INT_PARAM("limit", limit);
	wh_store_limits(&d->outbox->store, &d->params[3]);
	if (textless)
		d->params[3].number = -1;
	return wh_db_run(d->outbox->store.db, d->stmt, d->params, 5,
			 textless ? take_dead : take_dead_key, &d->v, NULL, err);
}

wherry_code wh_outbox_dead_keys(wherry_outbox *outbox, uint64_t partitions, int64_t after,
				int64_t limit, wh_open_fn visit, void *ctx,
				wherry_error *err)
{
	char list[WH_PARTITION_LIST];
	dead_keys d = {.outbox = outbox,
		       .stmt = outbox->own.dead_keys,
		       .params = {[2] = {.name = "partitions"}},
		       .v = {visit, ctx, 0, after}};
	const wh_pages pages = {dead_page, &d, &d.v.n};

	if (partitions != UINT64_MAX) {
		d.stmt = outbox->store.stmt.partitions_dead_keys;
		d.params[2] = wh_partitions_param(partitions, list);
	}
	return wh_read_pages(&outbox->store, &pages, limit, err);
}
