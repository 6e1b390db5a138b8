/*
 * Reads past rows that the database cannot send, such as a text that cannot be converted
 * to UTF-8.  Such a row makes the whole statement fail.
 *
 * The statement is repeated without texts (:long = -1), to get the ids.  Then the rows
 * are read by their ids: first one, then twice as many each time, and one again after a
 * failure.  A row that fails alone is visited without its texts, together with the
 * database's message.
 */
#include "store/unreadable.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_MOST = 256 };

static wherry_code take_bare(void *ctx, const wh_open_row *row, wherry_error *err)
{
	wh_textless_rows *textless = ctx;
	size_t cap = textless->cap ? textless->cap * 2 : 64;
	wh_open_row *grown = textless->rows;

	if (textless->n == textless->cap)
		grown = realloc(textless->rows, cap * sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	if (textless->n == textless->cap)
		textless->cap = cap;
	textless->rows = grown;
	textless->rows[textless->n++] = (wh_open_row){
		.id = row->id,
		.state = row->state,
		.attempts = row->attempts,
		.created_at_us = row->created_at_us,
		.due_in_us = row->due_in_us,
		.odd = row->odd,
		.no_body = true,
	};
	return WHERRY_OK;
}

wh_open_reader wh_textless_reader(wh_textless_rows *textless)
{
	return (wh_open_reader){take_bare, textless, 0, 0};
}

void wh_textless_clear(wh_textless_rows *textless)
{
	free(textless->rows);
	*textless = (wh_textless_rows){0};
}

/* A run of rows that are read by their ids. */
typedef struct passing {
	const wh_textless_rows *textless;
	size_t at;   /* Index of the first row that was not visited yet. */
	size_t upto; /* End of this run. */
	wh_open_reader *to;
} passing;

static wherry_code pass_on(passing *p, const wh_open_row *row, wherry_error *err)
{
	p->to->n++;
	p->to->last = row->id;
	return p->to->visit(p->to->ctx, row, err);
}

/* Keep the state, attempts and due time of the first read: a claim may have changed the
 * row since. */
static wherry_code take_whole(void *ctx, const wh_open_row *row, wherry_error *err)
{
	passing *p = ctx;
	wh_open_row whole = *row;

	while (p->at < p->upto && p->textless->rows[p->at].id != row->id)
		p->at++; /* This row is not open any more. */
	if (p->at == p->upto)
		return WHERRY_OK;
	whole.state = p->textless->rows[p->at].state;
	whole.attempts = p->textless->rows[p->at].attempts;
	whole.due_in_us = p->textless->rows[p->at].due_in_us;
	p->at++;
	return pass_on(p, &whole, err);
}

static wherry_code read_run(wh_store *store, const wh_stmt *by_ids, passing *p,
			    wherry_error *err)
{
	wh_open_reader reader = {take_whole, p, 0, 0};
	int64_t ids[CHUNK_MOST];
	wh_param params[3];
	wherry_code code;

	for (size_t i = p->at; i < p->upto; i++)
		ids[i - p->at] = p->textless->rows[i].id;
	code = wh_store_ids(store, ids, p->upto - p->at, &params[0], err);
	wh_store_limits(store, &params[1]);
	return code == WHERRY_OK ? wh_db_run(store->db, by_ids, params, 3, wh_take_open,
					     &reader, NULL, err)
				 : code;
}

wherry_code wh_failing_try(wh_store *store, const wh_stmt *stmt, const wh_param *params,
			   size_t n, bool *out_fails, wherry_error *why)
{
	wherry_code code = wh_db_run(store->db, stmt, params, n, NULL, NULL, NULL, why);

	*out_fails = wh_db_about_row(store->db, code, why);
	return *out_fails ? WHERRY_OK : code;
}

wherry_code wh_failing_mark(wh_store *store, int64_t id, bool *out_marked,
			    wherry_error *err)
{
	const wh_store_stmts *stmt = &store->stmt;
	wherry_error why = WHERRY_ERROR_INIT;
	wh_param params[2] = {WH_INT_PARAM("id", id)}, list;
	bool fails = false;
	wherry_code code;

	*out_marked = false;
	if (!stmt->failing_mark)
		return WHERRY_OK;
	code = wh_store_ids(store, &id, 1, &list, &why);
	if (code == WHERRY_OK)
		code = wh_failing_try(store, stmt->failing_ids, &list, 1, &fails, &why);
	if (code == WHERRY_OK && fails) {
		params[1] = WH_TEXT_PARAM("error", wh_view_of(why.message));
		code = wh_db_run(store->db, stmt->failing_mark, params, 2, NULL, NULL,
				 NULL, &why);
		if (code == WHERRY_OK)
			code = wh_failing_try(store, stmt->failing_ids, &list, 1, &fails,
					      &why);
		*out_marked = code == WHERRY_OK && !fails;
	}
	if (*out_marked && stmt->failing_row)
		code = wh_db_run(store->db, stmt->failing_row, params, 1, NULL, NULL,
				 NULL, &why);
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

wherry_code wh_textless_visit(wh_store *store, const wh_stmt *by_ids,
			      const wh_textless_rows *textless, size_t from,
			      wh_open_reader *to, wherry_error *err)
{
	passing p = {.textless = textless, .at = from, .to = to};
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	size_t chunk = 1;

	while (code == WHERRY_OK && p.at < textless->n) {
		size_t n = textless->n - p.at < chunk ? textless->n - p.at : chunk;

		p.upto = p.at + n;
		code = read_run(store, by_ids, &p, &why);
		if (code == WHERRY_OK) {
			p.at = p.upto;
			chunk = chunk * 2 < CHUNK_MOST ? chunk * 2 : CHUNK_MOST;
		} else if (wh_db_about_row(store->db, code, &why)) {
			bool marked = false;

			chunk = 1;
			code = n == 1 ? wh_failing_mark(store, textless->rows[p.at].id,
							&marked, &why)
				      : WHERRY_OK;
			if (code == WHERRY_OK && n == 1 && !marked) {
				wh_open_row row = textless->rows[p.at++];

				row.unreadable = why.message;
				code = pass_on(&p, &row, &why);
			}
		}
	}
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

/* Index of the first row that was not visited before the statement failed. */
static size_t behind(const wh_textless_rows *textless, const wh_open_reader *to)
{
	for (size_t i = textless->n; to->n && i > 0; i--)
		if (textless->rows[i - 1].id == to->last)
			return i;
	return 0;
}

wherry_code wh_read_past_unreadable(wh_store *store, const wh_stmt *stmt,
				    const wh_stmt *by_ids, wh_param *params, size_t n,
				    wh_open_reader *to, wherry_error *err)
{
	wh_textless_rows textless = {0};
	wh_open_reader reader = wh_textless_reader(&textless);
	wherry_code code;

	for (size_t i = 0; i < n; i++)
		if (strcmp(params[i].name, "long") == 0)
			params[i].number = -1;
	code = wh_db_run(store->db, stmt, params, n, wh_take_open, &reader, NULL, err);
	if (code == WHERRY_OK)
		code = wh_textless_visit(store, by_ids, &textless, behind(&textless, to),
					 to, err);
	wh_textless_clear(&textless);
	return code;
}

wherry_code wh_read_rows(wh_store *store, const wh_stmt *stmt, const wh_stmt *by_ids,
			 wh_param *params, size_t n, wh_open_reader *to,
			 wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code =
		wh_db_run(store->db, stmt, params, n, wh_take_open, to, NULL, &why);

	if (wh_db_about_row(store->db, code, &why))
		return wh_read_past_unreadable(store, stmt, by_ids, params, n, to, err);
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

wherry_code wh_read_pages(wh_store *store, const wh_pages *pages, int64_t most,
			  wherry_error *err)
{
	int64_t chunk = most, limit, before;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	bool more = true;

	while (code == WHERRY_OK && more && *pages->n < most) {
		before = *pages->n;
		limit = chunk < most - before ? chunk : most - before;
		code = pages->read(pages->ctx, limit, false, &why);
		more = *pages->n - before == limit;
		chunk = chunk < most / 2 ? chunk * 2 : most;
		if (!wh_db_about_row(store->db, code, &why))
			continue;
		more = true;
		chunk = 1;
		code = limit == 1 ? pages->read(pages->ctx, 1, true, &why) : WHERRY_OK;
	}
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

void wh_store_limits(const wh_store *store, wh_param out[2])
{
	out[0] = WH_INT_PARAM("long", WH_TEXT_MOST);
	out[1] = WH_INT_PARAM("body", store->body_max);
}

wherry_code wh_store_read_ids(wh_store *store, const int64_t *ids, size_t n,
			      wh_open_fn visit, void *ctx, wherry_error *err)
{
	const wh_stmt *stmt = store->stmt.read_ids;
	wh_open_reader reader = {visit, ctx, 0, 0};
	wh_param params[3];
	wherry_code code = wh_store_ids(store, ids, n, &params[0], err);

	if (code != WHERRY_OK)
		return code;
	wh_store_limits(store, &params[1]);
	return wh_read_rows(store, stmt, stmt, params, 3, &reader, err);
}
