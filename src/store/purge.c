#include "store/purge.h"

typedef struct purging {
	wh_store *store;
	const wh_stmt *stmt;
	wh_param params[3];
	int64_t after; /* The id after which the batch begins. */
	int64_t n, looked,
		last; /* Of a batch: rows that it deleted and looked at; the last id. */
} purging;

static wherry_code count_row(void *ctx, const wh_row *row, wherry_error *err)
{
	purging *p = ctx;
	int64_t id = wh_row_int(row, 0), rows = p->store->segmented ? id : 1;

	(void)err;
	p->looked += rows;
	p->n += wh_row_int(row, 1) ? 0 : rows; /* It stays: somebody has locked it. */
	p->last = id > p->last ? id : p->last;
	return WHERRY_OK;
}

static wherry_code purge_batch(void *ctx, wherry_error *err)
{
	purging *p = ctx;
	int64_t changed = 0;
	wherry_code code;

	p->n = p->looked = 0;
	p->last = p->after;
	code = wh_db_run(p->store->db, p->stmt, p->params, 3, count_row, p, &changed,
			 err);
	if (!p->looked && !p->store->segmented) /* The statement returns no rows. */
		p->n = p->looked = changed;
	return wh_store_missing(p->store->model, p->store->name.ptr, code, err);
}

wherry_code wh_store_purge(wh_store *store, const wh_stmt *stmt, int64_t older_than_us,
			   int64_t batch, int64_t max_rows, int64_t *after,
			   int64_t *out_n, wherry_error *err)
{
	purging p = {.store = store, .stmt = stmt, .last = after ? *after : 0};
	wherry_code code = WHERRY_OK;
	const bool segmented_dry = store->segmented && store->db->rehearses;
	int64_t sum = 0, counted = 0, size;

	if (older_than_us < 0 || batch < 1 || batch > 100000 || max_rows < 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"a purge needs an age, a batch of 1 to 100000 and a limit of 0 or "
			"more");
	if (store->db->rehearses)
		max_rows = batch = 1;
	else if (wherry_db_in_transaction(store->db))
		return wh_fail(err, WHERRY_INVALID,
			       "a transaction is open: a purge needs its own");
	if (!stmt) { /* The layout keeps no delivered rows. */
		if (out_n)
			*out_n = 0;
		return WHERRY_OK;
	}
	do { /* A caller that goes on later looks at no more rows than it may delete. */
		size = max_rows && max_rows - counted < batch ? max_rows - counted
							      : batch;
		p.params[0] = WH_INT_PARAM("age", wh_ms(older_than_us));
		p.params[1] = WH_INT_PARAM("limit", segmented_dry ? 0 : size);
		p.params[2] = WH_INT_PARAM("after", p.last ? p.last : INT64_MIN);
		p.after = p.last;
		code = wh_db_transact_quietly(store->db, purge_batch, &p, err);
		if (code == WHERRY_OK)
			sum += p.n;
		counted = after ? counted + p.looked : sum;
	} while (code == WHERRY_OK && p.looked >= size &&
		 (!max_rows || counted < max_rows));
	if (after)
		*after = code == WHERRY_OK && p.looked >= size ? p.last : 0;
	if (out_n)
		*out_n = sum;
	return code;
}
