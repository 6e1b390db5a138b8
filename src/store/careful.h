/*
 * Reading past rows that the database cannot send.
 */
#ifndef WH_STORE_CAREFUL_H
#define WH_STORE_CAREFUL_H

#include "store/open_row.h"

/* The parameters "long" and "body" of statements that return texts: bytes of a text, and of a
 * body, that are sent. */
void wh_store_limits(const wh_store *store, wh_param out[2]);

/* Rows without their texts. */
typedef struct wh_bare_rows {
	wh_open_row *rows;
	size_t n, cap;
} wh_bare_rows;

wh_open_reader wh_bare_reader(wh_bare_rows *bare);
void wh_bare_clear(wh_bare_rows *bare);

/* Visit these rows from one on, with their texts; by_ids reads rows by :ids.  Rows that are
 * not open any more are passed over. */
wherry_code wh_bare_visit(wh_store *store, const wh_stmt *by_ids,
			  const wh_bare_rows *bare, size_t from, wh_open_reader *to,
			  wherry_error *err);

/* Run a statement that reads rows; if one of them cannot be sent, as wh_read_carefully(). */
wherry_code wh_read_rows(wh_store *store, const wh_stmt *stmt, const wh_stmt *by_ids,
			 wh_param *params, size_t n, wh_open_reader *to,
			 wherry_error *err);

/* Run it so that no row can fail it: rows that cannot be sent are visited without texts.
 * What `to` says it has visited is left out. */
wherry_code wh_read_carefully(wh_store *store, const wh_stmt *stmt, const wh_stmt *by_ids,
			      wh_param *params, size_t n, wh_open_reader *to,
			      wherry_error *err);

/* The open ones among these ids, in id order. */
wherry_code wh_store_read_ids(wh_store *store, const int64_t *ids, size_t n,
			      wh_open_fn visit, void *ctx, wherry_error *err);

/* Rows that are read page by page. */
typedef struct wh_pages {
	/* Read at most limit rows behind those that were read; bare: without their texts. */
	wherry_code (*read)(void *ctx, int64_t limit, bool bare, wherry_error *err);
	void *ctx;
	const int64_t *n; /* Rows read, which read() counts. */
} wh_pages;

/* Read at most so many rows.  A row whose texts the database cannot send is read alone, and
 * without them. */
wherry_code wh_read_pages(wh_store *store, const wh_pages *pages, int64_t most,
			  wherry_error *err);

#endif
