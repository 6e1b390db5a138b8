/*
 * Functions for operators: count, status, list, show, pause, purge.
 */
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "log/failing.h"
#include "outbox/filter.h"
#include "outbox/outbox.h"
#include "outbox/rows.h"
#include "store/purge.h"
#include "store/unreadable.h"

enum { ALL_STATES = (1 << WHERRY_STATE_COUNT) - 1, LIST_DEFAULT = 100 };

static wherry_code take_counts(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_counts *counts = ctx;

	(void)err;
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		counts->n[i] = wh_row_int(row, i);
	counts->at_least = (unsigned)wh_row_int(row, WHERRY_STATE_COUNT);
	return WHERRY_OK;
}

wherry_code wh_outbox_count_some(wherry_outbox *outbox, int64_t most, int64_t done,
				 wh_counts *out, wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("most", most),
				   WH_INT_PARAM("done", done)};
	wh_counts counts = {0};
	wherry_code code = WHERRY_OK;

	if (outbox->own.count)
		code = wh_db_run(outbox->store.db, outbox->own.count, params, 2,
				 take_counts, &counts, NULL, err);
	if (code == WHERRY_OK)
		*out = counts;
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

wherry_code wherry_outbox_count(wherry_outbox *outbox,
				int64_t out_count[WHERRY_STATE_COUNT], wherry_error *err)
{
	wh_error_clear(err);
	wh_counts counts;
	wherry_code code =
		wh_outbox_count_some(outbox, INT64_MAX, INT64_MAX, &counts, err);

	if (code == WHERRY_OK)
		memcpy(out_count, counts.n, sizeof(counts.n));
	return code;
}

typedef struct ready {
	int64_t n, age_ms;
} ready;

static wherry_code take_ready(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(ready *)ctx = (ready){wh_row_int(row, 0), wh_row_int(row, 1)};
	return WHERRY_OK;
}

static wherry_code take_age(void *ctx, const wh_row *row, wherry_error *err)
{
	int64_t *age_ms = ctx, age = wh_row_int(row, 0);

	(void)err;
	if (age > *age_ms)
		*age_ms = age;
	return WHERRY_OK;
}

/* Pending messages of a log that are compared with failed ones of their key. */
enum { AGED_MOST = 10000, HELD_MOST = 25000 };

/* Count failed rows that are due.  Find the age of the oldest due or pending row. */
static wherry_code read_ready(wherry_outbox *outbox, ready *out, wherry_error *err)
{
	const wh_param most = WH_INT_PARAM("most", AGED_MOST);
	wherry_code code;

	if (!outbox->own.ready)
		return WHERRY_OK; /* Rows do not record their state. */
	code = wh_db_run(outbox->store.db, outbox->own.ready, NULL, 0, take_ready, out,
			 NULL, err);
	if (code == WHERRY_OK)
		code = wh_db_run(outbox->store.db, outbox->own.oldest_pending, &most, 1,
				 take_age, &out->age_ms, NULL, err);
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

/* Count pending messages that are held by a failed one.  Skip the query if no message has
 * failed. */
static wherry_code count_held(wherry_outbox *outbox, const wh_counts *counts,
			      int64_t *out_n, wherry_error *err)
{
	const wh_stmt *held = outbox->own.held_pending;
	const wh_param most = WH_INT_PARAM("most", HELD_MOST);

	*out_n = 0;
	if (!counts->n[WHERRY_FAILED])
		return WHERRY_OK;
	return wh_store_ask(&outbox->store, held, &most, 1, out_n, err);
}

wherry_code wherry_outbox_oldest_ready(wherry_outbox *outbox, int64_t *out_age_us,
				       wherry_error *err)
{
	wh_error_clear(err);
	ready r = {0};
	wherry_code code = read_ready(outbox, &r, err);

	if (code == WHERRY_OK)
		*out_age_us = wh_us(r.age_ms);
	return code;
}

void wh_outbox_relay_status(const wh_store *store, wh_holder *holder,
			    wherry_outbox_status *out)
{
	wh_holder_look(store, holder);
	out->epoch = holder->epoch;
	out->lease_left_us = holder->left_us;
	memcpy(out->owner, holder->owner, sizeof(out->owner));
	memcpy(out->engine, holder->engine, sizeof(out->engine));
	memcpy(out->state, holder->state, sizeof(out->state));
	out->state_us = holder->state_us;
	memcpy(out->destination, holder->destination, sizeof(out->destination));
	out->delivered = holder->delivered;
	out->delivered_us = holder->delivered_us;
	memcpy(out->error, holder->error, sizeof(out->error));
	out->error_us = holder->error_us;
}

wherry_code wh_outbox_look(wherry_outbox *outbox, wherry_outbox_status *out,
			   wherry_error *err)
{
	wherry_outbox_status status = {.schema_version = outbox->store.version};
	wh_holder holder = WH_HOLDER_NONE;
	int64_t control_version;
	wherry_code code =
		wh_store_control(&outbox->store, &status.paused, &control_version, err);

	if (code == WHERRY_OK)
		code = wh_store_holder(&outbox->store, &holder, err);
	if (code != WHERRY_OK)
		return code;
	wh_outbox_relay_status(&outbox->store, &holder, &status);
	(void)snprintf(status.layout, sizeof(status.layout), "%s",
		       outbox->store.layout.name);
	*out = status;
	return WHERRY_OK;
}

wherry_code wherry_outbox_get_status(wherry_outbox *outbox, wherry_outbox_status *out,
				     size_t size, wherry_error *err)
{
	wh_error_clear(err);
	wherry_outbox_status status;
	wh_counts counts = {0};
	ready r = {0};
	int64_t held = 0;
	wherry_code code = wh_outbox_count_some(outbox, WH_STATUS_MOST, WH_STATUS_DONE,
						&counts, err);

	if (code == WHERRY_OK)
		code = read_ready(outbox, &r, err);
	if (code == WHERRY_OK)
		code = count_held(outbox, &counts, &held, err);
	if (code == WHERRY_OK)
		code = wh_outbox_look(outbox, &status, err);
	if (code != WHERRY_OK)
		return code;
	memcpy(status.count, counts.n, sizeof(status.count));
	status.at_least = counts.at_least;
	if (__builtin_add_overflow(status.count[WHERRY_PENDING], r.n, &status.ready))
		status.ready = INT64_MAX;
	status.ready = status.ready > held ? status.ready - held : 0;
	status.oldest_ready_us = wh_us(r.age_ms);
	wh_sized_write(out, size, &status, sizeof(status));
	return WHERRY_OK;
}

/* ---- list and show ---- */

enum { LIST_PARAMS = WH_FILTER_PARAMS + 6 };

/* Set the parameters that only list statements have.  They follow the filter's parameters
 * and two limits. */
static void list_params(const wherry_outbox_filter *f, wh_param out[4])
{
	out[0] = WH_INT_PARAM("before", f->before_id ? f->before_id : INT64_MAX);
	out[1] = WH_TEXT_PARAM("prefix", wh_view_of(f->topic_prefix));
	out[2] = WH_TEXT_PARAM("text", wh_view_of(f->text));
	out[3] = WH_INT_PARAM("older", wh_ms(f->older_us));
}

/* Set the limits "long" and "body".  Bodies are shown whatever their length. */
static void shown_limits(bool textless, wh_param out[2])
{
	out[0] = WH_INT_PARAM("long", textless ? -1 : WH_TEXT_MOST);
	out[1] = WH_INT_PARAM("body", INT64_C(1) << 40);
}

typedef struct listing {
	wherry_outbox *outbox;
	const wh_stmt *stmt;
	wh_param params[LIST_PARAMS];
	wh_row_visitor v;
} listing;

/* Run a statement that shows rows.  If an expression of an adopted table fails for one of them, it is run again.  Without its
 * texts one row may be read for which an expression fails; then it is marked for others. */
static wherry_code run_shown(wherry_outbox *outbox, const wh_stmt *stmt, wh_param *params,
			     size_t n_params, wh_row_visitor *v, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t found = 0, before = v->n;
	bool marked;
	wherry_code code = wh_db_run(outbox->store.db, stmt, params, n_params,
				     wh_row_visit, v, NULL, &why);

	if (v->textless && v->n == before &&
	    wh_db_about_row(outbox->store.db, code, &why) &&
	    wh_failing_find(&outbox->store, &found, NULL) == WHERRY_OK && found)
		code = wh_db_run(outbox->store.db, stmt, params, n_params, wh_row_visit,
				 v, NULL, &why);
	if (v->textless && code == WHERRY_OK && v->n > before)
		(void)wh_failing_mark(&outbox->store, v->last, &marked, NULL);
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

static wherry_code list_page(void *ctx, int64_t limit, bool textless, wherry_error *err)
{
	listing *l = ctx;

	if (l->v.n && l->v.newest)
		l->params[WH_FILTER_PARAMS + 2] = WH_INT_PARAM("before", l->v.last);
	else if (l->v.n)
		l->params[6] = WH_INT_PARAM("after", l->v.last);
	l->params[7] = WH_INT_PARAM("limit", limit);
	shown_limits(textless, &l->params[WH_FILTER_PARAMS]);
	l->v.textless = textless;
	return run_shown(l->outbox, l->stmt, l->params, LIST_PARAMS, &l->v, err);
}

static const wh_stmt *list_of(const wherry_outbox *outbox,
			      const wherry_outbox_filter *filter, unsigned states)
{
	bool any = states >> WHERRY_DONE & 1;

	if (filter->newest)
		return any ? outbox->own.list_any_newest : outbox->own.list_newest;
	return any ? outbox->own.list_any : outbox->own.list;
}

static wherry_code list_rows(wherry_outbox *outbox, const wherry_outbox_filter *filter,
			     wherry_row_fn visit, void *ctx, wherry_error *err)
{
	unsigned states = filter->states ? filter->states : ALL_STATES;
	listing l = {.outbox = outbox,
		     .stmt = list_of(outbox, filter, states),
		     .v = {.visit = visit, .ctx = ctx, .newest = filter->newest}};
	const wh_pages pages = {list_page, &l, &l.v.n};
	wherry_code code = wh_filter_check(outbox, filter, err);

	if (code != WHERRY_OK)
		return code;
	wh_filter_params(filter, states, LIST_DEFAULT, l.params);
	list_params(filter, &l.params[WH_FILTER_PARAMS + 2]);
	code = wh_read_pages(&outbox->store, &pages,
			     l.params[WH_FILTER_PARAMS - 1].number, err);
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

wherry_code wherry_outbox_list(wherry_outbox *outbox, const wherry_outbox_filter *filter,
			       wherry_row_fn visit, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wherry_outbox_filter own;
	wherry_code code = wh_filter_read(filter, &own, err);

	return code == WHERRY_OK ? list_rows(outbox, &own, visit, ctx, err) : code;
}

static wherry_code show_one(wherry_outbox *outbox, const wh_stmt *stmt, wh_param *params,
			    wh_row_visitor *v, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	v->textless = false;
	shown_limits(false, &params[2]);
	code = wh_db_run(outbox->store.db, stmt, params, 4, wh_row_visit, v, NULL, &why);
	if (wh_db_about_row(outbox->store.db, code, &why)) {
		v->textless = true;
		shown_limits(true, &params[2]);
		code = run_shown(outbox, stmt, params, 4, v, &why);
	}
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

wherry_code wherry_outbox_show(wherry_outbox *outbox, const char *ident,
			       wherry_row_fn visit, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wh_param params[4] = {
		WH_TEXT_PARAM("ident", wh_view_of(ident)),
		WH_INT_PARAM("number", wh_filter_number(ident)),
	};
	wh_row_visitor v = {.visit = visit, .ctx = ctx};
	wherry_code code;

	if (!ident)
		return wh_fail(err, WHERRY_INVALID, "no message named");
	code = wh_filter_check(outbox, &WHERRY_OUTBOX_FILTER(.ident = ident), err);
	if (code != WHERRY_OK)
		return code;
	code = show_one(outbox, outbox->own.show, params, &v, err);
	if (code == WHERRY_OK && !v.n)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "there is no message '%.100s' in outbox '%s'", ident,
			       outbox->store.name.ptr);
	return wh_store_missing(outbox->store.model, outbox->store.name.ptr, code, err);
}

static wherry_code pass_over(void *ctx, const wherry_row *row)
{
	(void)ctx;
	(void)row;
	return WHERRY_OK;
}

wherry_code wh_outbox_probe(wherry_outbox *outbox, wherry_error *err)
{
	const wherry_outbox_filter one = WHERRY_OUTBOX_FILTER(.limit = 1);

	return *outbox->store.limits
		       ? WHERRY_OK
		       : wherry_outbox_list(outbox, &one, pass_over, NULL, err);
}

/* ---- pause and purge ---- */

wherry_code wherry_outbox_pause(wherry_outbox *outbox, wherry_error *err)
{
	wh_error_clear(err);
	return wh_store_pause(&outbox->store, true, err);
}

wherry_code wherry_outbox_resume(wherry_outbox *outbox, wherry_error *err)
{
	wh_error_clear(err);
	return wh_store_pause(&outbox->store, false, err);
}

wherry_code wh_outbox_count_old(wherry_outbox *outbox, int64_t older_than_us,
				int64_t *out_n, wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("age", wh_ms(older_than_us)),
				   WH_INT_PARAM("after", INT64_MIN)};

	return wh_store_ask(&outbox->store, outbox->store.stmt.purge_count, params, 2,
			    out_n, err);
}

wherry_code wherry_outbox_purge(wherry_outbox *outbox, int64_t older_than_us,
				int64_t batch, int64_t max_rows, int64_t *out_n,
				wherry_error *err)
{
	wh_error_clear(err);
	return wh_store_purge(&outbox->store, outbox->store.stmt.purge, older_than_us,
			      batch, max_rows, NULL, out_n, err);
}
