#include "outbox/period.h"

enum { PAGE = 10000, FIRST_PAGE = 1000 };

wherry_code wh_outbox_can_reconcile(const wherry_outbox *outbox, wherry_error *err)
{
	if (outbox->own.period)
		return WHERRY_OK;
	return wh_store_cannot(&outbox->store,
			       "which cannot be compared with a destination here: only "
			       "Wherry's own outboxes and adopted tables on PostgreSQL "
			       "and SQLite can",
			       err);
}

/* ---- pages of the period ---- */

typedef struct reading {
	int64_t after, limit;
	wh_period period;
	wh_period_fn visit;
	void *ctx;
	int64_t n;     /* Rows of the last page. */
	int64_t first; /* The first number that was read; 0: none. */
	bool done;     /* The visit wants no more. */
} reading;

static const char *text_of(const wh_row *row, int column)
{
	const char *text = wh_row_text(row, column);

	return text ? text : "";
}

static wherry_code take_row(void *ctx, const wh_row *row, wherry_error *err)
{
	reading *r = ctx;
	wherry_code code = wh_row_check(row, err);
	wherry_message message = {.size = sizeof(message)};
	wh_period_row out = {WHERRY_PENDING, &message};

	r->after = message.id = wh_row_int(row, 0);
	r->first = r->first ? r->first : message.id;
	r->n++;
	if (code != WHERRY_OK || r->done || !wh_row_bytes(row, 1).ptr)
		return code;
	out.state = (wherry_state)wh_row_int(row, 1);
	message.created_at_us = wh_us(wh_row_int(row, 2));
	message.message_id = text_of(row, 3);
	message.topic = wh_row_text(row, 4);
	return r->visit(r->ctx, &out, err);
}

static wherry_code read_page(wherry_outbox *outbox, reading *r, wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("after", r->after),
				   WH_INT_PARAM("limit", r->limit),
				   WH_INT_PARAM("since", wh_ms(r->period.since_us)),
				   WH_INT_PARAM("end", wh_ms(r->period.until_us))};

	r->n = 0;
	return wh_db_run(outbox->store.db, outbox->own.period, params, 4, take_row, r,
			 NULL, err);
}

static wherry_code read_pages(wherry_outbox *outbox, reading *r, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	do {
		code = read_page(outbox, r, err);
	} while (code == WHERRY_OK && r->n == r->limit && !r->done);
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

typedef struct first {
	reading reading;
	wh_kept kept;
} first;

static wherry_code take_first(void *ctx, const wh_period_row *row, wherry_error *err)
{
	first *f = ctx;

	(void)err;
	if (row->state != WHERRY_DONE)
		return WHERRY_OK;
	f->kept.delivered = row->message->id;
	f->kept.delivered_us = row->message->created_at_us;
	f->reading.done = true;
	return WHERRY_OK;
}

wherry_code wh_outbox_first_kept(wherry_outbox *outbox, wh_kept *out, wherry_error *err)
{
	first f = {.reading = {.limit = FIRST_PAGE, .visit = take_first, .ctx = &f}};
	wherry_code code = read_pages(outbox, &f.reading, err);

	f.kept.first = f.reading.first;
	if (code == WHERRY_OK)
		*out = f.kept;
	return code;
}

typedef struct filter {
	wh_period_fn visit;
	void *ctx;
} filter;

/* A row that was not made in the period has no topic. */
static wherry_code take_of_period(void *ctx, const wh_period_row *row, wherry_error *err)
{
	const filter *f = ctx;

	return row->message->topic ? f->visit(f->ctx, row, err) : WHERRY_OK;
}

wherry_code wh_outbox_visit_period(wherry_outbox *outbox, const wh_period *period,
				   wh_period_fn visit, void *ctx, wherry_error *err)
{
	const wh_param at = WH_INT_PARAM("at", wh_ms(period->since_us));
	filter f = {visit, ctx};
	reading r = {
		.limit = PAGE, .period = *period, .visit = take_of_period, .ctx = &f};
	int64_t id = 0;
	wherry_code code = wh_db_run(outbox->store.db, outbox->own.first_since, &at, 1,
				     wh_take_int, &id, NULL, err);

	r.after = id - 1;
	if (code != WHERRY_OK || !id)
		return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code,
					err);
	return read_pages(outbox, &r, err);
}

/* ---- some messages ---- */

static wherry_code take_numbered(void *ctx, const wh_row *row, wherry_error *err)
{
	const filter *f = ctx;
	wherry_code code = wh_row_check(row, err);
	wherry_message message = {
		.size = sizeof(message),
		.id = wh_row_int(row, 0),
		.created_at_us = wh_us(wh_row_int(row, 2)),
		.message_id = text_of(row, 3),
		.topic = text_of(row, 4),
		.aggregate_type = text_of(row, 5),
		.aggregate_id = text_of(row, 6),
		.key = wh_row_text(row, 7),
		.headers = text_of(row, 8),
	};
	wh_period_row out = {(wherry_state)wh_row_int(row, 1), &message};

	if (code != WHERRY_OK || !wh_row_bytes(row, 1).ptr)
		return code;
	return f->visit(f->ctx, &out, err);
}

wherry_code wh_outbox_visit_numbers(wherry_outbox *outbox, const int64_t *numbers,
				    size_t n, wh_period_fn visit, void *ctx,
				    wherry_error *err)
{
	filter f = {visit, ctx};
	wh_param ids;
	wherry_code code = wh_store_ids(&outbox->store, numbers, n, &ids, err);

	if (code == WHERRY_OK)
		code = wh_db_run(outbox->store.db, outbox->own.period_rows, &ids, 1,
				 take_numbered, &f, NULL, err);
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

typedef struct again {
	wherry_outbox *outbox;
	const int64_t *numbers;
	size_t n;
	int64_t changed;
} again;

static wherry_code deliver_again(void *ctx, wherry_error *err)
{
	again *a = ctx;
	wh_store *store = &a->outbox->store;
	const wh_param name = WH_TEXT_PARAM("name", store->name);
	wh_param ids;
	wherry_code code = wh_store_ids(store, a->numbers, a->n, &ids, err);

	a->changed = 0;
	if (code == WHERRY_OK)
		code = wh_db_run(store->db, a->outbox->own.deliver_again, &ids, 1, NULL,
				 NULL, &a->changed, err);
	if (code == WHERRY_OK && a->changed)
		code = wh_db_run(store->db, store->stmt.raise_control_version, &name, 1,
				 NULL, NULL, NULL, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

wherry_code wh_outbox_deliver_again(wherry_outbox *outbox, const int64_t *numbers,
				    size_t n, int64_t *out_n, wherry_error *err)
{
	again a = {.outbox = outbox, .numbers = numbers, .n = n};
	wherry_code code = wh_db_transact(outbox->store.db, deliver_again, &a, err);

	if (code == WHERRY_OK)
		*out_n = a.changed;
	return code;
}
