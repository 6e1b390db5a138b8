#include "log/failing.h"

#include "log/subscription.h"
#include "store/unreadable.h"

enum { FOUND_MOST = 100, PAGE = 1000, NEAR = 12, FAR = 62 };

typedef struct search {
	wh_store *store;
	int64_t found;
} search;

static wherry_code try(search *s, const wh_stmt *stmt, const wh_param *params, size_t n,
		       bool *out_fails, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = wh_failing_try(s->store, stmt, params, n, out_fails, &why);

	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

/* A row that failed alone. */
static wherry_code mark(search *s, int64_t id, wherry_error *err)
{
	bool marked = false;
	wherry_code code = wh_failing_mark(s->store, id, &marked, err);

	s->found += marked;
	return code;
}

/* Rows with after < id <= upto, by halves. */
static wherry_code search_range(search *s, int64_t after, int64_t upto, wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("after", after),
				   WH_INT_PARAM("upto", upto)};
	const int64_t middle = after + (upto - after) / 2;
	bool fails = false;
	wherry_code code;

	if (after >= upto || s->found >= FOUND_MOST)
		return WHERRY_OK;
	code = try(s, s->store->stmt.failing_range, params, 2, &fails, err);
	if (code != WHERRY_OK || !fails)
		return code;
	if (upto - after == 1)
		return mark(s, upto, err);
	code = search_range(s, after, middle, err);
	return code == WHERRY_OK ? search_range(s, middle, upto, err) : code;
}

/* The rows whose distance from an id is between two powers of 2, above it and below. */
static wherry_code search_around(search *s, int64_t high, int first, int end,
				 wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int k = first; code == WHERRY_OK && !s->found && k < end; k++) {
		const int64_t to = (int64_t)1 << k, from = k ? to / 2 : 0;
		const int64_t room = INT64_MAX - high;

		code = search_range(s, from < room ? high + from : INT64_MAX,
				    to < room ? high + to : INT64_MAX, err);
		if (code == WHERRY_OK && from < high)
			code = search_range(s, to < high ? high - to : 0, high - from,
					    err);
	}
	return code;
}

static wherry_code search_ids(search *s, const int64_t *ids, size_t n, wherry_error *err)
{
	bool fails = false;
	wh_param list;
	wherry_code code;

	if (!n || s->found >= FOUND_MOST)
		return WHERRY_OK;
	code = wh_store_ids(s->store, ids, n, &list, err);
	if (code == WHERRY_OK)
		code = try(s, s->store->stmt.failing_ids, &list, 1, &fails, err);
	if (code != WHERRY_OK || !fails)
		return code;
	if (n == 1)
		return mark(s, *ids, err);
	code = search_ids(s, ids, n / 2, err);
	return code == WHERRY_OK ? search_ids(s, ids + n / 2, n - n / 2, err) : code;
}

typedef struct page {
	int64_t ids[PAGE];
	size_t n;
} page;

static wherry_code take_id(void *ctx, const wh_row *row, wherry_error *err)
{
	page *p = ctx;

	if (p->n < PAGE)
		p->ids[p->n++] = wh_row_int(row, 0);
	return wh_row_check(row, err);
}

static wherry_code search_exceptions(search *s, wherry_error *err)
{
	page p = {.n = PAGE};
	int64_t after = INT64_MIN;
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && !s->found && p.n == PAGE) {
		const wh_param params[] = {WH_INT_PARAM("after", after),
					   WH_INT_PARAM("limit", PAGE)};

		p.n = 0;
		code = wh_db_run(s->store->db, s->store->stmt.failing_open, params, 2,
				 take_id, &p, NULL, err);
		if (p.n)
			after = p.ids[p.n - 1];
		if (code == WHERRY_OK)
			code = search_ids(s, p.ids, p.n, err);
	}
	return code;
}

/* The id around which to search. */
static wherry_code find_place(wh_store *store, int64_t high, int64_t *out,
			      wherry_error *err)
{
	const wh_param at = WH_INT_PARAM("high", high);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	*out = high;
	if (!store->stmt.failing_near)
		return WHERRY_OK;
	*out = 0;
	code = wh_store_ask(store, store->stmt.failing_near, &at, 1, out, &why);
	if (wh_db_about_row(store->db, code, &why))
		return WHERRY_OK;
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

wherry_code wh_failing_find(wh_store *store, int64_t *out_n, wherry_error *err)
{
	search s = {.store = store};
	wh_share all = {.mask = UINT64_MAX};
	wh_position at = WH_POSITION_START;
	int64_t near = 0;
	wherry_code code;

	*out_n = 0;
	if (!store->stmt.failing_mark)
		return WHERRY_OK;
	code = wh_progress_read(store, &all, &at, err);
	if (code == WHERRY_NOTFOUND) /* It is being made. */
		code = WHERRY_OK;
	if (code == WHERRY_OK)
		code = find_place(store, at.high, &near, err);
	if (code == WHERRY_OK)
		code = search_around(&s, near, 0, NEAR, err);
	if (code == WHERRY_OK && !s.found)
		code = search_exceptions(&s, err);
	if (code == WHERRY_OK && !s.found)
		code = search_around(&s, near, NEAR, FAR, err);
	wh_position_clear(&at);
	*out_n = s.found;
	return code;
}
