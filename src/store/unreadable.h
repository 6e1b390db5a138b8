/*
 * Reading past rows that the database cannot send.
 */
#ifndef WH_STORE_UNREADABLE_H
#define WH_STORE_UNREADABLE_H

#include "store/open_row.h"

/* Set the parameters "long" and "body": how many bytes of a text, and of a body, the
 * database sends. */
void wh_store_limits(const wh_store *store, wh_param out[2]);

/* Rows that were read without their texts. */
typedef struct wh_textless_rows {
	wh_open_row *rows;
	size_t n, cap;
} wh_textless_rows;

wh_open_reader wh_textless_reader(wh_textless_rows *textless);
void wh_textless_clear(wh_textless_rows *textless);

/* Visit the rows from index `from` on, with their texts, and skip rows that are not open
 * any more.  The statement by_ids reads rows by the parameter "ids". */
wherry_code wh_textless_visit(wh_store *store, const wh_stmt *by_ids,
			      const wh_textless_rows *textless, size_t from,
			      wh_open_reader *to, wherry_error *err);

/* Run a statement that reads rows.  *out_fails: one of them made it fail, and *why says how.  Otherwise *why
 * is that of the code. */
wherry_code wh_failing_try(wh_store *store, const wh_stmt *stmt, const wh_param *params,
			   size_t n, bool *out_fails, wherry_error *why);

/* Mark a row for which an expression of an adopted table fails: then it can be read.  *out_marked: it did fail, and
 * the mark helps.  Transaction: none. */
wherry_code wh_failing_mark(wh_store *store, int64_t id, bool *out_marked,
			    wherry_error *err);

/* Run a statement that reads rows.  If the database cannot send one of them, continue
 * with wh_read_past_unreadable(). */
wherry_code wh_read_rows(wh_store *store, const wh_stmt *stmt, const wh_stmt *by_ids,
			 wh_param *params, size_t n, wh_open_reader *to,
			 wherry_error *err);

/* Run a statement so that no row can make it fail: a row that the database cannot send is
 * visited without texts.  Skips the rows that `to` has visited already. */
wherry_code wh_read_past_unreadable(wh_store *store, const wh_stmt *stmt,
				    const wh_stmt *by_ids, wh_param *params, size_t n,
				    wh_open_reader *to, wherry_error *err);

/* Visit the rows with these ids that are still open, in id order. */
wherry_code wh_store_read_ids(wh_store *store, const int64_t *ids, size_t n,
			      wh_open_fn visit, void *ctx, wherry_error *err);

/* A query that reads rows page by page. */
typedef struct wh_pages {
	/* Read at most `limit` rows after the last row read; textless: without their
	 * texts. */
	wherry_code (*read)(void *ctx, int64_t limit, bool textless, wherry_error *err);
	void *ctx;
	const int64_t *n; /* Number of rows read; read() increases it. */
} wh_pages;

/* Read at most `most` rows.  A row whose texts the database cannot send is read alone and
 * without texts. */
wherry_code wh_read_pages(wh_store *store, const wh_pages *pages, int64_t most,
			  wherry_error *err);

#endif
